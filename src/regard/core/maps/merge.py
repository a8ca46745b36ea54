"""Merging results over disjoint keys into the result of one call over all keys: split keys, ring attention.

Each side has one number a row, the log of its mass: log-sum-exp for softmax, log count for uniform and ReLU.
A merged row is a weighted mean of the two, with weights exp(L_a - L), exp(L_b - L), L = log(exp L_a + exp L_b).
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..alignments import ReLU, Sigmoid, Softmax, Uniform
from ..errors import Refused
from ..registry import choose
from ..torch_private import register_pytree_node
from .attention_map import AttentionMap
from .lazy import LazyMap

if TYPE_CHECKING:
    from ..attend import Attended


class JoinedMap(AttentionMap):
    """The map over the keys of both sides, first those of `one`, then those of `two`; each scaled by its share."""

    def __init__(self, one: AttentionMap, two: AttentionMap, shares: tuple[Tensor, Tensor], log_mass: Tensor):
        super().__init__(one.lead, one.n, one.m + two.m, one.slab)
        self.features = one.features
        self.one, self.two, self.shares, self.log_mass = one, two, shares, log_mass

    def band(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        parts = []
        for side, share in zip((self.one, self.two), self.shares, strict=True):
            parts.append(side.band(rows, slice(0, side.m)) * share.detach()[..., rows][..., None])
        return torch.cat(parts, -1)[..., cols]

    def allowed(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        return torch.cat([side.allowed(rows, slice(0, side.m)) for side in (self.one, self.two)], -1)[..., cols]

    def narrowed(self, lead: tuple[int, ...], slab: slice) -> "JoinedMap":
        first, last = slab.start - self.slab.start, slab.stop - self.slab.start
        shares = (self.shares[0][first:last], self.shares[1][first:last])
        return JoinedMap(
            self.one.narrowed(lead, slab), self.two.narrowed(lead, slab), shares, self.log_mass[first:last]
        )


def merged(one: "Attended", two: "Attended") -> "Attended":
    """Exact if rows depend on other keys through their mass alone; otherwise refused with the reason."""
    a, b = one.map, two.map
    if a.lead != b.lead or a.n != b.n or a.features != b.features or one.out.shape != two.out.shape:
        raise ValueError(
            f"merge needs results for the same queries, values alike: out {tuple(one.out.shape)} over "
            f"{a.n} rows meets {tuple(two.out.shape)} over {b.n}."
        )
    if tuple(one.out.shape[:-1]) != (*a.lead, a.n):
        raise Refused(
            f"merge takes results of attend, head by head {(*a.lead, a.n)}; this out is "
            f"{tuple(one.out.shape)}. A layer mixes its heads: give it the joined keys instead."
        )
    if kind_of_map(a) is not kind_of_map(b):
        raise ValueError(
            f"merge needs two results of one alignment: {kind_of_map(a).__name__} meets {kind_of_map(b).__name__}."
        )
    mass_a, mass_b = log_mass(a), log_mass(b)
    if kind_of_map(a) is Sigmoid:  # keys are independent: outputs add
        share_a, share_b, mass = torch.ones_like(mass_a), torch.ones_like(mass_b), mass_a
    else:
        mass = torch.logaddexp(mass_a, mass_b)
        whole = mass.masked_fill(mass == float("-inf"), 0.0)
        share_a, share_b = torch.exp(mass_a - whole), torch.exp(mass_b - whole)
    out = _scaled(one.out, share_a, a) + _scaled(two.out, share_b, b)
    return type(one)(out.to(one.out.dtype), JoinedMap(a, b, (share_a, share_b), mass))


def _scaled(out: Tensor, share: Tensor, amap: AttentionMap) -> Tensor:
    """out (..., n, d_v) times share (g, n), or (g, F, n) for feature-wise shares."""
    share = share.reshape(*amap.lead, *share.shape[1:])
    return out.to(share.dtype) * (share[..., None] if amap.features is None else share.transpose(-1, -2))


def kind_of_map(amap: AttentionMap) -> type:
    if isinstance(amap, JoinedMap):
        return kind_of_map(amap.one)
    if not isinstance(amap, LazyMap):
        raise Refused(f"merge needs maps with a row state; this is a {type(amap).__name__}.")
    return type(amap.live.align)


def log_mass(amap: AttentionMap) -> Tensor:
    """(g, [F,] n), the logarithm of each row's mass, -inf for an empty one; differentiable where the scores are."""
    if isinstance(amap, JoinedMap):
        return amap.log_mass
    assert isinstance(amap, LazyMap)
    problem, kind = amap.live, kind_of_map(amap)
    if problem.dropout or problem.score.sink is not None:
        raise Refused("merge needs results without dropout and without a sink: each side would count its own.")
    if problem.factor is not None or kind not in (Softmax, Uniform, Sigmoid, ReLU):
        raise Refused(
            f"Results of {kind.__name__} cannot be merged: its weights depend on all keys of a row together. "
            "Attend over the joined keys."
        )
    if kind is Sigmoid and problem.align.bias is None:
        raise Refused("Sigmoid() divides by the number of keys inside its bias: give one, Sigmoid(bias=...), to merge.")
    state = amap.state
    if kind is ReLU:
        assert state.scale is not None
        mass = -state.scale.log()
    else:
        mass = state.tau if kind is not Softmax or state.tau.requires_grad else _with_gradient(amap)
    return mass[amap.slab].masked_fill(state.tau[amap.slab] == float("inf"), float("-inf"))


def _with_gradient(amap: LazyMap) -> Tensor:
    """Differentiable tau, for backends that do not return it (SDPA, the reference)."""
    plan = amap.plan
    if plan is None or not torch.is_grad_enabled():
        return amap.state.tau
    if not (plan.q.requires_grad or plan.k.requires_grad):
        return amap.state.tau
    state = choose(plan, "chunked").run(plan).state
    assert state is not None
    return state.tau


register_pytree_node(
    JoinedMap,
    lambda amap: ([amap.one, amap.two, amap.shares, amap.log_mass], None),
    lambda leaves, context: JoinedMap(*leaves),
    serialized_type_name="regard.JoinedMap",
)
