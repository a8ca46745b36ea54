"""Redirects calls of torch's scaled_dot_product_attention to Regard, with any score, alignment and structure."""

import math
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..core.alignments import Alignment, Softmax, alignment_of
from ..core.attend import Attended, attend
from ..core.modifiers import PairBias
from ..core.scores import ScaledDot, Score, score_of
from ..core.structures import Causal, Mask, Structure


class SdpaPlan(nn.Module):
    """Replacement of scaled_dot_product_attention: a score, an alignment, a structure, a backend.

        y_i = sum_j w_ij v_j,   w_i = align(score(q_i, k_j) + mask_ij) over the pairs of the mask and of `over`

    score   None: q . k times the scale of the call
    over    combined with the mask of the call
    """

    def __init__(
        self,
        score: "str | Score | None" = None,
        align: "str | Alignment" = "softmax",
        over: Structure | None = None,
        backend: str = "auto",
    ):
        super().__init__()
        self.score = score_of(score) if isinstance(score, str) else deepcopy(score)
        self.align = alignment_of(align) if isinstance(align, str) else deepcopy(align)
        self.over, self.backend = over, backend

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Attended:
        """The arguments of torch's function: query (..., H, n, d), key (..., H_k, m, d), value (..., H_k, m, d_v).

        A fully masked row gives zeros.
        """
        lead = query.shape[:-2]
        if not enable_gqa:
            lead = torch.broadcast_shapes(lead, key.shape[:-2], value.shape[:-2])
            query, key, value = (x.expand(*lead, *x.shape[-2:]) for x in (query, key, value))
        over, bias = self._mask(attn_mask, is_causal, lead, query.shape[-2], key.shape[-2])
        score = self._score(scale, query.shape[-1])
        if bias is not None:
            score = score | PairBias(bias)
        return attend(
            query,
            key,
            value,
            score,
            self.align,
            over,
            dropout=dropout_p,
            sample=self.training,
            backend=self.backend,
        )

    def _score(self, scale: float | None, width: int) -> Score:
        if self.score is None:
            return ScaledDot(scale=scale)
        if scale is not None and not math.isclose(scale, width**-0.5):
            raise ValueError(
                f"This module scales its scores by {scale:g}, which score= would drop: leave score= out, or pass "
                "score=ScaledDot(scale=...)."
            )
        return self.score

    def _mask(
        self, mask: Tensor | None, is_causal: bool, lead: tuple[int, ...], n: int, m: int
    ) -> tuple[Structure | None, Tensor | None]:
        parts: list[Structure] = [] if self.over is None else [self.over]
        if is_causal:
            parts.append(Causal("start"))
        bias = None
        if mask is not None and mask.dtype == torch.bool:
            parts.append(Mask(as_wide(mask, lead, n, m)))
        elif mask is not None:
            closed, bias = split_bias(as_wide(mask, lead, n, m), self.align)
            parts += closed
        return joined(parts), bias

    def extra_repr(self) -> str:
        own = ["score=the module's own"] if self.score is None else []
        return ", ".join([*own, f"over={self.over}", f"backend={self.backend!r}"])


def as_wide(mask: Tensor, lead: tuple[int, ...], n: int, m: int) -> Tensor:
    """A mask that broadcasts to (*lead, n, m) as (B or 1, H or 1, n or 1, m or 1): several batch axes become one."""
    mask = mask.reshape((1,) * (len(lead) + 2 - mask.ndim) + tuple(mask.shape))
    if len(lead) < 3:
        return mask
    if any(size > 1 for size in mask.shape[:-3]):
        mask = mask.expand(*lead[:-1], *mask.shape[-3:])
    return mask.reshape(-1, *mask.shape[-3:])


def split_bias(mask: Tensor, align: Alignment) -> tuple[list[Structure], Tensor]:
    """Splits an additive mask into a boolean mask and a bias.

    Under softmax -inf and the least finite number give weights of 0. Other alignments may give any finite score
    weight, so such pairs are masked.
    """
    if type(align) is Softmax and not bool(torch.isneginf(mask).any()):
        return [], mask
    keep = mask > torch.finfo(mask.dtype).min / 2
    return [Mask(keep)], mask.where(keep, 0.0)


def joined(parts: Iterable[Structure]) -> Structure | None:
    over: Structure | None = None
    for part in parts:
        over = part if over is None else over & part
    return over


class SdpaCalls(TorchFunctionMode):
    """Context in which `plan` computes torch's scaled_dot_product_attention; `calls` counts the calls."""

    def __init__(self, plan: SdpaPlan):
        super().__init__()
        self.plan, self.calls = plan, 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is F.scaled_dot_product_attention:
            self.calls += 1
            return self.plan.forward(*args, **(kwargs or {})).out
        return func(*args, **(kwargs or {}))
