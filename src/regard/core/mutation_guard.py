"""What a lazy map reads later: tensors that must not change in place between attend and the reading.

torch counts the changes of a tensor, except of those made in inference mode: of these a map takes copies.
"""

from copy import copy, deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from .lowering.blocks import Problem
from .lowering.score_kernels import Opaque
from .lowering.serialization import Spec, transform
from .scores import Modified
from .structures.edges import Neighbours

if TYPE_CHECKING:
    from .plan import Plan

Watched = tuple[tuple[str, Tensor, int], ...]  # a name, the tensor, its version then


def unchanged(watched: Watched) -> None:
    """An error if one of them was changed in place: its weights would no longer be those that were used."""
    for name, tensor, version in watched:
        if tensor._version != version:
            raise RuntimeError(
                f"{name} was changed in place after attend: its map can no longer be computed. "
                "Read what you need before, or attend over a copy."
            )


def watch(source: "Plan | Problem") -> "tuple[Plan | Problem, Watched]":
    """What a map is to be read from, and the tensors in it that a later in-place change would make it lie about."""
    named = _named(source)
    if any(x.is_inference() for _, x in named):
        source = _held(source, named)
    return source, tuple([(name, x, x._version) for name, x in named if not x.is_inference()])


def _named(source: "Plan | Problem") -> list[tuple[str, Tensor]]:
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
            if isinstance(source.score, Modified):
                for modifier in source.score.pointwise():
                    _collect(modifier, "score.modifiers", named)
    return named


def _held(source: "Plan | Problem", named: list[tuple[str, Tensor]]) -> "Plan | Problem":
    """The same with copies of those of its tensors that have no version."""
    counted = {id(x) for _, x in named if x.is_inference()}

    def own(x: Tensor) -> Tensor:
        return x.clone() if id(x) in counted else x

    if not isinstance(source, Problem):
        apart = {id(source.q), id(source.k), *(id(x) for _, x in _parts(source.over) + _parts(source.edge_key))}
        if not source.lowered and counted <= apart:
            made = copy(source)
            made._shared = None
            made.q, made.k, made.over, made.edge_key = (
                transform(part, own) for part in (source.q, source.k, source.over, source.edge_key)
            )
            return made
        source = source.problem
        counted |= {id(x) for _, x in _parts(source) if x.is_inference()}
    made_of: Problem = transform(source, own)
    core = made_of.score.core
    if isinstance(core, Opaque):
        uncounted = any(x.is_inference() for _, x in _of_module(core.score, ""))
        score = deepcopy(core.score) if uncounted else core.score
        core = Opaque(score, own(core.a), own(core.b), core.heads, core.features, transform(core.edge, own))
        made_of = replace(made_of, score=replace(made_of.score, core=core))
    return made_of


def _parts(value: Any) -> list[tuple[str, Tensor]]:
    named: list[tuple[str, Tensor]] = []
    _collect(value, "", named)
    return named


def _collect(value: Any, path: str, named: list[tuple[str, Tensor]]) -> None:
    """The tensors of a plan's part, each with where it stands. This runs in every call: a list for each part, of which
    most are constants, took longer than all the rest of it."""
    if isinstance(value, Tensor):
        named.append((_NAMED.get(path, path), value))
    elif isinstance(value, Neighbours):
        return  # made of the caller's edges, and nobody else's
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
