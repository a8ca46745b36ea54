"""Reinforced attention: a policy draws which tokens may be attended, softmax weighs those."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..arguments import sizes, whole
from ..errors import check_built
from ..lowering.kernel_forms import EXPONENTIAL, AlignmentForm
from ..structures import DrawnKeys, Structure
from .soft import Softmax


class Reinforced(Softmax, name="reinforced", free=False):
    """A policy selects tokens; softmax runs over the selected ones.

        pi_j = sigmoid(w . act(W [k_j; mean k; k_j * mean k] + b) + b'),   z_j ~ Bernoulli(pi_j),
        w_ij = softmax over {j : z_j = 1}

    Also known as: REINFORCE, policy-gradient attention.
    k (..., H, m, d); W (width, 3 d). attend(sample=True) draws z, otherwise z_j = 1 where pi_j >= 1/2. The mean is over
    valid keys. Nothing selected: output 0. The selection has no gradient; train it with sample.log_prob
    (sum_j log pi(z_j), one number a head) and a reward. Shen et al. 2018 (ReSA). With pi = 1 it is softmax.
    """

    samples = True
    selects = True

    def __init__(self, d: int, width: int | None = None):
        super().__init__()
        d, (width,) = whole(d, "Reinforced", "d"), sizes("Reinforced", width=width)
        self.hidden = nn.Linear(3 * d, width or d)
        self.out = nn.Linear(width or d, 1)

    def check(self, q: Tensor, k: Tensor) -> None:
        check_built(self, "k", k, self.hidden.in_features // 3)

    def kernel_form(self) -> AlignmentForm:
        return AlignmentForm("reinforced", EXPONENTIAL)

    def logits(self, k: Tensor, valid: Tensor | None) -> Tensor:
        """(B, H, m), for k (B, H, m, d) and valid keys, bool (B, H or 1, m)."""
        real = (
            torch.ones(k.shape[:-1], dtype=torch.bool, device=k.device) if valid is None else valid.expand(k.shape[:-1])
        )
        k = k.masked_fill(~real[..., None], 0.0)
        mean = k.sum(-2, keepdim=True) / real.sum(-1)[..., None, None].clamp_min(1).to(k.dtype)
        seen = torch.cat([k, mean.expand_as(k), k * mean], -1)
        hidden = F.elu(_linear(self.hidden, seen))
        return _linear(self.out, hidden).squeeze(-1)

    def select(self, k: Tensor, over: Structure, uniform: Tensor | None) -> tuple[Structure, Tensor, Tensor, Tensor]:
        """The narrowed structure, z (B, H, m), log-probability and entropy of the draw (B, H), over valid keys."""
        valid = over.keys(k.shape[-2])
        logits = self.logits(k, valid)
        chance = torch.sigmoid(logits)
        z = chance.detach() >= 0.5 if uniform is None else uniform < chance.detach()
        each = -F.binary_cross_entropy_with_logits(logits, z.to(logits.dtype), reduction="none")
        entropy = F.binary_cross_entropy_with_logits(logits, chance, reduction="none")
        if valid is not None:
            z = z & valid
            each, entropy = each.masked_fill(~valid, 0.0), entropy.masked_fill(~valid, 0.0)
        return over & DrawnKeys(z.flatten(0, 1), k.shape[1]), z, each.sum(-1), entropy.sum(-1)


def _linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """The layer in the precision of its input, as every score does."""
    return F.linear(x, layer.weight.to(x.dtype), layer.bias.to(x.dtype))
