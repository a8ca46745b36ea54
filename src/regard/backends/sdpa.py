"""SDPA: everything that lowers to a dot product and a softmax runs on torch's fused attention.

A bias of the keys (Gaussian, trilinear) rides along as extra columns: q' = [q, 1], k' = [k, bias]; in 16 bits as
three columns that hold the bias to 24 bits. Widths that differ between keys and values are padded with zeros, because
torch's fused kernel takes one width and would otherwise write out all scores.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.alignments import Softmax
from ..core.lowering.score_kernels import DotCore
from ..core.plan import Plan
from ..core.registry import Backend, BackendResult, CompiledRun
from ..core.scores import Dot as DotScore
from ..core.structures import Causal, Full, Mask, Padding
from .chunked.backend import too_small_for_kernel
from .triton.dense.backend import TritonDense

HALF = (torch.float16, torch.bfloat16)


class Sdpa(Backend):
    """PyTorch's scaled_dot_product_attention."""

    name = "sdpa"

    def refusals(self, plan: Plan) -> list[str]:
        why = []
        if type(plan.align) is not Softmax:
            why.append(f"SDPA has one alignment, softmax; this is {type(plan.align).__name__}.")
        if plan.score.stepwise:
            why.append("SDPA scores all pairs at once; this score goes step by step.")
            return why
        if type(plan.over) is not Full:
            why += _structure(plan)
        if plan.factor is not None:
            why.append("SDPA cannot multiply the weights after the softmax.")
        if plan.dropout and plan.seeded:
            why.append("SDPA draws its own dropout and cannot take a seed.")
        if why:
            return why
        if not _plain(plan):
            score = plan.problem.score
            if not isinstance(score.core, DotCore):
                why.append(f"SDPA scores by dot product; this is {score.core}.")
            if score.modifiers:
                why.append(f"SDPA has no pointwise edits ({', '.join(type(m).__name__ for m in score.modifiers)}).")
            if score.sink is not None:
                why.append("SDPA has no sink.")
            if (score.key_bias is not None and score.key_bias.ndim == 3) or score.features is not None:
                why.append("SDPA has one weight a pair, not one a feature.")
        return why

    def defers(self, plan: Plan) -> bool:
        """A bias of keys in 16 bits makes heads so much wider that kernels which add it take half the time."""
        if plan.q.device.type != "cuda" or plan.q.dtype not in HALF or too_small_for_kernel(plan) or _plain(plan):
            return False
        return plan.problem.score.key_bias is not None and not TritonDense().refusals(plan)

    def run(self, plan: Plan) -> BackendResult:
        plan.replayable = not plan.dropout
        keep, causal = _mask(plan)
        if _plain(plan):
            assert isinstance(plan.score, DotScore)
            q, k, v, scale = plan.q, plan.k, plan.v, plan.score.scale(plan.q)
        else:
            score = plan.problem.score
            core = score.core
            assert isinstance(core, DotCore)
            shape = (plan.batch, plan.heads)
            q, k, v, scale = core.a.unflatten(0, shape), core.b.unflatten(0, shape), plan.v_by_head, core.scale
            if score.key_bias is not None:
                q, k = _with_bias(q, k, score.key_bias.unflatten(0, shape), scale)
        return _attended(q, k, v, keep, causal, scale, plan.dropout)

    def fast_path(self, plan: Plan) -> CompiledRun | None:
        """Dot products over all keys, or those before."""
        keep, causal = _mask(plan)
        if keep is not None or not _plain(plan):
            return None
        assert isinstance(plan.score, DotScore)
        scale = plan.score.scale(plan.q)
        return lambda q, k, v: _attended(q, k, v, None, causal, scale)


def _attended(
    q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None, causal: bool, scale: float, dropout: float = 0.0
) -> BackendResult:
    width, d_v = q.shape[-1], v.shape[-1]
    if width < d_v:
        q, k = F.pad(q, (0, d_v - width)), F.pad(k, (0, d_v - width))
    elif width > d_v:
        v = F.pad(v, (0, width - d_v))
    grouped = True if k.shape[1] != q.shape[1] else False  # noqa: SIM210 a plain bool, also where sizes are symbols
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask=keep, dropout_p=dropout, is_causal=causal, scale=scale, enable_gqa=grouped
    )
    return BackendResult(out if width <= d_v else out[..., :d_v])


def _plain(plan: Plan) -> bool:
    """A dot score by itself: nothing to lower, and grouped queries stay grouped."""
    score = plan.score
    return isinstance(score, DotScore) and type(score).lower is DotScore.lower and not score.by_feature


def _structure(plan: Plan) -> list[str]:
    why = []
    for part in plan.over.parts():
        if isinstance(part, Causal):
            if len(plan.over.parts()) > 1:
                why.append("SDPA takes causality alone or a mask, not both, without an n x m tensor.")
            elif part.align == "end" and plan.n != plan.m and plan.n != 1:
                why.append("SDPA's causality starts at the first key; end-aligned it would need an n x m tensor.")
        elif isinstance(part, (Mask, Padding)):
            if isinstance(part, Mask) and len(plan.over.parts()) > 1 and part.keep.shape[2] > 1:
                why.append("SDPA takes one mask; joining these would make an n x m tensor.")
        elif not isinstance(part, Full):
            why.append(f"SDPA would need an n x m mask tensor for {type(part).__name__}.")
    return why


def _mask(plan: Plan) -> tuple[Tensor | None, bool]:
    """A bool mask that broadcasts (never expanded to n x m), and the causal flag."""
    over = plan.over
    if type(over) is Full:
        return None, False
    if isinstance(over, Causal):
        return None, not (over.align == "end" and plan.n == 1)
    if isinstance(over, Mask):
        return over.keep, False
    keep = over.keys(plan.m)
    assert keep is not None
    return keep.unsqueeze(2), False


def _with_bias(q: Tensor, k: Tensor, bias: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """q' . k' * scale = q . k * scale + bias, exactly enough: 24 bits of the bias survive in 16-bit types."""
    bias = bias / scale
    parts = []
    for _ in range(3 if q.dtype in HALF else 1):
        part = bias.to(q.dtype)
        parts.append(part)
        bias = bias - part.to(bias.dtype)
    ones = torch.ones((), dtype=q.dtype, device=q.device).expand(*q.shape[:-1], len(parts))
    return torch.cat([q, ones], -1), torch.cat([k, torch.stack(parts, -1)], -1)
