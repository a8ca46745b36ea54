"""Separable: weights for each feature whose score is one number of the key's feature and one of the pair.

    s_ijf = k_jf + b_ij,   out = E (G v) / (E G),   E_ij = exp(b_ij - max_j b_ij),   G_jf = exp(k_jf - max_j k_jf)

Two products of matrices do what else takes an exponential for each pair and feature (Zhai et al. 2021, AFT). Without a
bias and a structure the weights are the same for every row. E is made for some rows at a time, and again for gradients.

The two maxima may lie at different keys: where a sum underflows so far that the terms lost could matter, the call falls
back to `chunked`, which computes the same.
"""

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..core.alignments import RowState
from ..core.lowering.kernel_forms import DOT, PAIR_BIAS, CoreForm
from ..core.lowering.support import EVERY_DENSE, FEATURE_KEY_BIAS, Support
from ..core.lowering.tiles import Tile
from ..core.plan import Plan
from ..core.registry import Backend, BackendResult
from ..core.structures import Full
from .chunked.backend import Chunked

LEAST = {torch.float32: 1e-24, torch.float64: 1e-280}  # of a sum: far above what is lost to underflow
BUDGET = 1 << 22  # weights of a block of rows


class Separable(Backend):
    """Feature-wise softmax whose score is a term of the key plus a term of the pair."""

    name = "separable"
    support = Support(("softmax",), EVERY_DENSE, (CoreForm(DOT).family,), (PAIR_BIAS,), (FEATURE_KEY_BIAS,))

    def part_refusals(self, plan: Plan) -> list[str]:
        return self.refusals(plan)

    def refusals(self, plan: Plan) -> list[str]:
        if torch.compiler.is_compiling():
            return ["It looks at its sums, which a compiled graph cannot."]
        if plan.dropout:
            return ["Weights are never formed, so they cannot be dropped."]
        if why := self.support.alignment_refusals(plan) + self.support.structure_refusals(plan):
            return why
        score = plan.problem.score
        if score.core.a.shape[-1] or score.key_bias is None or score.key_bias.ndim != 3:
            return ["It runs scores of a key's features alone (query_free with features), with biases of pairs."]
        return self.support.score_refusals(score)

    def defers(self, plan: Plan) -> bool:
        return False

    def run(self, plan: Plan) -> BackendResult:
        score = plan.problem.score
        assert score.key_bias is not None
        keys, v = score.key_bias.mT, plan.v_by_head.flatten(0, 1)
        v = v.to(keys.dtype)
        seen = plan.over.keys(plan.m)
        if seen is not None:
            seen = seen.expand(plan.batch, plan.heads, plan.m).flatten(0, 1).unsqueeze(-1)
            keys = keys.masked_fill(~seen, float("-inf"))
        top = (
            keys.detach().amax(1, keepdim=True).clamp_min(torch.finfo(keys.dtype).min) if plan.m else keys.sum(1, True)
        )
        grown = torch.exp(keys - top)
        both = torch.cat([grown * v, grown], -1)
        alike = not score.modifiers and all(
            type(part) is Full or part.keys(plan.m) is not None for part in plan.over.parts()
        )
        if alike:
            some = plan.m > 0 if seen is None else seen.any(1, keepdim=True)
            high = keys.new_zeros(keys.shape[0], plan.n, 1).where(torch.as_tensor(some, device=v.device), float("-inf"))
            sums = both.sum(1, keepdim=True).expand(-1, plan.n, -1)
        else:
            sums, high = _sums(plan, both)
        total = sums[..., v.shape[-1] :]
        if bool(((total < LEAST[total.dtype]) & (high > float("-inf"))).any()):
            return Chunked().run(plan)
        full = total > 0
        out = torch.where(full, sums[..., : v.shape[-1]] / total.where(full, 1.0), 0.0).to(plan.v.dtype)
        tau = torch.where(full, top + high + total.where(full, 1.0).log(), float("inf"))
        return BackendResult(out.unflatten(0, (plan.batch, plan.heads)), RowState(tau.detach().mT))


def _sums(plan: Plan, both: Tensor) -> tuple[Tensor, Tensor]:
    """E (g, n, m) times both (g, m, 2F), and the largest bias of each row (g, n, 1): -inf where it sees nobody."""
    g, m = both.shape[:2]
    step = max(1, BUDGET // max(1, g * m))
    modifiers = plan.problem.score.modifiers

    def some(start: int, both: Tensor) -> tuple[Tensor, Tensor]:
        rows = slice(start, min(plan.n, start + step))
        tile = Tile.dense(plan.heads, plan.n, m, both.device, slice(0, g), rows, slice(0, m))
        s = both.new_zeros(g, rows.stop - rows.start, m)
        for modifier in modifiers:
            s = modifier(s, tile)
        keep = plan.over.allowed(tile)
        s = s if keep is None else s.masked_fill(~keep, float("-inf"))
        high = s.detach().amax(-1, keepdim=True) if m else s.new_full((g, s.shape[1], 1), float("-inf"))
        return torch.exp(s - high.clamp_min(torch.finfo(s.dtype).min)) @ both, high

    blocks = [checkpoint(some, start, both, use_reentrant=False) for start in range(0, plan.n, step)]
    if not blocks:
        return both.sum(1, keepdim=True)[:, :0], both.new_zeros(g, 0, 1)
    return torch.cat([sums for sums, _ in blocks], 1), torch.cat([high for _, high in blocks], 1)
