"""Losses on attention itself: supervised by gold weights, and score-function (REINFORCE) for sampled weights."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.core.attend import Sample

FORMS = ("squared", "cross_entropy")


def supervised(weights: Tensor, gold: Tensor, form: str = "cross_entropy") -> Tensor:
    """Distance of attention from gold weights, for each item.

        squared         sum over rows i and keys j of (w_ij - g_ij)^2
        cross_entropy   - sum over rows i and keys j of g_ij log w_ij

    weights (B, H, r, n) of any map (`amap.weights(grad=True)`, or `answer.weights(grad=True)`), gold (B, r, n) or
    (B, n) of any scale, non-negative, normalised by row  ->  (B,), the mean over heads

    Rows without gold (the end token, items without annotation) contribute 0. Liu et al. 2016 (squared); Mi et al.
    2016 (cross-entropy). The minimum is at the gold weights, where the squared form is 0.
    """
    if form not in FORMS:
        raise ValueError(f"supervised(form={form!r}): expected one of {', '.join(FORMS)}.")
    gold = gold[:, None] if gold.ndim == 2 else gold
    if weights.ndim != 4 or gold.ndim != 3 or gold.shape != (weights.shape[0], *weights.shape[2:]):
        raise ValueError(
            f"supervised(): weights are {tuple(weights.shape)} = (B, H, r, n) and gold is "
            f"{tuple(gold.shape)}, expected (B, r, n), or (B, n) for one row."
        )
    total = gold.sum(-1, keepdim=True)
    target = (gold / total.clamp_min(torch.finfo(weights.dtype).tiny)).to(weights.dtype)[:, None]
    if form == "squared":
        each = (weights - target).square()
    else:
        each = -target * weights.clamp_min(torch.finfo(weights.dtype).tiny).log()
    return (each * (total > 0)[:, None]).sum((-1, -2)).mean(1)


def score_function_loss(
    losses: Tensor,
    samples: Sequence[Sample],
    real: Tensor,
    baseline: "Tensor | float" = 0.0,
    fed: bool = True,
    entropy: float = 0.0,
) -> Tensor:
    """The score-function (REINFORCE) loss: its gradient is that of the expected loss with respect to the sampling.

        sum_t stop(L_t - b) log p(z_t) - entropy H(z_t),   L_t = sum over s >= t of loss_s

    losses (B, r) of each row, 0 where `real` (B, r) is False; samples: one a call, each with log_prob (B, H, rows), or
    (B, H) for a policy over keys; baseline: b, the expected loss of a row  ->  (B,)

    fed=False: a sample affects the loss of its own row alone, so L_t = loss_t. Only its gradient has a meaning; add it
    to the loss. Any baseline leaves the expected gradient unchanged. Williams 1992; Xu et al. 2015.
    """
    advantage = losses.detach() - baseline * real
    total = advantage.sum(1)
    loss = losses.new_zeros(len(losses))
    rows = [sample for sample in samples if sample.log_prob.ndim == 3]
    if rows:
        log_prob = torch.cat([sample.log_prob for sample in rows], -1)
        entropies = torch.cat([sample.entropy for sample in rows], -1)
        if log_prob.shape[-1] == losses.shape[1]:
            weight = advantage.flip(1).cumsum(1).flip(1) if fed else advantage
            counted = real[:, None]
        else:  # rows other than the target's: each may affect the whole loss
            weight, counted = total[:, None], torch.ones_like(total[:, None, None], dtype=torch.bool)
        each = weight[:, None] * log_prob - entropy * entropies
        loss = loss + each.masked_fill(~counted, 0.0).flatten(1).sum(1)
    for sample in samples:
        if sample.log_prob.ndim == 2:
            loss = loss + (total[:, None] * sample.log_prob - entropy * sample.entropy).sum(1)
    return loss
