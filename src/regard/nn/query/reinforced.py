"""Reinforced self-attention: two policies sample the query tokens and the key tokens."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.alignments import Alignment, Reinforced
from regard.core.arguments import checked
from regard.core.attend import Attended, Sample
from regard.core.structures import Full, Mask, Structure

from ..attend import Attend, ScoreLike, mean, open_keys
from ..call_checks import reads
from .directional import Fusion, by_feature


class ReinforcedSelfAttention(nn.Module):
    """One policy samples query tokens, another key tokens; attention runs between the sampled ones.

        z^h_i ~ Bernoulli(pi^h_i),   z^d_j ~ Bernoulli(pi^d_j),   pair (i, j) is allowed where z^h_i = z^d_j = 1, i != j
        c_i = sum_j align_j(s_ij) h_j where z^h_i = 1, else mean of h;   out = g * h + (1 - g) * c

    features (..., n, dim)  ->  out (..., n, dim); map (..., 1, dim, n, n); sample.index (..., 2, n): z^h and z^d

    score     feature-wise and bounded as in DiSA, or any other
    In training mode z is sampled, else z = 1 where pi >= 1/2. Sampling has no gradient: train the policies with
    `policy_loss(result, cost)`, the rest by the task's loss.

    Also known as: ReSA, ReSAN.
    Shen et al. 2018 (ReSA). A token that is not sampled as a query gets the mean of the sentence.
    """

    @checked
    def __init__(
        self,
        dim: int,
        *,
        score: ScoreLike = by_feature,
        align: "str | Alignment" = "softmax",
        dropout: float = 0.0,
    ):
        super().__init__()
        self.hidden, self.fusion = nn.Linear(dim, dim), Fusion(dim)
        self.readers, self.read = Reinforced(dim), Reinforced(dim)
        self.attention = Attend(dim, dim, score, align, dropout)

    @reads(features="dim")
    def forward(self, features: Tensor, over: Structure | None = None) -> Attended:
        valid = open_keys(features, over)
        features = features.masked_fill(~valid[..., None], 0.0)
        lead, n = features.shape[:-2], features.shape[-2]
        drawn = [self._drawn(policy, features, valid) for policy in (self.readers, self.read)]
        readers, read = (z for z, _, _ in drawn)
        keep = readers[..., :, None] & read[..., None, :]
        keep = keep & ~torch.eye(n, dtype=torch.bool, device=features.device)
        h = F.elu(self.hidden(features))
        attended = self.attention(h, h, over=Mask(keep=keep.unsqueeze(-3)) & (over or Full()))
        context = attended.out.where(readers[..., None], mean(h, over).expand_as(h))
        log_prob, entropy = (sum(part[which] for part in drawn) for which in (1, 2))
        sample = Sample(torch.stack([readers, read], -2).reshape(*lead, 2, n), log_prob, entropy)  # type: ignore[arg-type]
        return Attended(self.fusion(h, context), attended.map, sample, attended.state)

    def _drawn(self, policy: Reinforced, features: Tensor, valid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """z (..., n), log-probability and entropy (...) of one policy."""
        lead, n = features.shape[:-2], features.shape[-2]
        flat, keys = features.reshape(lead.numel(), 1, n, features.shape[-1]), valid.reshape(lead.numel(), 1, 1, n)
        chance = torch.rand(lead.numel(), 1, n, dtype=features.dtype, device=features.device) if self.training else None
        _, z, log_prob, entropy = policy.select(flat, Mask(keep=keys), chance)
        return z.reshape(*lead, n), log_prob.reshape(lead), entropy.reshape(lead)

    @staticmethod
    def policy_loss(found: Attended, cost: Tensor, selected: float = 0.0, baseline: "float | Tensor" = 0.0) -> Tensor:
        """Mean over items of (cost + selected * share of tokens sampled - baseline) * log pi(z); cost (...).

        Its gradient is an unbiased estimate of that of the expected cost. In the paper selected is 0.02, baseline 0.
        """
        assert found.sample is not None
        share = found.sample.index.to(cost.dtype).mean((-1, -2))
        return ((cost + selected * share - baseline).detach() * found.sample.log_prob).mean()
