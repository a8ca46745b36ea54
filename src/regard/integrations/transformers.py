"""Regard as the attention of transformers' models: attn_implementation="regard", "regard:entmax15", ...

    import regard.integrations.transformers
    model = AutoModel.from_pretrained(name, attn_implementation="regard:entmax15")

Models call an attention function by its name and build their masks by a second function of that name; both are
registered here. The semantics of the models' keywords follow transformers' `sdpa` and `eager` functions (5.x).
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ..core.attend import Attended, attend
from ..core.errors import lacking
from ..core.modifiers import PairBias, Sink, SoftCap
from ..core.scores import ScaledDot, Score
from ..core.structures import Causal, Mask, Segments, Structure, Window
from ..recording.pretrained import hide_broken_torchvision
from .attention_name import PREFIX, PRESETS, NamedAttention, parse

hide_broken_torchvision()
try:
    from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
    from transformers.masking_utils import and_masks, sdpa_mask
except ImportError as error:
    raise lacking('attn_implementation="regard"', "transformers 5", "transformers") from error


# Keywords without effect on the attention function, which models pass through.
_WITHOUT_EFFECT = {
    "cache_position",
    "deterministic",
    "is_first_iteration",
    "block_table",  # of a paged cache, like the next three and the indices: already applied by the cache
    "logits_indices",
    "logits_processor_args",
    "logits_to_keep",
    "max_length_k",
    "max_length_q",
    "mm_token_type_ids",
    "num_items_in_batch",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "past_key_values",
    "position_embeddings",
    "position_ids",
    "read_index",
    "return_dict",
    "sliding_window",  # already in the model's mask
    "token_type_ids",
    "use_cache",
    "write_index",
}

# Models without SDPA support whose attention was checked to do nothing beyond the keywords.
_EAGER_ONLY_FOLLOWED = {
    "flint",
    "gemma2",
    "gpt_oss",
    "granite_swa",
    "granitemoe_swa",
    "openai_privacy_filter",
    "switch_transformers",
    "t5gemma",
    "vaultgemma",
}


def register(name: str) -> str:
    """Make `name` an attn_implementation of transformers, and return it.

        regard.register("regard:top_k=16,window=256")
        model.set_attn_implementation("regard:top_k=16,window=256")

    The names of `PRESETS` are registered by importing this module; `attention_name.parse` has the grammar.
    """
    spec = parse(name)
    AttentionInterface.register(name, _attention_function(spec))
    AttentionMaskInterface.register(name, _mask_function(spec))
    return name


@contextmanager
def continuous_batching(model: PreTrainedModel) -> Iterator[None]:
    """In this block model.generate_batch (paged cache, continuous batching) runs the model's Regard attention.

        with regard.integrations.transformers.continuous_batching(model):
            model.generate_batch(prompts, generation_config=...)

    transformers prepares its paged cache for the name sdpa (and eager) alone (5.22), so the model has that name
    inside the block, and Regard computes its attention; other models keep torch's.
    """
    name = _wanted(model.config._attn_implementation)
    if name is None:
        raise ValueError(
            f"{type(model).__name__} runs {model.config._attn_implementation!r}: set Regard's attention first, "
            "model.set_attn_implementation('regard:entmax15')."
        )
    if parse(name).window is not None:
        raise ValueError(
            f"{name!r} has a window, which is not supported with a paged cache: use a name without window=."
        )
    names = AttentionInterface()
    ours, torchs, inside = names[name], names["sdpa"], set(map(id, model.modules()))

    def either(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        return (ours if id(module) in inside else torchs)(module, *args, **kwargs)

    model.set_attn_implementation("sdpa")
    AttentionInterface.register("sdpa", either)
    try:
        yield
    finally:
        AttentionInterface.register("sdpa", torchs)
        model.set_attn_implementation(name)


def _attention_function(spec: NamedAttention) -> Callable[..., tuple[Tensor, Tensor | None]]:
    def regard_attention(
        module: torch.nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        dropout: float = 0.0,
        scaling: float | None = None,
        is_causal: bool | None = None,
        *,
        softcap: float | None = None,
        s_aux: Tensor | None = None,
        position_bias: Tensor | None = None,
        cache: Any = None,
        cu_seq_lens_q: Tensor | None = None,
        cu_seq_lens_k: Tensor | None = None,
        **rest: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """query (B, H, n, d), key and value (B, H_k, m, d)  ->  out (B, n, H, d_v), weights (B, H, n, m) or None"""
        if cache is not None:
            rest["cu_seq_lens_k"] = cu_seq_lens_k
            key, value = cache.update(key, value, module.layer_idx, rest)
            cu_seq_lens_k = rest.pop("cu_seq_lens_k")
            if attention_mask is None:
                raise ValueError(_UNMASKED_CACHE.format(name=spec.name))
        _refuse_unknown(spec, module, rest)
        causal = query.shape[2] > 1 and attention_mask is None
        causal = causal and (getattr(module, "is_causal", True) if is_causal is None else bool(is_causal))
        n = query.shape[2]
        if causal and key.shape[2] > n:  # the first step of a static cache, whose later slots are empty
            key, value = key[:, :, :n], value[:, :, :n]
            position_bias = None if position_bias is None else position_bias[..., :n]
        over, bias = _structure(spec, attention_mask, causal, n, key.shape[2], cu_seq_lens_q, cu_seq_lens_k)
        score = _score(scaling, softcap, position_bias, bias, s_aux)
        found: Attended = attend(
            query, key, value, score, spec.align, over, dropout=float(dropout), backend=spec.backend
        )
        weights = found.map.weights() if rest.get("output_attentions") else None
        return found.out.transpose(1, 2).contiguous(), weights

    return regard_attention


_UNMASKED_CACHE = (
    "{name}: continuous batching gave no mask with its paged cache, since transformers prepares one for sdpa and eager "
    "alone: call generate_batch inside `with regard.integrations.transformers.continuous_batching(model):`."
)


def _structure(
    spec: NamedAttention,
    mask: Tensor | None,
    causal: bool,
    n: int,
    m: int,
    cu_q: Tensor | None,
    cu_k: Tensor | None,
) -> tuple[Structure | None, Tensor | None]:
    """The structure of a mask, and the remaining additive bias."""
    parts: list[Structure] = [Causal()] if causal else []
    bias = None
    if mask is not None:
        if mask.dtype == torch.bool:
            parts.append(Mask(mask[..., :m]))
        elif spec.is_softmax:
            bias = mask[..., :m]
        else:  # mask finite minima too: some alignments give every finite score weight
            bias = mask[..., :m]
            keep = bias > torch.finfo(bias.dtype).min / 2
            parts.append(Mask(keep))
            bias = bias.where(keep, 0.0)
    elif cu_q is not None and n == m:
        parts.append(Segments(_segment_ids(cu_q, n)))
    if spec.window is not None and spec.window <= m and getattr(mask, "regard_window", None) != spec.window:
        if n != m:
            raise ValueError(
                f"{spec.name}: {n} queries and {m} keys with a mask that was not built by "
                "create_causal_mask, so the window is undefined. Use a name without window=."
            )
        parts.append(Window(spec.window - 1, spec.window - 1))
    over: Structure | None = None
    for part in parts:
        over = part if over is None else over & part
    return over, bias


def _segment_ids(cu_seq_lens: Tensor, n: int) -> Tensor:
    """cu_seqlens (s + 1,) -> the sequence id of each position, (n,)."""
    places = torch.arange(n, device=cu_seq_lens.device)
    return torch.bucketize(places, cu_seq_lens[1:].to(places.dtype), right=True)


@lru_cache(64)
def _dot(scaling: float | None, softcap: float | None) -> Score:
    score: Score = ScaledDot(scale=scaling)
    return score if softcap is None else score | SoftCap(softcap)


def _score(
    scaling: float | None,
    softcap: float | None,
    position_bias: Tensor | None,
    bias: Tensor | None,
    s_aux: Tensor | None,
) -> Score:
    """q . k * scaling, capped, then biased, then with sinks: the order of transformers' eager functions."""
    score = _dot(None if scaling is None else float(scaling), None if softcap is None else float(softcap))
    for each in (position_bias, bias):
        if each is not None:
            score = score | PairBias(each)
    return score if s_aux is None else score | Sink(s_aux.reshape(-1))


