"""Directional self-attention: feature-wise weights over earlier (or later) tokens only."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.attend import Attended
from regard.core.scores import Additive, QueryFree, Score, SoftCap
from regard.core.structures import Full, Structure, Window

from ..attend import Attend, ScoreLike, open_keys
from ..call_checks import reads
from ..composed import Composed


def by_feature(d_q: int, d_k: int) -> Score:
    """5 tanh((W_1 h_i + W_2 h_j + b) / 5), one score for each feature."""
    return Additive(d_q, d_k, d_k, activation="identity", features=True) | SoftCap(5.0)


def one_sided(features: Tensor, direction: str) -> Window:
    """Pairs with j < i (forward) or j > i (backward), without the diagonal."""
    n = max(1, features.shape[-2])
    return Window(n, -1) if direction == "forward" else Window(-1, n)


class Fusion(nn.Module):
    """g = sigmoid(W_1 a + W_2 b + c),  g * a + (1 - g) * b."""

    @checked
    def __init__(self, dim: int):
        super().__init__()
        self.old, self.new = nn.Linear(dim, dim), nn.Linear(dim, dim, bias=False)

    def forward(self, old: Tensor, new: Tensor) -> Tensor:
        gate = torch.sigmoid(self.old(old) + self.new(new))
        return gate * old + (1 - gate) * new


class DirectionalSelfAttention(nn.Module):
    """Every token attends earlier (or later) tokens, with weights for each feature.

        h = elu(W x),   s_ijf = 5 tanh((W_1 h_i + W_2 h_j + b)_f / 5) for j < i,   c_if = sum_j align_j(s_ijf) h_jf
        g = sigmoid(W_3 h + W_4 c + b'),   out = g * h + (1 - g) * c

    features (..., n, dim)  ->  out (..., n, out_dim); map (..., 1, out_dim, n, n)

    direction   "forward" (j < i) or "backward" (j > i)
    score       the feature-wise score above, or any other

    Also known as: DiSA.
    Shen et al. 2018 (DiSA). The first token (the last one, backward) has an empty row: its context is 0.
    """

    @checked
    def __init__(
        self,
        dim: int,
        out_dim: int | None = None,
        *,
        direction: str = "forward",
        score: ScoreLike = by_feature,
        align: "str | Alignment" = "softmax",
        dropout: float = 0.0,
    ):
        super().__init__()
        if direction not in ("forward", "backward"):
            raise ValueError(f'DirectionalSelfAttention(direction={direction!r}): expected "forward" or "backward".')
        out_dim = out_dim or dim
        self.direction = direction
        self.hidden, self.fusion = nn.Linear(dim, out_dim), Fusion(out_dim)
        self.attention = Attend(out_dim, out_dim, score, align, dropout)

    @reads(features="dim")
    def forward(self, features: Tensor, over: Structure | None = None) -> Attended:
        h = F.elu(self.hidden(features))
        attended = self.attention(h, h, over=one_sided(h, self.direction) & (over or Full()))
        return Attended(self.fusion(h, attended.out), attended.map, attended.sample, attended.state)


class DiSAN(nn.Module):
    """Sentence encoder by attention alone: forward and backward DiSA, then feature-wise pooling.

        u = [forward(x); backward(x)],   out_f = sum_j align_j((W tanh(W_1 u_j + b))_f) u_jf

    features (..., n, dim)  ->  out (..., 2 dim); maps: forward, backward, pooled (feature-wise)

    Shen et al. 2018. Each feature of the pooled map sums to one over the tokens.
    """

    @checked
    def __init__(self, dim: int, *, align: "str | Alignment" = "softmax", dropout: float = 0.0):
        super().__init__()
        self.onward, self.backward = (
            DirectionalSelfAttention(dim, direction=side, align=align, dropout=dropout)
            for side in ("forward", "backward")
        )
        self.pool = Attend(None, 2 * dim, QueryFree(2 * dim, features=2 * dim), align, dropout)

    @reads(features="dim")
    def forward(self, features: Tensor, over: Structure | None = None) -> Composed:
        features = features.masked_fill(~open_keys(features, over)[..., None], 0.0)
        onward, backward = self.onward(features, over), self.backward(features, over)
        pooled = self.pool(None, torch.cat([onward.out, backward.out], -1), over=over)
        steps = {"forward": onward, "backward": backward, "pooled": pooled}
        return Composed(pooled.out.squeeze(-2), steps)
