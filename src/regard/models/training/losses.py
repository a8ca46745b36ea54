"""Losses about attention itself: taught by gold weights, and by rewards where weights were drawn."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.core.attend import Sample

FORMS = ("squared", "cross_entropy")


def supervised(weights: Tensor, gold: Tensor, form: str = "cross_entropy") -> Tensor:
    """How far attention is from where it ought to be, an item at a time.

        squared         sum over rows i and keys j of (w_ij - g_ij)^2
        cross_entropy   - sum over rows i and keys j of g_ij log w_ij

    weights (B, H, r, n) of any map (`amap.weights(grad=True)`, or `answer.weights(grad=True)`), gold (B, r, n) or
    (B, n) of any scale, 0 or more: each row is divided by its sum  ->  (B,), the mean of the heads

    Rows without gold (the end mark, an item that nobody annotated) count nothing. Liu et al. 2016 (squared); Mi et al.
    2016 (cross-entropy). Zero exactly where weights are gold (squared), least there (cross-entropy).
    """
    if form not in FORMS:
        raise ValueError(f"supervised(form={form!r}): expected one of {', '.join(FORMS)}.")
    gold = gold[:, None] if gold.ndim == 2 else gold
    if weights.ndim != 4 or gold.ndim != 3 or gold.shape != (weights.shape[0], *weights.shape[2:]):
        raise ValueError(
            f"supervised(): weights are {tuple(weights.shape)} = (B, H, r, n) and gold is "
            f"{tuple(gold.shape)}, expected (B, r, n), or (B, n) for one row."
        )
    mass = gold.sum(-1, keepdim=True)
    wanted = (gold / mass.clamp_min(torch.finfo(weights.dtype).tiny)).to(weights.dtype)[:, None]
    if form == "squared":
        each = (weights - wanted).square()
    else:
        each = -wanted * weights.clamp_min(torch.finfo(weights.dtype).tiny).log()
    return (each * (mass > 0)[:, None]).sum((-1, -2)).mean(1)


def rewarded(
    losses: Tensor,
    samples: Sequence[Sample],
    real: Tensor,
    usual: "Tensor | float" = 0.0,
    fed: bool = True,
    entropy: float = 0.0,
) -> Tensor:
    """The score-function part of a loss: its gradient is that of the expected loss with respect to what was drawn.

        sum_t stop(L_t - b) log p(z_t) - entropy H(z_t),   L_t = sum over s >= t of loss_s

    losses (B, r) of each row, 0 where `real` (B, r) is False; samples: one a call, each with log_prob (B, H, rows), or
    (B, H) for a policy over keys; usual: what a row's loss usually is, the baseline b a row  ->  (B,)

    fed=False: what is drawn in a row changes that row alone, so L_t = loss_t. Its value is of no interest; add it to
    the loss. Any baseline leaves the expected gradient unchanged. Williams 1992; Xu et al. 2015.
    """
    over = losses.detach() - usual * real
    total = over.sum(1)
    found = losses.new_zeros(len(losses))
    rows = [sample for sample in samples if sample.log_prob.ndim == 3]
    if rows:
        log_prob = torch.cat([sample.log_prob for sample in rows], -1)
        spread = torch.cat([sample.entropy for sample in rows], -1)
        if log_prob.shape[-1] == losses.shape[1]:
            weight = over.flip(1).cumsum(1).flip(1) if fed else over
            chosen = real[:, None]
        else:  # rows that are not the target's: all of them may matter to all of the loss
            weight, chosen = total[:, None], torch.ones_like(total[:, None, None], dtype=torch.bool)
        each = weight[:, None] * log_prob - entropy * spread
        found = found + each.masked_fill(~chosen, 0.0).flatten(1).sum(1)
    for sample in samples:
        if sample.log_prob.ndim == 2:
            found = found + (total[:, None] * sample.log_prob - entropy * sample.entropy).sum(1)
    return found
