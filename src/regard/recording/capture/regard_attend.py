"""regard.attend and factored_attend: the map that they return is recorded, not the kernels inside."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from regard.core.attend import Attended, attend, call_hooks
from regard.core.factored.attend import call_hooks as factored_hooks
from regard.core.factored.factored_map import FactoredMap
from regard.core.maps.attention_map import AttentionMap
from regard.core.maps.edges import edge_weights
from regard.core.maps.lazy import LazyMap
from regard.core.plan import Plan
from regard.core.scores import Score
from regard.core.structures import Full, Segments, Structure
from regard.core.structures.edges import Edges

from .calls import ScoredCall, WeightedCall
from .edges.edge_maps import CapturedEdgeCall, CapturedEdges, EdgeGradient
from .function_mode import RecordingMode, active_mode, switches
from .gradient_hook import OnError, on_gradient
from .refcounted_context import RefcountedContext
from .snapshot import copied, copied_factors, graph_of

NAMES = ("q", "k", "v", "score", "align", "over", "dropout", "sample", "seed", "backend", "state", "stats")


def capture_attend(run: Callable[..., tuple[Plan, Attended]], *given: Any) -> Attended:
    mode = active_mode()
    if mode is None:
        return run(*given)[1]

    def whole() -> tuple[Plan, Attended]:
        with mode.paused():
            return run(*given)

    return mode.guarded("regard.attend", lambda: _read(mode, given), whole)[1]


def _read(mode: RecordingMode, given: tuple[Any, ...]) -> tuple[Plan, Attended]:
    plan, made = mode.run()
    call: Any
    if isinstance(made.map, LazyMap) and made.map.graph is not None:
        call = AttendEdgeCall(plan, made, given[NAMES.index("over")])
    else:
        call = AttendCall.of(plan, made, dict(zip(NAMES, given, strict=True)))
    out = mode.dispatch(call, lambda: made.out)
    return plan, made if call.changed is None else replace(made, out=out, map=call.changed.map)


@dataclass(eq=False)
class AttendCall(ScoredCall):
    """A call of attend that is not over edges; `made` is what it returned, `given` what it was called with."""

    plan: Any = None
    made: Any = None
    given: Any = None
    changed: Any = None  # what interventions made of it

    @staticmethod
    def of(plan: Plan, made: Attended, given: dict[str, Any]) -> "AttendCall":
        return AttendCall(
            plan.q,
            plan.k,
            plan.v,
            over=plan.over,
            give=plan.output,
            kernel=plan.backend,
            plan=plan,
            made=made,
            given=given,
        )

    @property
    def score(self) -> Score:
        return self.plan.score

    def map(self) -> AttentionMap:
        return self.made.map

    def snapshot(self, keep: Callable[[Tensor], Tensor], keys: Tensor | None = None) -> "AttendCall":
        with torch.no_grad():
            made = replace(self.made, out=self.made.out[..., :0], map=copied(self.made.map, keep))
        return replace(self, made=made, v=self.v[..., :0], plan=None, given=None, q=self.q[..., :0], k=self.k[..., :0])

    def attended(self, **changed: Any) -> Tensor:
        return self._canonical(attend(**(self.given | changed)).out)

    def _canonical(self, out: Tensor) -> Tensor:
        return out.reshape(self.plan.batch, self.plan.heads, *out.shape[-2:])


class AttendEdgeCall(CapturedEdgeCall):
    """A call of attend over edges. Its weights are computed when somebody asks for them."""

    def __init__(self, plan: Plan, made: Attended, over: Any):
        self.plan, self.made, self.over, self.kernel = plan, made, over, plan.backend
        self.changed: Any = None  # what interventions made of it
        self.root = self.canonical = self.own = self.group = self.changed = None
        self.lead = made.map.lead

    @property
    def heads(self) -> int:
        return self.plan.heads

    @property
    def device(self) -> torch.device:
        return self.plan.q.device

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.plan.q, self.plan.k, self.plan.v

    @cached_property
    def graph(self) -> CapturedEdges:  # type: ignore[override]
        found = self.made.map.graph  # type: ignore[attr-defined]
        parts = () if self.over is None else self.over.parts()
        given = next((part.edge_index for part in parts if isinstance(part, Edges)), None)
        return graph_of(found, self.plan.n, self.plan.m, given)

    @cached_property
    def weights(self) -> Tensor:  # type: ignore[override]
        return edge_weights(self.made.map, torch.is_grad_enabled(), False)[..., self.graph.edge]  # type: ignore[arg-type]

    def map(self) -> AttentionMap:
        return self.made.map

    def give(self, weights: Tensor) -> Tensor:
        """sum over the edges of w_e (v_j + value_e), as attend returns it; without dropout."""
        plan = self.plan
        each = weights.unsqueeze(-1) if weights.ndim == 2 else weights.transpose(-1, -2)
        values = self._values()
        out = values.new_zeros((values.shape[0], plan.n, values.shape[-1]))
        out = out.index_add(1, self.graph.target, (each * values).to(values.dtype))
        made = plan.output(out.unflatten(0, (plan.batch, plan.heads)))
        same = (weights == self.weights).flatten(1).all(-1).view(*self.made.map.lead, 1, 1)
        # Heads that were left alone keep the kernel's own bits; their gradient leads into the weights that were given,
        # which may be equal to the model's and yet be others (a mask of ones, weights held fast).
        return torch.where(same, self.made.out.detach() + (made - made.detach()), made)

    def _values(self) -> Tensor:
        """(g, E', d_v): what each edge carries."""
        values = self.plan.v_by_head.flatten(0, 1)[:, self.graph.source]
        part = self.plan.edge_value
        return values if part is None else values + part.x.flatten(0, 1)[:, self.graph.edge]

    def snapshot(self, keep: Callable[[Tensor], Tensor], keys: Tensor | None = None) -> Any:
        with torch.no_grad():
            return _CapturedMap(copied(self.made.map, keep))

    def gradient(self, out: Any, keep: Callable[[Tensor], Tensor], failed: OnError) -> EdgeGradient | None:
        """dw_e = dy_i . (v_j + value_e), or feature by feature where weights are."""
        if not isinstance(out, Tensor) or not out.requires_grad:
            return None
        amap = self.made.map
        features = () if amap.features is None else (amap.features,)
        with torch.no_grad():
            values, graph = keep(self._values()), self.graph.snapshot(keep)
        made = EdgeGradient((values.shape[0], *features, graph.edge.shape[0]), graph, self.lead)

        def hold(grad: Tensor) -> None:
            each = keep(grad).reshape(values.shape[0], self.plan.n, -1)[:, graph.target] * values
            made.add(each.sum(-1) if not features else each.transpose(-1, -2))

        on_gradient(out, hold, failed)
        return made


class _CapturedMap:
    """What a record keeps of a call over edges."""

    def __init__(self, amap: AttentionMap):
        self._map = amap

    def map(self) -> AttentionMap:
        return self._map


def capture_factored(run: Callable[..., Attended], *given: Any) -> Attended:
    mode = active_mode()
    if mode is None:
        return run(*given)

    def whole() -> Attended:
        with mode.paused():
            return run(*given)

    def read() -> Attended:
        made: Attended = mode.run()
        call = FactoredCall(made, given)
        out = mode.dispatch(call, lambda: made.out)
        return made if call.changed is None else Attended(out, call.changed.map)

    found: Attended = mode.guarded("regard.factored_attend", read, whole)
    return found


class FactoredCall(WeightedCall):
    """A call of factored_attend: weights (B, H, n, n) are formed for an intervention alone."""

    def __init__(self, made: Attended, given: Any):
        self.made, self.given = made, given
        self.changed: Any = None  # what interventions made of it
        self.kernel, self.plain = "factored", False
        self.used = self.own = self.root = self.peak = self.v = None

    @property
    def over(self) -> Structure:
        ids = self.given[3]
        return Full() if ids is None else Segments(ids)

    @cached_property
    def weights(self) -> Tensor:  # type: ignore[override]
        q, k, _, ids, _, own, eps, _ = self.given
        pairs = q @ k.mT
        if ids is not None:
            pairs = pairs.masked_fill(ids[:, None] != ids, 0.0)
        if own is not None:
            pairs = pairs + torch.diag(own.to(pairs.dtype))
        total = pairs.sum(-1, keepdim=True) + eps
        there = total != 0
        return self._canonical(pairs * there / total.where(there, 1.0))

    def give(self, weights: Tensor) -> Tensor:
        v = self.given[2]
        return (weights @ self._canonical(v)).reshape(v.shape).to(v.dtype)

    def _canonical(self, x: Tensor) -> Tensor:
        return x.reshape(-1, self.heads, *x.shape[-2:])

    @property
    def heads(self) -> int:
        lead = self.made.map.lead
        return lead[-1] if lead else 1

    @property
    def device(self) -> torch.device:
        return self.made.out.device

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.given[:3]

    def map(self) -> AttentionMap:
        return self.made.map

    def snapshot(self, keep: Callable[[Tensor], Tensor], keys: Tensor | None = None) -> Any:
        assert isinstance(self.made.map, FactoredMap)
        with torch.no_grad():
            return _CapturedMap(copied_factors(self.made.map, keep))


# attend hands its calls to `capture_attend`, factored_attend to `capture_factored`
@switches.append
@RefcountedContext
@contextmanager
def _attend_captured() -> Iterator[None]:
    call_hooks.append(capture_attend)
    factored_hooks.append(capture_factored)
    try:
        yield
    finally:
        call_hooks.remove(capture_attend)
        factored_hooks.remove(capture_factored)
