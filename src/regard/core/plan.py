"""The plan: one call of attention, checked and lowered to its normal form; printing it shows what will run and why."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from . import fast_path
from .alignments import Alignment, Bell, alignment_of
from .arguments.attend_inputs import canonical, check_call, check_devices, check_features
from .arguments.torch_arguments import translated
from .lowering.blocks import Problem
from .lowering.kernel_forms import StructureForm
from .lowering.philox import as_seed
from .lowering.roofline import Bound, backward_bound, bound, rates_of
from .lowering.score_kernels import EdgePart, OpaqueCore
from .lowering.tiles import Tile
from .registry import backends, choose
from .scores import Modified, Modifier, Score, score_of
from .scores.score import Lowered, flat
from .structures import Full, Structure, structure_of
from .structures.edges import edge_parts, neighbours_of


class Plan:
    """A request for attention in canonical shape: q (B, H, n, d), k (B, H_k, m, d), v (B, H_k, m, d_v).

    `problem` is the lowered form that kernels run, computed on first access. `str(plan)` is human-readable.
    """

    def __init__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        score: Score,
        align: Alignment,
        over: Structure,
        dropout: float,
        sample: bool,
        seed: "int | Tensor | None",
    ):
        check_call(q, k, v, dropout, sample, seed)
        device_type = q.device.type
        if q.dtype == torch.float32 and device_type != "meta" and torch.is_autocast_enabled(device_type):
            low = torch.get_autocast_dtype(device_type)
            shared, q, k = v is k, q.to(low), k.to(low)
            v = k if shared else v.to(low)
        self.q_ndim = q.ndim
        self.lead: tuple[int, ...] = tuple(q.shape[:-3])
        self.q, self.k = canonical(q), canonical(k)
        self.v = self.k if v is k else canonical(v)  # keep keys and values shared: kernels read them once
        self.batch, self.heads, self.n = self.q.shape[0], self.q.shape[1], self.q.shape[2]
        self.m = self.k.shape[2]
        self.score, self.align, self.dropout, self.sample = score, align, float(dropout), sample
        score.check(self.q, self.k)
        align.check(self.q, self.k)
        check_features(score, self.q, self.v)
        self.edge_key: EdgePart | None = None
        self.edge_value: EdgePart | None = None
        if type(over) is not Full:
            check_devices(over, q.device)
            self.edge_key, self.edge_value = edge_parts(over, self)
            over = over.fit(self.lead if self.q_ndim > 3 else (1,), self.heads, self.n, self.m)
            self._close_padding(over)
        self.seeded = seed is not None
        self._seed = seed
        self.factor: Bell | None
        over, self.factor = align.focus(self.q, over, self.m)
        self.draw: tuple[Tensor, Tensor, Tensor] | None = None
        if align.selects:
            over, *drawn = align.select(self.k_by_head, over, self._uniform_of_keys())
            self.draw = (drawn[0], drawn[1], drawn[2])
        self.over = over
        self._problem: Problem | None = None
        self._shared: Lowered | None = None
        self._structure_forms: list[StructureForm | None] | None = None
        self.backend = ""
        self.previous_weights: Tensor | None = None
        self.replayable = True  # whether a map can regenerate the dropout mask
        self.backend_cache: dict[str, Any] = {}  # a backend's intermediate results, from refusals to run

    def _close_padding(self, over: Structure) -> None:
        """Zeroes keys masked for every query, so that NaN cannot leak from them."""
        keys = over.keys(self.m)
        if keys is None:
            return
        if keys.shape[1] not in (1, self.k.shape[1]):
            keys = keys.unflatten(1, (self.k.shape[1], -1)).any(2)
        closed = ~keys[..., None]
        shared, self.k = self.v is self.k, self.k.masked_fill(closed, 0.0)
        self.v = self.k if shared else self.v.masked_fill(closed, 0.0)

    def _uniform_of_keys(self) -> Tensor | None:
        """(B, H, m) for a policy over keys: uniform numbers of an extra row."""
        if not self.sample:
            return None
        tile = Tile.dense(
            self.heads, 1, self.m, self.q.device, slice(0, self.batch * self.heads), slice(0, 1), slice(0, self.m)
        )
        return tile.uniform(self.seed + 2).reshape(self.batch, self.heads, self.m)

    @property
    def seed(self) -> Tensor:
        seed = self._seed
        if not isinstance(seed, Tensor) or seed.device != self.q.device or seed.dtype != torch.int64:
            seed = self._seed = as_seed(seed, self.q.device)
        return seed

    @property
    def random(self) -> bool:
        return self.dropout > 0 or (self.sample and self.align.samples)

    @property
    def k_by_head(self) -> Tensor:
        """k with as many heads as q."""
        return _repeat(self.k, self.heads)

    @property
    def v_by_head(self) -> Tensor:
        return _repeat(self.v, self.heads)

    @property
    def problem(self) -> Problem:
        if self._problem is None:
            alpha = self.align.alpha
            alpha = alpha.expand(self.batch, self.heads).reshape(-1) if isinstance(alpha, Tensor) else None
            self._problem = Problem(
                self._lowered(self.k_by_head),
                self.align,
                self.over,
                self.heads,
                self.factor,
                self.dropout,
                self.seed if self.random and self.replayable else None,
                self.sample,
                alpha,
                _flat_part(self.edge_value),
            )
        return self._problem

    @property
    def lowered(self) -> bool:
        return self._problem is not None

    @property
    def shared(self) -> Lowered:
        """The score with unexpanded key heads, b (B H_k, m, w), where it is the same function of a key for every query
        head (GQA); else that of the problem, b (B H, m, w)."""
        if self._shared is None:
            if self.k.shape[1] == self.heads or self.edge_key is not None or not self.score.shares_keys():
                return self.problem.score
            self._shared = self._lowered(self.k)
        return self._shared

    @property
    def with_row_constants(self) -> Problem:
        """The problem with what shifts a whole row, which an alignment that ignores shifts does without."""
        whole = self._lowered(self.k_by_head, shifts_ignored=False)
        return replace(self.problem, score=whole)

    def _lowered(self, k: Tensor, shifts_ignored: bool = True) -> Lowered:
        q = self.q
        found = self.score.lower(q, k)
        if found is not None and self.edge_key is not None:
            part = self.score.edge_part(self.edge_key.x, self.edge_key.join)
            if part is None or isinstance(found.core, OpaqueCore):
                found = None
            else:
                found = replace(found, core=replace(found.core, edge=EdgePart(flat(part), self.edge_key.join)))
        if found is None:
            inner, sink = self.score, None
            modifiers: tuple[Modifier, ...] = ()
            if isinstance(self.score, Modified):
                inner, modifiers = self.score.score, self.score.pointwise()
                sink = None if self.score.sink is None else self.score.sink.expand(self.batch, self.heads).reshape(-1)
            core = OpaqueCore(inner, flat(q), flat(k), self.heads, inner.feature_count(q), _flat_part(self.edge_key))
            return Lowered(core, None, None, modifiers, sink)
        drops = (
            shifts_ignored
            and self.align.shift_invariant
            and found.sink is None
            and all(m.shifts for m in found.modifiers)
        )
        if drops and found.features is None:
            found = self._with_key_biases(found)
        row_bias = None if drops else self.score.row_bias(q)
        return found if row_bias is None else replace(found, row_bias=row_bias.flatten(0, 1))

    def _with_key_biases(self, found: Lowered) -> Lowered:
        """Turns modifiers into key biases where they equal one up to a shift of the row."""
        if neighbours_of(self.over) is not None:
            return found
        bias, left = found.key_bias, []
        for modifier in found.modifiers:
            more = modifier.key_bias(self.batch, self.heads, self.m)
            if more is None:
                left.append(modifier)
            else:
                bias = more if bias is None else bias + more
        return found if len(left) == len(found.modifiers) else replace(found, key_bias=bias, modifiers=tuple(left))

    @property
    def structure_forms(self) -> "list[StructureForm | None]":
        """Kernel forms of the parts of the structure; None for a part without one."""
        if self._structure_forms is None:
            self._structure_forms = [part.kernel_form(self.n, self.m) for part in self.over.parts()]
        return self._structure_forms

    def output(self, out: Tensor) -> Tensor:
        """(B, H, n, d_v) back to the caller's leading axes."""
        if self.q_ndim == 4:
            return out
        if self.q_ndim == 2:
            return out.squeeze(0).squeeze(0)  # squeeze instead of indexing, whose gradient is a copy
        return out.squeeze(0) if self.q_ndim == 3 else out.reshape(*self.lead, *out.shape[1:])

    @property
    def refusals(self) -> dict[str, list[str]]:
        """Reasons of each backend not to run this plan; empty lists for those that run it."""
        return {backend.name: backend.refusals(self) for backend in backends()}

    @property
    def part_refusals(self) -> list[str]:
        """Why the parts are incompatible on any backend: ordered keys on edges, and factors of exp(s)."""
        modifiers = self.score.pointwise() if isinstance(self.score, Modified) else ()
        factor = next((type(m).__name__ for m in modifiers if m.multiplies), None)
        if factor is not None and not self.align.shift_invariant:
            return [
                f"{factor} multiplies exp(s) by the gates between key and query, and {type(self.align).__name__} has "
                "no exp(s): a shift of a row changes its weights. softmax, entmax and top-k ignore one."
            ]
        inner = self.score.score if isinstance(self.score, Modified) else self.score
        graph = neighbours_of(self.over) is not None
        if inner.ordered and graph:
            return [f"{type(inner).__name__} needs ordered keys, which edges do not have."]
        if not (self.align.stepwise or self.align.ordered):
            return []
        name = type(self.align).__name__
        if graph:
            return [f"{name} needs ordered keys, which edges do not have."]
        if isinstance(self.score, Modified) and self.score.sink is not None:
            return [f"{name} runs along the keys, and a sink has no position among them."]
        return []

    @property
    def plain_because(self) -> str | None:
        """Why calls of this backend do not take the fast path (core/fast_path); None if they may."""
        backend = next((backend for backend in backends() if backend.name == self.backend), None)
        return fast_path.reason or (None if backend is None else backend.plain_because())

    @property
    def cost(self) -> dict[str, float]:
        """Pairs, operations of the forward, bytes of the inputs and the output: lower bounds."""
        pairs = float(self.batch * self.heads * self.n * self.m)
        core = self.problem.score.core
        d, dv = core.a.shape[-1], self.v.shape[-1]
        tensors = (self.q, self.k, self.v)
        bytes_moved = sum(t.numel() * t.element_size() for t in tensors)
        bytes_moved += self.batch * self.heads * self.n * dv * self.q.element_size()
        return {"pairs": pairs, "operations": pairs * (2 * d + 2 * dv), "bytes": float(bytes_moved)}

    @property
    def bound(self) -> Bound | None:
        """The roofline bound of the forward on this device; None where its rates are unknown."""
        rates = rates_of(self.q.device)
        return None if rates is None else bound(self, rates)

    @property
    def backward_bound(self) -> Bound | None:
        """The roofline bound of the backward; None also where it depends on the data, as for sparse weights."""
        rates = rates_of(self.q.device)
        return None if rates is None else backward_bound(self, rates)

    def __str__(self) -> str:
        problem, cost, least = self.problem, self.cost, self.bound
        score = problem.score
        lines = [
            f"shape      batch {self.batch}, heads {self.heads}, queries {self.n}, keys {self.m}, "
            f"width {self.q.shape[-1]}, value width {self.v.shape[-1]}, {str(self.q.dtype).removeprefix('torch.')}",
            f"score      {type(self.score).__name__} -> {score.core}"
            + (" + a bias for each key (fp32)" if score.key_bias is not None else "")
            + (" + a constant for each row" if score.row_bias is not None else "")
            + "".join(f" | {type(m).__name__}" for m in score.modifiers)
            + (" | Sink" if score.sink is not None else ""),
            f"alignment  {type(self.align).__name__}" + (" times a bell" if self.factor is not None else ""),
            f"structure  {self.over}",
            f"backend    {self.backend}",
        ]
        if (slow := self.plain_because) is not None:
            lines.append(f"  planned and launched the plain way: {slow}")
        for name, reasons in self.refusals.items():
            if reasons and name != self.backend:
                lines.append(f"  not {name}: {' '.join(reasons)}")
        lines.append(
            f"cost       {cost['pairs']:.3g} pairs, {cost['operations']:.3g} operations, {cost['bytes']:.3g} bytes; "
            f"bound by {'arithmetic' if cost['operations'] > 50 * cost['bytes'] else 'memory'} "
            f"({cost['operations'] / max(1.0, cost['bytes']):.3g} operations a byte)"
            + ("" if least is None else f"; at least {least.seconds * 1e3:.3g} ms here, for its {least.by}")
        )
        return "\n".join(lines)


