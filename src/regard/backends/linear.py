"""Linear: kernel scores that factorise run in O(n), by associativity.

    y_i = phi(q_i) (sum_j phi(k_j) v_j^T) / (phi(q_i) . sum_j phi(k_j))

Full and padded structures sum over all keys; causal ones carry the sum forward block by block. Katharopoulos et al.
2020.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.lowering.kernel_forms import ALL_PAIRS, CAUSAL, PADDING
from ..core.lowering.support import Support
from ..core.plan import Plan
from ..core.registry import Backend, BackendResult

STEP = 128  # queries that see one another directly in the causal form


class LinearBackend(Backend):
    """Kernel scores that factorise, in O(n)."""

    name = "linear"
    support = Support(("softmax",), (ALL_PAIRS, PADDING, CAUSAL), cores=("products of feature maps",))

    def part_refusals(self, plan: Plan) -> list[str]:
        return self.refusals(plan)

    def refusals(self, plan: Plan) -> list[str]:
        why = []
        if plan.score.feature_map is None:
            why.append("It runs scores with a feature map, such as linear_kernel: other scores do not factorise.")
        why += self.support.alignment_refusals(plan) + self.support.structure_refusals(plan)
        if plan.n != plan.m and _is_causal(plan):
            why.append("Its causal form needs as many queries as keys.")
        if plan.dropout:
            why.append("Weights are never formed, so they cannot be dropped.")
        return why

    def defers(self, plan: Plan) -> bool:
        return False

    def run(self, plan: Plan) -> BackendResult:
        q, k, v = (_full(x) for x in (plan.q, plan.k_by_head, plan.v_by_head))
        assert plan.score.feature_map is not None
        q, k = plan.score.feature_map(q), plan.score.feature_map(k)
        keys = plan.over.keys(plan.m)
        if keys is not None:
            k = k * keys[..., None]
        v = torch.cat([v, torch.ones_like(v[..., :1])], -1)  # the last column counts: the normaliser
        y = _causal(q, k, v) if _is_causal(plan) else q @ (k.transpose(-1, -2) @ v)
        norm = y[..., -1:]
        out = torch.where(norm > 0, y[..., :-1] / norm.clamp_min(torch.finfo(y.dtype).tiny), 0.0)
        return BackendResult(out.to(plan.v.dtype))


def _is_causal(plan: Plan) -> bool:
    return any(form is not None and form.family == CAUSAL for form in plan.structure_forms)


def _causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Blocks of queries: the keys of earlier blocks through their running sum, the block's own keys directly."""
    n = q.shape[-2]
    blocks = n // STEP + 2 if torch.compiler.is_compiling() else -(-n // STEP)  # 2 or more: one graph for all lengths
    q, k, v = (F.pad(x, (0, 0, 0, blocks * STEP - n)).unflatten(-2, (blocks, STEP)) for x in (q, k, v))
    sums = k.transpose(-1, -2) @ v  # (B, H, blocks, d, d_v)
    before = sums.cumsum(-3) - sums
    within = torch.tril(q @ k.transpose(-1, -2)) @ v
    return (q @ before + within).flatten(-3, -2)[..., :n, :]


def _full(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
