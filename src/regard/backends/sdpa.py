"""SDPA: everything that lowers to a dot product and a softmax runs on torch's fused attention.

A bias of the keys (Gaussian, trilinear) rides along as extra columns: q' = [q, 1], k' = [k, bias]; in 16 bits as
three columns that hold the bias to 24 bits. Widths that differ between keys and values are padded with zeros, because
torch's fused kernel takes one width and would otherwise write out all scores.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.lowering.kernel_forms import ALL_PAIRS, CAUSAL, DOT, KEY_MASK, PADDING, PAIR_MASK, CoreForm
from ..core.lowering.score_kernels import DotCore
from ..core.lowering.support import KEY_BIAS, Support
from ..core.plan import Plan
from ..core.registry import Backend, BackendResult, CompiledRun
from ..core.structures import Full
from ..core.torch_private import any_tangent
from .chunked.backend import too_small_for_kernel
from .triton.dense.backend import TritonDense

HALF = (torch.float16, torch.bfloat16)


class Sdpa(Backend):
    """PyTorch's scaled_dot_product_attention."""

    name = "sdpa"

    support = Support(
        ("softmax",),
        (ALL_PAIRS, CAUSAL, PADDING, KEY_MASK, PAIR_MASK),
        (CoreForm(DOT).family,),
        terms=(KEY_BIAS,),
    )

    def refusals(self, plan: Plan) -> list[str]:
        why = self.support.alignment_refusals(plan)
        if plan.score.stepwise:
            return [*why, "SDPA scores all pairs at once; this score goes step by step."]
        if type(plan.over) is not Full:
            why += self.support.structure_refusals(plan) or _structure_refusals(plan)
        if any_tangent((plan.q, plan.k, plan.v)):
            why.append('SDPA has no forward-mode derivative: backend="reference" has.')
        if plan.dropout and plan.seeded:
            why.append("SDPA draws its own dropout and cannot take a seed.")
        if why or plan.score.dot_scale(plan.q) is not None:
            return why
        return self.support.score_refusals(plan.problem.score)

    def defers(self, plan: Plan) -> bool:
        """A bias of keys in 16 bits makes heads so much wider that kernels which add it take half the time."""
        if plan.q.device.type != "cuda" or plan.q.dtype not in HALF or too_small_for_kernel(plan):
            return False
        if plan.score.dot_scale(plan.q) is not None:
            return False
        return plan.problem.score.key_bias is not None and not TritonDense().refusals(plan)

    def run(self, plan: Plan) -> BackendResult:
        plan.replayable = not plan.dropout
        keep, causal = _mask(plan)
        plain = plan.score.dot_scale(plan.q)
        if plain is not None:  # nothing to lower, and grouped queries stay grouped
            q, k, v, scale = plan.q, plan.k, plan.v, plain
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
        scale, grouped = plan.score.dot_scale(plan.q), plan.k.shape[1] != plan.heads
        if keep is not None or scale is None:
            return None
        if plan.q.shape[-1] != plan.v.shape[-1]:
            return lambda q, k, v: _attended(q, k, v, None, causal, scale)

        def run(q: Tensor, k: Tensor, v: Tensor) -> BackendResult:
            out = F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, enable_gqa=grouped)
            return BackendResult(out)

        return run


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


def _structure_refusals(plan: Plan) -> list[str]:
    """SDPA takes causality that starts at the first key, or one mask that broadcasts: never n x m for what is less."""
    forms = [form for form in plan.structure_forms if form is not None]
    if len(forms) > 1 and any(form.family == CAUSAL for form in forms):
        return ["SDPA takes causality alone or a mask, not both, without an n x m tensor."]
    if len(forms) > 1 and any(form.family == PAIR_MASK for form in forms):
        return ["SDPA takes one mask; joining these would make an n x m tensor."]
    right = forms[0].right
    if forms[0].family == CAUSAL and right != 0 and not (plan.n == 1 and right == plan.m - 1):
        return ["SDPA's causality starts at the first key; end-aligned it would need an n x m tensor."]
    return []


def _mask(plan: Plan) -> tuple[Tensor | None, bool]:
    """A bool mask that broadcasts (never expanded to n x m), and the causal flag."""
    if type(plan.over) is Full:
        return None, False
    forms = [form for form in plan.structure_forms if form is not None]
    if forms[0].family == CAUSAL:
        return None, not (plan.n == 1 and forms[0].right == plan.m - 1)  # one query at the last key sees all
    if forms[0].pairs is not None:
        return forms[0].pairs, False
    keep: Tensor | None = None
    for form in forms:
        more = form.keep
        if form.lengths is not None:
            more = (torch.arange(plan.m, device=plan.q.device) < form.lengths[:, None])[:, None]
        keep = more if keep is None else keep if more is None else keep & more
    return None if keep is None else keep.unsqueeze(2), False


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
