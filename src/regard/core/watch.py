"""What a lazy map reads later: tensors that must not change in place between attend and the reading."""

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from .blocks import Problem
from .cores import Opaque
from .spec import Spec

if TYPE_CHECKING:
    from .plan import Plan

Watched = tuple[tuple[str, Tensor, int], ...]  # a name, the tensor, its version then


def unchanged(watched: Watched) -> None:
    """An error if one of them was changed in place: its weights would no longer be those that were used."""
    for name, tensor, version in watched:
        if tensor._version != version:
            raise RuntimeError(f"{name} was changed in place after attend: its map can no longer be computed. "
                               "Read what you need before, or attend over a copy.")  # fmt: skip


def watch(source: "Plan | Problem") -> Watched:
    """Tensors that a later in-place change would make this map lie about."""
    named: list[tuple[str, Tensor]] = []
    if isinstance(source, Problem):
        _collect(source, "", named)
    else:
        named += [("q", source.q), ("k", source.k)]
        _collect(source.edge_key, "over.key", named)
        if source.lowered:  # projections are made; biases, tables and read-outs may be the parameters themselves
            _collect(source.problem, "", named)
        else:
            _collect(source.over, "over", named)
            named += _of_module(source.score, "score") + _of_module(source.align, "align")
    return tuple([(name, x, x._version) for name, x in named if not x.is_inference()])


def _collect(value: Any, path: str, named: list[tuple[str, Tensor]]) -> None:
    """The tensors of a plan's part, each with where it stands. This runs in every call: a list for each part, of which
    most are constants, took longer than all the rest of it."""
    if isinstance(value, Tensor):
        named.append((_NAMED.get(path, path), value))
    elif isinstance(value, Spec):
        for name in value.kept:
            part = getattr(value, name)
            if type(part) not in _PLAIN:
                _collect(part, f"{path}.{name}" if path else name, named)
    elif isinstance(value, tuple):
        for part in value:
            _collect(part, path, named)
    elif isinstance(value, Opaque):
        named += [("q", value.a), ("k", value.b), *_of_module(value.score, "score")]
        _collect(value.edge, "over.key", named)


_PLAIN = frozenset((type(None), bool, int, float, str))  # most of what a plan is made of: not asked twice
_NAMED = {"score.core.a": "q", "score.core.b": "k"}


def _of_module(module: Any, path: str) -> list[tuple[str, Tensor]]:
    if not isinstance(module, nn.Module) or not (module._parameters or module._buffers or module._modules):
        return []
    return [(f"{path}.{name}", x) for name, x in [*module.named_parameters(), *module.named_buffers()]]
