"""Replaces the attention of another library's model by Regard's, with the same weights; reversible."""

import inspect
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import lru_cache
from types import TracebackType
from typing import Any

from torch import nn

from ..core.alignments import Alignment
from ..core.scores import Score
from ..core.structures import Structure
from .multihead_attention import MultiheadAttention
from .sdpa_calls import SdpaCalls, SdpaPlan

PLAN = "regard_attention"  # the submodule added to a replaced module
_ASKS = re.compile(r"\b(scaled_dot_product_attention|dispatch_attention_fn)\s*\(")
_COMPUTES = re.compile(r"softmax\s*\(")
_PRODUCT = re.compile(r"@|\b(matmul|bmm|einsum|baddbmm)\s*\(")
_NAMED_ATTENTION = re.compile(r"att(n|ention)|^XCA$|MHSA", re.IGNORECASE)
Undo = Callable[[], None]


class Replacement:
    """Handle of `replace`: undo() restores the model, and so does leaving a with-block.

    names   of the replaced modules, as in model.named_modules()
    """

    def __init__(self, names: tuple[str, ...], steps: list[Undo]):
        self.names, self._steps = names, steps

    def undo(self) -> None:
        """Restores the modules; parameters keep their current values. A second call does nothing."""
        while self._steps:
            self._steps.pop()()

    def __enter__(self) -> "Replacement":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()

    def __repr__(self) -> str:
        shown = ", ".join(self.names[:3]) + (", ..." if len(self.names) > 3 else "")
        state = "" if self._steps else ", undone"
        return f"Replacement({len(self.names)} modules: {shown}{state})"


def replace(
    model: nn.Module,
    *,
    score: "str | Score | None" = None,
    align: "str | Alignment" = "softmax",
    over: Structure | None = None,
    backend: str = "auto",
    only: str = "*",
) -> Replacement:
    """Runs any plan inside a model of torch.nn, timm, diffusers or your own, with its weights; reversible.

        change = regard.nn.replace(model, align="entmax15")
        with regard.nn.replace(model, align="sigmoid", only="blocks.3.*"): ...

    score     None: the model's own product of queries and keys, with its scale, biases and masks; else another score of
              the same queries and keys. An object is copied for each module
    align     a name or an Alignment, copied for each module; its parameters are added to the model
    over      a structure combined with the model's own masks
    only      a pattern of module names; other modules are unchanged

    What is replaced: torch.nn.MultiheadAttention (and with it nn.TransformerEncoder, TransformerDecoder and
    Transformer, whose fast paths are disabled), and modules that call torch's scaled_dot_product_attention (timm, whose
    `fused_attn` is switched on; diffusers' processors and its dispatcher; one's own). Masks, key_padding_mask,
    is_causal, need_weights and dropout keep their meaning. With the defaults the outputs are those of the model itself.

    Modules that compute attention in their own code are refused, and so are models without supported attention:
    nothing is skipped silently. For models of transformers use attn_implementation.
    """
    _refuse_transformers(model)
    chosen: list[tuple[str, nn.Module]] = []
    refused: list[str] = []
    inside: list[str] = []
    for name, module in model.named_modules():
        if not fnmatchcase(name, only) or any(name.startswith(f"{each}.") for each in inside):
            continue
        if isinstance(module, MultiheadAttention | ReplacedSdpa):
            raise ValueError(f"{name or 'The model'} already runs Regard: call undo() of that replacement first.")
        if isinstance(module, nn.MultiheadAttention):
            inside.append(name)
            why = _why_not_torch(module)
            if why:
                refused.append(f"{name} ({why})")
            else:
                chosen.append((name, module))
        elif _asks(module):
            chosen.append((name, module))
        elif _computes(module):
            refused.append(f"{name} ({type(module).__name__} computes attention in its own code)")
    if refused:
        shown = "; ".join(refused[:4]) + (f"; and {len(refused) - 4} more" if len(refused) > 4 else "")
        raise ValueError(
            f"replace() would leave attention unchanged: {shown}. Name the modules to replace with only=, "
            "such as only='blocks.*.attn'; regard.record and regard.intervene work on the others."
        )
    if not chosen:
        raise ValueError(
            f"{type(model).__name__} has no attention for replace(){'' if only == '*' else f' under {only!r}'}: "
            "no torch.nn.MultiheadAttention, and no module that calls torch's scaled_dot_product_attention."
        )
    steps: list[Undo] = []
    try:
        for _, module in chosen:
            if isinstance(module, nn.MultiheadAttention):
                _replace_torch(module, score, align, over, backend, steps)
            else:
                _replace_sdpa(module, SdpaPlan(score, align, over, backend), steps)
        _leave_fast_paths(model, {id(module) for _, module in chosen}, steps)
    except Exception:
        Replacement((), steps).undo()
        raise
    return Replacement(tuple(name for name, _ in chosen), steps)


