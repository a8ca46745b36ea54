"""Linear: kernel scores that factorise run in O(n), by associativity.

    y_i = phi(q_i) (sum_j phi(k_j) v_j^T) / (phi(q_i) . sum_j phi(k_j))

Full and padded structures sum over all keys; causal ones carry the sum forward block by block. Katharopoulos et al.
2020.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.alignments import Softmax
from ..core.plan import Plan
from ..core.registry import Backend, BackendResult
from ..core.scores import LinearKernel
from ..core.structures import Causal, Full, Padding

STEP = 128  # queries that see one another directly in the causal form


class LinearBackend(Backend):
    """Kernel scores that factorise, in O(n)."""

    name = "linear"

    def refusals(self, plan: Plan) -> list[str]:
        why = []
        if type(plan.score) is not LinearKernel:
            why.append("It runs the linear_kernel score alone: other scores do not factorise.")
        if type(plan.align) is not Softmax:
            why.append("Only softmax of a logarithm gives the kernel back.")
        for part in plan.over.parts():
            if not isinstance(part, (Full, Padding, Causal)):
                why.append(f"{type(part).__name__} does not factorise over keys.")
            if isinstance(part, Causal) and plan.n != plan.m:
                why.append("Its causal form needs as many queries as keys.")
        if plan.dropout:
            why.append("Weights are never formed, so they cannot be dropped.")
        return why

    def defers(self, plan: Plan) -> bool:
        return False

    def run(self, plan: Plan) -> BackendResult:
        q, k, v = (_full(x) for x in (plan.q, plan.k_by_head, plan.v_by_head))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        keys = plan.over.keys(plan.m)
        if keys is not None:
            k = k * keys[..., None]
        v = torch.cat([v, torch.ones_like(v[..., :1])], -1)  # the last column counts: the normaliser
        causal = any(isinstance(part, Causal) for part in plan.over.parts())
        y = _causal(q, k, v) if causal else q @ (k.transpose(-1, -2) @ v)
        norm = y[..., -1:]
        out = torch.where(norm > 0, y[..., :-1] / norm.clamp_min(torch.finfo(y.dtype).tiny), 0.0)
        return BackendResult(out.to(plan.v.dtype))


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
