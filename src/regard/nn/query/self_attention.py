"""Self-attention that updates its features."""

from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.attend import Attended
from regard.core.scores import Score
from regard.core.structures import Structure

from ..attention import Attention
from ..call_checks import reads


class SelfAttention(nn.Module):
    """Self-attention over the features, whose context replaces or is added to them.

        c = attention(F, F),   replace: f' = c,   residual: f' = norm(f + c)

    features (..., n, dim)  ->  out (..., n, dim); map (..., heads, n, n)

    update   "residual" (post-norm) or "replace"
    The rest goes to `Attention`: heads, d_k, d_v, score, align, dropout, rotary.

    Also known as: intra-attention.
    Vaswani et al. 2017; the survey's self-attentive query, eq. 35-37. Permutation equivariant,
    unless the structure or the score depends on positions.
    """

    @checked
    def __init__(
        self,
        dim: int,
        heads: int = 1,
        *,
        score: "str | Score" = "scaled_dot",
        align: "str | Alignment" = "softmax",
        update: str = "residual",
        dropout: float = 0.0,
        **options: int,
    ):
        super().__init__()
        if update not in ("residual", "replace"):
            raise ValueError(f'SelfAttention(update={update!r}): expected "residual" or "replace".')
        self.attention = Attention(dim, heads, score=score, align=align, dropout=dropout, **options)  # type: ignore[arg-type]
        self.norm = nn.LayerNorm(dim) if update == "residual" else None

    @reads(features="dim")
    def forward(self, features: Tensor, over: Structure | None = None) -> Attended:
        attended = self.attention(features, over=over)
        out = attended.out if self.norm is None else self.norm(features + attended.out)
        return Attended(out, attended.map, attended.sample, attended.state)
