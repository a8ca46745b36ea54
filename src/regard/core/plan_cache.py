"""Calls of attend that are known: what their plan would say follows from shapes alone, so that it is made only when
somebody looks at their map.

To check a call, to lower it and to choose its backend takes longer than a small problem does. A call is of a known kind
where its score is a dot product or a Gaussian, alignment and structure hold no tensors and are equal to those of a call
before, and q, k and v are shaped alike. The backend that ran that one says how the next is run (its `known`, where it
has one).
"""

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .alignments import Alignment
from .autograd_fast import PLAIN, transformed
from .lowering.serialization import Parts, Spec, encode
from .maps.attention_map import lead_of
from .mutation_guard import Watched
from .plan import Plan, make_plan
from .registry import BackendResult, backends
from .scores import Dot, Gaussian, ScaledDot, Score
from .structures import Structure

MOST = 4096  # kinds that are kept
NAMES = {"dot", "scaled_dot", "gaussian"}
Kind = tuple[Any, ...]


class CompiledCall(NamedTuple):
    """How to run a call, from q, k and v (B, H, n, d) alone; the axes of its map, and what its plan is made of."""

    run: Callable[[Tensor, Tensor, Tensor], BackendResult]
    lead: tuple[int, ...]
    slab: slice
    backend: str
    score: Score
    align: Alignment


kinds: dict[Kind, CompiledCall | None] = {}  # None: of a kind that has to be planned each time


def kind_of(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    score: "str | Score",
    align: "str | Alignment",
    over: Structure | None,
    backend: str,
) -> Kind | None:
    """What such a call without randomness does follows from this; None where it may follow from more."""
    if type(q) not in PLAIN or type(k) not in PLAIN or type(v) not in PLAIN or q.ndim != 4:
        return None
    if q.is_meta or transformed() is not None or torch.is_autocast_enabled(q.device.type):
        return None
    told = [_scored(score, q), _told(align), _told(over)]
    if None in told:
        return None
    each = [(x.shape, x.dtype, x.device) for x in (q, k, v)]
    return *told, backend, len(backends()), v is k, *each


def _scored(score: Any, q: Tensor) -> Any:
    """The scale of a dot product, the width of a Gaussian; None of every other score."""
    if isinstance(score, str):
        return score if score in NAMES else None
    if type(score) is Gaussian:
        width = score.fixed if score.raw is None and not score.by_feature else None
        return (Gaussian, width) if type(width) is float else None
    scale = score.scale(q) if type(score) in (Dot, ScaledDot) and not score.by_feature else None
    return scale if type(scale) is float else None


def _told(x: "str | Spec | None") -> Any:
    """Something equal for what does the same; None where it holds a tensor, or says nothing about itself."""
    if x is None or isinstance(x, str):
        return () if x is None else x
    if isinstance(x, nn.Module) and any(held is not None for held in (*x._parameters.values(), *x._buffers.values())):
        return None
    parts = Parts([], [], [])
    try:
        text = encode(x, parts)
    except TypeError:
        return None
    return None if parts.tensors else (type(x), text, *parts.ints, *parts.floats)


def learn(kind: Kind, plan: Plan) -> None:
    """The next call of this kind is run without a plan, where the backend of this one knows how."""
    if len(kinds) >= MOST:
        kinds.clear()
    backend = next(backend for backend in backends() if backend.name == plan.backend)
    run = getattr(backend, "known", lambda plan: None)(plan)
    made_of = copy(plan.score), copy(plan.align)  # as they are now
    kinds[kind] = (
        None
        if run is None
        else CompiledCall(run, lead_of(plan), slice(0, plan.batch * plan.heads), plan.backend, *made_of)
    )


class LazyPlan:
    """The plan of a known call, made when something of it is asked."""

    def __init__(self, way: CompiledCall, q: Tensor, k: Tensor, v: Tensor, over: Structure | None):
        self.n, self.m = q.shape[-2], k.shape[-2]
        self._given = way, q, k, v, over

    def __getattr__(self, name: str) -> Any:  # of what is not there yet
        if name.startswith("__") or "_given" not in self.__dict__:
            raise AttributeError(name)
        way, q, k, v, over = self._given
        with torch.autocast(q.device.type, enabled=False):  # as it was
            made = make_plan(q, k, v, way.score, way.align, over)
        made.backend = way.backend
        self.__dict__, self.__class__ = made.__dict__, Plan  # type: ignore[assignment]
        return getattr(self, name)

    def watched(self) -> Watched:
        """q and k with their versions; of those that have none, made in inference mode, it takes copies."""
        way, q, k, v, over = self._given
        if q.is_inference() or k.is_inference():
            q, k = (x.clone() if x.is_inference() else x for x in (q, k))
            self._given = way, q, k, v, over
            return tuple([(name, x, x._version) for name, x in (("q", q), ("k", k)) if not x.is_inference()])
        return (("q", q, q._version), ("k", k, k._version))