def _refuse_unknown(spec: NamedAttention, module: torch.nn.Module, rest: dict[str, Any]) -> None:
    unknown = sorted(k for k, v in rest.items() if k not in _WITHOUT_EFFECT and isinstance(v, Tensor))
    if unknown:
        raise ValueError(
            f"{type(module).__name__} passes {', '.join(unknown)} to its attention, which {spec.name!r} would ignore. "
            "Use attn_implementation='eager' for this model."
        )


def _mask_function(spec: NamedAttention) -> Callable[..., Tensor | None]:
    """transformers' boolean mask (B, 1, n, m), or None if it is just causal; combined with the window."""
    if spec.window is None:
        return sdpa_mask
    size = spec.window

    def near(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query - key).abs() < size

    def regard_mask(*args: Any, **kwargs: Any) -> Tensor | None:
        kwargs["mask_function"] = and_masks(kwargs["mask_function"], near)
        local = kwargs.get("local_size")
        kwargs["local_size"] = size if local is None else min(local, size)
        mask = sdpa_mask(*args, **kwargs)
        if mask is not None:
            mask.regard_window = size  # type: ignore[attr-defined]
        return mask

    return regard_mask


def _wanted(implementation: "str | dict[str, Any] | None") -> str | None:
    """The first Regard name in the requested implementation."""
    if isinstance(implementation, dict):
        return next((name for each in implementation.values() if (name := _wanted(each))), None)
    named = isinstance(implementation, str) and implementation.partition(":")[0] == PREFIX
    return implementation if named else None


