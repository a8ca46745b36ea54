"""How far two distributions are apart: total variation, Kullback-Leibler, Jensen-Shannon. The last axis sums to one."""

import math

import torch
from torch import Tensor

LARGEST = math.log(2)  # of a Jensen-Shannon divergence, in nats


def tvd(p: Tensor, q: Tensor) -> Tensor:
    """Total variation: half of sum |p - q|, from 0 to 1. Of two classes: how far the probability of one moved."""
    return (p - q).abs().sum(-1) / 2


def kl(p: Tensor, q: Tensor) -> Tensor:
    """Kullback-Leibler divergence of p from q, sum p log(p / q) in nats: what p does matters, 0 log 0 = 0.

    Infinite where q is 0 and p is not. KL(p, q) and KL(q, p) differ. The gradient is 0 where p is 0.
    """
    some = p > 0
    ratio = torch.where(some, p, 1.0).log() - torch.where(some, q, 1.0).log()
    return (p * ratio).sum(-1)


def jsd(p: Tensor, q: Tensor) -> Tensor:
    """Jensen-Shannon divergence in nats, (KL(p, m) + KL(q, m)) / 2 with m = (p + q) / 2: symmetric, at most log 2."""
    middle = (p + q) / 2
    return ((kl(p, middle) + kl(q, middle)) / 2).clamp_min(0.0)


def over_units(weights: Tensor, units: Tensor) -> Tensor:
    """Weights (..., n) as a distribution over the units, bool (..., n), alone; 0 where they have no weight at all."""
    some = weights.masked_fill(~units, 0.0)
    total = some.sum(-1, keepdim=True)
    return some / total.where(total > 0, 1.0)
