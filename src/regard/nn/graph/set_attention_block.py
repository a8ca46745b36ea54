"""SetAttentionBlock: a transformer block over a set, over all of it or over the pairs of a structure."""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.structures import Structure

from ..call_checks import reads
from .graph_self_attention import GraphSelfAttention


class SetAttentionBlock(nn.Module):
    """A pre-norm transformer block: attention and an MLP, each with a residual connection.

        z = x + attention(LN(x)),   x' = z + W_2 mish(W_1 LN(z))

    x (N, dim), batch (N,) the set of each row, or over= a structure: Edges(...) for a masked block  ->  (N, dim)

    return_map=True: (out, AttentionMap)

    Also known as: SAB, MAB, masked self-attention block.
    Lee et al. 2019 (Set Transformer), in the pre-norm form of Buterez et al. 2025. In a fully masked
    row attention adds its bias alone.
    """

    @checked
    def __init__(
        self,
        dim: int,
        heads: int = 4,
        hidden: int | None = None,
        dropout: float = 0.0,
        attn_dropout: float = 0.0,
        *,
        align: "str | Alignment" = "softmax",
        backend: str = "auto",
    ):
        super().__init__()
        self.dim, self.dropout = dim, dropout
        self.attention = GraphSelfAttention(dim, heads, attn_dropout, align=align, backend=backend)
        self.norm_1, self.norm_2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.wide, self.narrow = nn.Linear(dim, hidden or 2 * dim), nn.Linear(hidden or 2 * dim, dim)

    def reset_parameters(self) -> None:
        for part in self.children():
            part.reset_parameters()  # type: ignore[operator]

    @reads()
    def forward(
        self,
        x: Tensor,
        batch: Tensor | None = None,
        graphs: int | None = None,
        over: Structure | None = None,
        return_map: bool = False,
    ) -> Any:
        made, amap = self.attention(self.norm_1(x), batch, graphs, over, return_map=True)
        x = x + F.dropout(made, self.dropout, self.training)
        more = self.narrow(F.dropout(F.mish(self.wide(self.norm_2(x))), self.dropout, self.training))
        x = x + F.dropout(more, self.dropout, self.training)
        return (x, amap) if return_map else x


def blocks_by_name(who: str, blocks: str, known: str) -> str:
    """Validates the kinds of blocks, letters such as "MSMS"."""
    wrong = [letter for letter in blocks if letter not in known] if isinstance(blocks, str) else ["?"]
    if wrong or not blocks or blocks.count("P") > 1:
        raise ValueError(
            f"{who}(blocks={blocks!r}): expected letters of {', '.join(known)}: M masked, S among all"
            f"{', P (once) pooling' if 'P' in known else ''}, such as {'MSMSPS' if 'P' in known else 'MSM'!r}."
        )
    return blocks


def stacked_blocks(count: int, dim: int, heads: int, dropout: float, **options: Any) -> nn.ModuleList:
    return nn.ModuleList(SetAttentionBlock(dim, heads, dropout=dropout, **options) for _ in range(count))