def _check_model(model: PreTrainedModel, name: str) -> None:
    """Refuses models that do not use AttentionInterface, which would silently keep their own attention."""
    who, source = type(model).__name__, sys.modules.get(type(model).__module__)
    chooses_a_class = source is not None and any(x.endswith("ATTENTION_CLASSES") for x in vars(source))
    if chooses_a_class or not model._can_set_attn_implementation():
        raise ValueError(
            f"{who} computes attention in its own code and does not use transformers' AttentionInterface, so "
            f"attn_implementation={name!r} would change nothing. Load it without attn_implementation; regard.record "
            "and regard.intervene work on it."
        )
    folder = type(model).__module__.split(".")[-2:-1]  # transformers.models.gemma2.modeling_gemma2
    if not model._supports_sdpa and not _EAGER_ONLY_FOLLOWED.intersection(folder):
        raise ValueError(
            f"{who} has no SDPA support in transformers: its attention does more than {name!r} supports. Use "
            "attn_implementation='eager' for this model."
        )
    if parse(name).window is not None and getattr(model.config, "is_encoder_decoder", False):
        raise ValueError(f"{who} has cross-attention, where a window is undefined: use a name without window=.")


def _guard() -> None:
    """Wraps the setters: transformers accepts registered names for every model, so check them first (5.22)."""
    checked, set_later = PreTrainedModel.get_correct_attn_implementation, PreTrainedModel.set_attn_implementation
    if getattr(checked, "guarded_by_regard", False):
        return

    def get_correct_attn_implementation(self: PreTrainedModel, requested: str | None, *args: Any, **kw: Any) -> str:
        name = _wanted(requested)
        if name:
            _check_model(self, name)
        return checked(self, requested, *args, **kw)

    def set_attn_implementation(
        self: PreTrainedModel, implementation: "str | dict[str, Any]", *args: Any, **kw: Any
    ) -> Any:
        name = _wanted(implementation)
        if name:
            for module in self.modules():
                if isinstance(module, PreTrainedModel):
                    _check_model(module, name)
        return set_later(self, implementation, *args, **kw)

    get_correct_attn_implementation.guarded_by_regard = True  # type: ignore[attr-defined]
    for method in (get_correct_attn_implementation, set_attn_implementation):
        setattr(PreTrainedModel, method.__name__, method)


_guard()
for _name in PRESETS:
    register(_name)
