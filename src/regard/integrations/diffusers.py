"""Regard as an attention backend of diffusers: model.set_attention_backend("regard"), "regard:entmax15", ...

    import regard.integrations.diffusers
    transformer.set_attention_backend("regard:entmax15")

Processors that call diffusers' dispatcher (Flux, SD 3, Wan, ...) find Regard by its name. Older ones call torch's
function directly: they are refused here; use `regard.nn.replace` for them.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from ..core.errors import lacking
from ..core.structures import Window
from ..nn.sdpa_calls import SdpaPlan
from .attention_name import PREFIX, PRESETS, NamedAttention, parse

try:
    from diffusers.models.attention_dispatch import AttentionBackendName, _AttentionBackendRegistry
    from diffusers.models.modeling_utils import ModelMixin
except ImportError as error:
    raise lacking('set_attention_backend("regard")', "diffusers 0.35 or newer", "integrations") from error


def register(name: str) -> str:
    """Make `name` an attention backend of diffusers, and return it: names beyond `PRESETS`.

    model.set_attention_backend(regard.integrations.diffusers.register("regard:top_k=16"))
    """
    spec = parse(name)
    if name != name.lower():
        raise ValueError(f"{name!r}: diffusers writes names of backends in lower case.")
    if name not in AttentionBackendName._value2member_map_:
        _add_member(name)
    _AttentionBackendRegistry.register(AttentionBackendName(name))(_backend(spec))
    return name


def _add_member(value: str) -> None:
    """diffusers accepts only members of its enumeration, and Python has no public way to add one (0.42)."""
    member = str.__new__(AttentionBackendName, value)
    member._name_ = value.upper()
    member._value_ = value
    AttentionBackendName._member_map_[member._name_] = member
    AttentionBackendName._value2member_map_[value] = member
    AttentionBackendName._member_names_.append(member._name_)


def _backend(spec: NamedAttention) -> Callable[..., Tensor]:
    over = None if spec.window is None else Window(spec.window - 1, spec.window - 1)
    plan = SdpaPlan(None, spec.align, over, spec.backend).eval()

    def regard_attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
        return_lse: bool = False,
        _parallel_config: Any = None,
    ) -> Tensor:
        """query (B, n, H, d), key and value (B, m, H_k, d)  ->  out (B, n, H, d_v)"""
        if return_lse or _parallel_config is not None:
            what = "return_lse=True" if return_lse else "context parallelism"
            raise ValueError(f"{spec.name} has no {what}: use diffusers' own backend, set_attention_backend('native').")
        if over is not None and query.shape[1] != key.shape[1]:
            raise ValueError(
                f"{spec.name}: {query.shape[1]} queries and {key.shape[1]} keys: no window in cross-attention, use "
                "a name without window=."
            )
        if attn_mask is not None and attn_mask.ndim == 2 and attn_mask.shape == (query.shape[0], key.shape[1]):
            attn_mask = attn_mask[:, None, None]  # of keys, as diffusers' own backend reads it
        q, k, v = (x.transpose(1, 2) for x in (query, key, value))
        found = plan.forward(q, k, v, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        return found.out.transpose(1, 2)

    return regard_attention


def _check_model(model: ModelMixin, name: str) -> None:
    """diffusers skips processors that do not call its dispatcher; here they are refused."""
    processors = {
        where: getattr(module, "processor", None) for where, module in model.named_modules() if _is_attention(module)
    }
    silent = [where for where, processor in processors.items() if not hasattr(processor, "_attention_backend")]
    if silent or not processors:
        why = (
            f"{silent[0]} has {type(processors[silent[0]]).__name__}, which does not call diffusers' dispatcher"
            if silent
            else "it has no attention module of diffusers"
        )
        raise ValueError(
            f"set_attention_backend({name!r}) would leave {type(model).__name__} unchanged: {why}. Write "
            "regard.nn.replace(model, align=...)."
        )


def _is_attention(module: Any) -> bool:
    from diffusers.models.attention import AttentionModuleMixin
    from diffusers.models.attention_processor import Attention, MochiAttention

    return isinstance(module, (Attention, MochiAttention, AttentionModuleMixin))


def _guard() -> None:
    """Wraps set_attention_backend: models are checked for names that start with "regard"."""
    own = ModelMixin.set_attention_backend
    if getattr(own, "guarded_by_regard", False):
        return

    def set_attention_backend(self: ModelMixin, backend: str) -> None:
        if backend.partition(":")[0] == PREFIX:
            _check_model(self, backend)
        own(self, backend)

    set_attention_backend.guarded_by_regard = True  # type: ignore[attr-defined]
    setattr(ModelMixin, own.__name__, set_attention_backend)


_guard()
for _name in PRESETS:
    register(_name)