def _flat_part(part: EdgePart | None) -> EdgePart | None:
    return None if part is None else EdgePart(flat(part.x), part.join)


def _repeat(x: Tensor, heads: int) -> Tensor:
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


def make_plan(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    score: "str | Score" = "scaled_dot",
    align: "str | Alignment" = "softmax",
    over: "Structure | str | None" = None,
    dropout: float = 0.0,
    sample: bool = False,
    seed: "int | Tensor | None" = None,
) -> Plan:
    return Plan(q, k, v, score_of(score), alignment_of(align), structure_of(over), dropout, sample, seed)


def plan(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    score: "str | Score" = "scaled_dot",
    align: "str | Alignment" = "softmax",
    over: "Structure | str | None" = None,
    *,
    dropout: float = 0.0,
    sample: bool = False,
    seed: "int | Tensor | None" = None,
    backend: str = "auto",
    **by_torch: Any,
) -> Plan:
    """The plan of an `attend` call: print it to see core, backend, refusals, bytes and bound."""
    if by_torch:
        call: dict[str, Any] = {"q": q, "k": k, "score": score, "over": over, "dropout": dropout}
        translated("plan", by_torch, call)
        score, over, dropout = call["score"], call["over"], call["dropout"]
    made = make_plan(q, k, v, score, align, over, dropout, sample, seed)
    made.backend = choose(made, backend).name
    return made
