"""Hierarchical attention: words into sentences, sentences into a document, and so on upwards."""

from collections.abc import Sequence

from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.attend import Attended
from regard.core.structures import Mask, Structure

from ..attend import Attend, ScoreLike, open_keys
from ..call_checks import reads
from ..composed import Composed


class HierarchicalAttention(nn.Module):
    """Words are pooled into sentences and sentences into a document, each level by attention of its own.

        c_s = sum_w align_w(score_1(f_sw)) f_sw,   c = sum_s align_s(score_2(c_s)) c_s

    features (..., S, W, dim)  ->  out (..., dim);  with three levels (..., P, S, W, dim), and so on
    maps: level_1 (..., S, 1, 1, W), level_2 (..., 1, 1, S), ...

    over      valid keys of the lowest level, Padding(lengths (..., S)) or Mask(keep (..., S, 1, 1, W)); a unit without
              valid keys is masked one level up, so empty sentences change nothing
    dim       the width, or one for each level where `between` changes it
    score     "query_free", or any other with a learned query
    between   for each level but the first None or a module (x (N, S, dim), open (N, S)) -> (N, S, dim'): for example a
              GRU over sentences

    Also known as: HAN, hierarchical attention network.
    Yang et al. 2016 (HAN). With a score of 0 it is the mean of the sentences' means, not the mean of all words.
    """

    @checked
    def __init__(
        self,
        dim: "int | Sequence[int]",
        levels: int = 2,
        *,
        score: ScoreLike = "query_free",
        align: "str | Alignment" = "softmax",
        between: "Sequence[nn.Module | None] | None" = None,
        dropout: float = 0.0,
    ):
        super().__init__()
        if not isinstance(levels, int) or levels < 1:
            raise ValueError(f"HierarchicalAttention(levels={levels!r}): expected a whole number, 1 or more.")
        dims = [dim] * levels if isinstance(dim, int) else list(dim)
        if len(dims) != levels:
            raise ValueError(f"HierarchicalAttention(dim={dim}, levels={levels}): expected one width, or {levels}.")
        found = [None] * (levels - 1) if between is None else list(between)
        if len(found) != levels - 1:
            raise ValueError(
                f"HierarchicalAttention(between=...) has {len(found)} parts, expected {levels - 1}: one "
                "for each level but the first, None for nothing."
            )
        self.levels = nn.ModuleList(Attend(None, width, score, align, dropout) for width in dims)
        self.between = nn.ModuleList(nn.Identity() if part is None else part for part in found)

    @reads(features=None)
    def forward(self, features: Tensor, over: Structure | None = None) -> Composed:
        if features.ndim < len(self.levels) + 1:
            raise ValueError(
                f"features has shape {tuple(features.shape)}, expected a length for each of the "
                f"{len(self.levels)} levels and a width."
            )
        steps: dict[str, Attended] = {}
        x = features
        for level, attention in enumerate(self.levels):
            found = attention(None, x, over=over)
            steps[f"level_{level + 1}"] = found
            keep, x = open_keys(x, over).any(-1), found.out.squeeze(-2)  # keep (..., S): sentences with a valid word
            if level + 1 < len(self.levels):
                over = Mask(keep=keep[..., None, None, :])
                part = self.between[level]
                if not isinstance(part, nn.Identity):
                    x = part(x.flatten(0, -3), keep.flatten(0, -2)).reshape(*x.shape[:-1], -1)
        return Composed(x, steps)
