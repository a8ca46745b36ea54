"""Detects in-place changes of tensors that a lazy map still reads, which would change its weights.

torch counts the in-place changes of a tensor (`_version`), except of tensors made in inference mode: a map copies
these.
"""

from copy import copy, deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from .lowering.blocks import Problem
from .lowering.score_kernels import OpaqueCore
from .lowering.serialization import Spec, transform
from .scores import Modified
from .structures.edges import Neighbours

if TYPE_CHECKING:
    from .plan import Plan

WatchedTensors = tuple[tuple[str, Tensor, int], ...]  # name, tensor, version when watched


def check_unchanged(watched: WatchedTensors) -> None:
    """Raises if one of them was changed in place."""
    for name, tensor, version in watched:
        if tensor._version != version:
            raise RuntimeError(
                f"{name} was changed in place after attend: its map can no longer be computed. "
                "Read what you need before, or attend over a copy."
            )


def watch(source: "Plan | Problem") -> "tuple[Plan | Problem, WatchedTensors]":
    """The source of a map, with copies of tensors without a version counter, and the tensors to watch."""
    named = _named_tensors(source)
    if any(x.is_inference() for _, x in named):
        source = _with_copies(source, named)
    return source, tuple([(name, x, x._version) for name, x in named if not x.is_inference()])


def _named_tensors(source: "Plan | Problem") -> list[tuple[str, Tensor]]:
    named: list[tuple[str, Tensor]] = []
    if isinstance(source, Problem):
        _collect(source, "", named)
    else:
        named += [("q", source.q), ("k", source.k)]
        _collect(source.edge_key, "over.key", named)
        if source.lowered:  # projections are computed; biases, tables and read-outs may be the parameters themselves
            _collect(source.problem, "", named)
        else:
            _collect(source.over, "over", named)
            named += _of_module(source.score, "score") + _of_module(source.align, "align")
            if isinstance(source.score, Modified):
                for modifier in source.score.pointwise():
                    _collect(modifier, "score.modifiers", named)
    return named


def _with_copies(source: "Plan | Problem", named: list[tuple[str, Tensor]]) -> "Plan | Problem":
    """The source with copies of its tensors without a version counter."""
    without_version = {id(x) for _, x in named if x.is_inference()}

    def own(x: Tensor) -> Tensor:
        return x.clone() if id(x) in without_version else x

    if not isinstance(source, Problem):
        apart = {
            id(source.q),
            id(source.k),
            *(id(x) for _, x in _tensors_in(source.over) + _tensors_in(source.edge_key)),
        }
        if not source.lowered and without_version <= apart:
            made = copy(source)
            made._shared = None
            made.q, made.k, made.over, made.edge_key = (
                transform(part, own) for part in (source.q, source.k, source.over, source.edge_key)
            )
            return made
        source = source.problem
        without_version |= {id(x) for _, x in _tensors_in(source) if x.is_inference()}
    made_of: Problem = transform(source, own)
    core = made_of.score.core
    if isinstance(core, OpaqueCore):
        uncounted = any(x.is_inference() for _, x in _of_module(core.score, ""))
        score = deepcopy(core.score) if uncounted else core.score
        core = OpaqueCore(score, own(core.a), own(core.b), core.heads, core.features, transform(core.edge, own))
        made_of = replace(made_of, score=replace(made_of.score, core=core))
    return made_of


def _tensors_in(value: Any) -> list[tuple[str, Tensor]]:
    named: list[tuple[str, Tensor]] = []
    _collect(value, "", named)
    return named


def _collect(value: Any, path: str, named: list[tuple[str, Tensor]]) -> None:
    """Appends the tensors of a part of a plan, each with its path. It runs in every planned call, so it appends to one
    list: a list for each part took longer than all the rest."""
    if isinstance(value, Tensor):
        named.append((_SHORT_NAMES.get(path, path), value))
    elif isinstance(value, Neighbours):
        return  # derived from the caller's edges, not shared
    elif isinstance(value, Spec):
        for name in value.kept:
            part = getattr(value, name)
            if type(part) not in _CONSTANTS:
                _collect(part, f"{path}.{name}" if path else name, named)
    elif isinstance(value, tuple):
        for part in value:
            _collect(part, path, named)
    elif isinstance(value, OpaqueCore):
        named += [("q", value.a), ("k", value.b), *_of_module(value.score, "score")]
        _collect(value.edge, "over.key", named)


_CONSTANTS = frozenset((type(None), bool, int, float, str))  # the most frequent fields of a plan: skipped first
_SHORT_NAMES = {"score.core.a": "q", "score.core.b": "k"}


def _of_module(module: Any, path: str) -> list[tuple[str, Tensor]]:
    if not isinstance(module, nn.Module) or not (module._parameters or module._buffers or module._modules):
        return []
    return [(f"{path}.{name}", x) for name, x in [*module.named_parameters(), *module.named_buffers()]]
