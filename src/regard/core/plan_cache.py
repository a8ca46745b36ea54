"""Cache of call plans, keyed by shapes, score, alignment and structure.

Checking a call, lowering it and choosing its backend takes longer than running a small problem. Where score, alignment
and structure each give a `plan_key` (their plan follows from shapes and constants alone), the backend that ran such a
call says how to run the next one from q, k and v (`Backend.fast_path`), and its plan is built when its map is read.

The key holds everything that determines the backend and the call. The rest is read when the call runs: strides and
addresses (Triton's launches have keys of their own), determinism flags and torch's choice of an SDPA kernel, and
REGARD_CHECK, which concerns values in tensors of a structure: one that holds tensors has no plan_key. Under autocast,
torch.func, tracing or a recording every call is planned.
"""

from collections.abc import Hashable
from copy import copy
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from . import fast_path
from .alignments import ALIGNMENTS, Alignment
from .autocast import without_autocast
from .caches.lru_cache import LruCache
from .maps.attention_map import lead_of
from .mutation_guard import WatchedTensors
from .plan import Plan, make_plan
from .registry import CompiledRun, backends
from .scores import SCORES, Score
from .structures import STRUCTURE_NAMES, Structure
from .torch_private import PLAIN, any_tangent, interpreter_stack

Key = tuple[Hashable, ...]


class CompiledCall(NamedTuple):
    """How to run a call from q, k and v (B, H, n, d) alone; the axes of its map, and the parts of its plan."""

    run: CompiledRun
    lead: tuple[int, ...]
    slab: slice
    n: int
    m: int
    backend: str
    score: Score
    align: Alignment


PLANNED: Literal[False] = False  # marks calls without a fast path
calls: "LruCache[Key, CompiledCall | Literal[False]]" = LruCache(1024)


def key_of(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    score: "str | Score",
    align: "str | Alignment",
    over: "Structure | str | None",
    backend: str,
) -> Key | None:
    """The cache key of a deterministic call; None where the plan may depend on more than the key."""
    if type(q) not in PLAIN or type(k) not in PLAIN or type(v) not in PLAIN:
        return None
    shape, device = q.shape, q.device
    kind = device.type
    if len(shape) != 4 or not fast_path.enabled or kind == "meta" or interpreter_stack() is not None:
        return None
    if torch.is_autocast_enabled(kind) or any_tangent((q, k, v)):
        return None
    scores = SCORES.shared(score) if type(score) is str else score
    aligns = ALIGNMENTS.shared(align) if type(align) is str else align
    if not isinstance(scores, Score) or not isinstance(aligns, Alignment):
        return None  # planning raises the error
    if (score_key := scores.plan_key()) is None or (align_key := aligns.plan_key()) is None:
        return None
    if over is None:
        over_key: Hashable | None = ()
    elif type(over) is str:
        if over not in STRUCTURE_NAMES:
            return None  # planning raises the error
        over_key = over
    elif not isinstance(over, Structure) or (over_key := over.plan_key()) is None:
        return None
    trains = (q.requires_grad or k.requires_grad or v.requires_grad) and torch.is_grad_enabled()
    numbers = (score_key, align_key, over_key, backend, len(backends()), v is k, trains)
    return numbers, shape, k.shape, v.shape, q.dtype, k.dtype, v.dtype, device, k.device, v.device


def learn(key: Key, plan: Plan) -> None:
    """Caches the call: from the third call on, this key runs without a plan if its backend has a fast path."""
    if key in calls or not calls.admits(key):
        return
    backend = next(backend for backend in backends() if backend.name == plan.backend)
    run = backend.fast_path(plan)
    if run is None:
        calls.put(key, PLANNED)
        return
    parts = copy(plan.score), copy(plan.align)  # as they are now
    whole = slice(0, plan.batch * plan.heads)
    calls.put(key, CompiledCall(run, lead_of(plan), whole, plan.n, plan.m, plan.backend, *parts))


_OWN = frozenset(("n", "m", "_arguments", "_backend", "_plan"))


class LazyPlan:
    """The plan of a cached call, made when one of its attributes is first read."""

    def __init__(self, call: CompiledCall, q: Tensor, k: Tensor, v: Tensor, over: "Structure | str | None"):
        self.n, self.m = call.n, call.m
        self._arguments = q, k, v, call.score, call.align, over
        self._backend = call.backend
        self._plan: Plan | None = None

    @property
    def plan(self) -> Plan:
        if self._plan is None:
            with without_autocast(self._arguments[0].device):  # off when the call was made
                plan = make_plan(*self._arguments)
            plan.backend = self._backend
            self._plan = plan
        return self._plan

    def __getattr__(self, name: str) -> Any:  # attributes of the plan
        if name.startswith("__") or name in _OWN:  # a copy under construction
            raise AttributeError(name)
        return getattr(self.plan, name)

    def __str__(self) -> str:
        return str(self.plan)

    def watched(self) -> WatchedTensors:
        """q and k with their versions; tensors without one (inference mode) are copied."""
        q, k, *rest = self._arguments
        if q.is_inference() or k.is_inference():
            q, k = (x.clone() if x.is_inference() else x for x in (q, k))
            self._arguments = (q, k, *rest)  # type: ignore[assignment]
            return tuple([(name, x, x._version) for name, x in (("q", q), ("k", k)) if not x.is_inference()])
        return (("q", q, q._version), ("k", k, k._version))