class ReplacedSdpa:
    """Mixin of modules that call torch's scaled_dot_product_attention: redirects the call to Regard."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with SdpaCalls(getattr(self, PLAN)) as calls:
            out = super().forward(*args, **kwargs)  # type: ignore[misc]
        if not calls.calls:
            raise RuntimeError(
                f"{type(self).__name__} ran without calling torch's scaled_dot_product_attention: it computed "
                "attention in another way, so nothing was replaced. Exclude it from replace() with only=."
            )
        return out


@lru_cache(256)
def _replaced_class(kind: Any) -> type:
    return type(kind.__name__, (ReplacedSdpa, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__})


def _replace_sdpa(module: nn.Module, plan: SdpaPlan, steps: list[Undo]) -> None:
    before, fused = type(module), vars(module).get("fused_attn")
    weight = next(module.parameters(), None)
    plan.train(module.training)
    module.add_module(PLAN, plan if weight is None else plan.to(weight.device))
    kind: Any = before
    module.__class__ = _replaced_class(kind)
    if fused is not None:
        vars(module)["fused_attn"] = True

    def undo() -> None:
        module.__class__ = before
        delattr(module, PLAN)
        if fused is not None:
            vars(module)["fused_attn"] = fused

    steps.append(undo)


def _replace_torch(
    module: nn.MultiheadAttention,
    score: "str | Score | None",
    align: "str | Alignment",
    over: Structure | None,
    backend: str,
    steps: list[Undo],
) -> None:
    before, packed = type(module), module._qkv_same_embed_dim
    plan = SdpaPlan(score, align, over, backend)  # copies of what is handed in
    module.__class__ = MultiheadAttention

    def undo() -> None:
        module.__class__ = before
        module._qkv_same_embed_dim = packed
        for name in ("score", "align"):
            module._modules.pop(name, None)
        for name in ("over", "backend"):
            module.__dict__.pop(name, None)

    steps.append(undo)
    assert isinstance(module, MultiheadAttention)
    module.attend_by(
        score if isinstance(score, str) else plan.score or "scaled_dot",
        align if isinstance(align, str) else plan.align,
        over,
        backend,
    )
    for part in (module.score, module.align):
        part.train(module.training)


def _leave_fast_paths(model: nn.Module, chosen: set[int], steps: list[Undo]) -> None:
    """Disables nested tensors, which a TransformerEncoder chooses at construction for the fast path of its layers."""
    for module in model.modules():
        if not isinstance(module, nn.TransformerEncoder) or not module.use_nested_tensor:
            continue
        if any(id(inner) in chosen for inner in module.modules()):

            def undo(module: nn.TransformerEncoder = module) -> None:
                module.use_nested_tensor = True

            module.use_nested_tensor = False
            steps.append(undo)


def _why_not_torch(module: nn.MultiheadAttention) -> str:
    if type(module).forward is not nn.MultiheadAttention.forward:
        return f"{type(module).__name__} has a forward of its own"
    return ""


def _asks(module: nn.Module) -> bool:
    return bool(_ASKS.search(_source_of(_worker(module))))


def _computes(module: nn.Module) -> bool:
    if _worker(module) is not module:
        return not _asks(module)
    if not _NAMED_ATTENTION.search(type(module).__name__):
        return False
    source = _source_of(module)
    return bool(_COMPUTES.search(source) and _PRODUCT.search(source))


def _worker(module: nn.Module) -> Any:
    """What computes a module's attention: for modules of diffusers, their processor."""
    processor = getattr(module, "processor", None)
    hands_on = processor is not None and re.search(r"self\.processor\s*\(", _source_of(module))
    return processor if hands_on else module


def _source_of(worker: Any) -> str:
    kind: Any = type(worker)
    return _source(kind)


@lru_cache(1024)
def _source(kind: Any) -> str:
    """Source of a class and its bases except torch's own; "" if unavailable."""
    found = []
    for each in kind.__mro__:
        if each is object or each.__module__.partition(".")[0] == "torch":
            continue
        try:
            found.append(inspect.getsource(each))
        except (OSError, TypeError):
            continue
    return "\n".join(found)


def _refuse_transformers(model: nn.Module) -> None:
    for module in model.modules():
        if callable(getattr(module, "set_attn_implementation", None)):
            raise ValueError(
                f"{type(module).__name__} is a model of transformers, which has a switch for this: import "
                "regard.integrations.transformers, then model.set_attn_implementation('regard:entmax15')."
            )
