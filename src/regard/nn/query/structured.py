"""Structured self-attention: a sentence as a matrix, a row for each learned query."""

import torch
from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.attend import Attended
from regard.core.maps.attention_map import AttentionMap
from regard.core.structures import Structure

from ..attend import Attend, ScoreLike
from ..call_checks import reads


class StructuredSelfAttention(nn.Module):
    """Several learned queries over one sequence, with a penalty against redundancy.

        A = align(W_2 tanh(W_1 H^T)),   M = A H,   penalty = |A A^T - I|_F^2

    features (..., n, dim)  ->  out (..., rows, dim); map (..., 1, rows, n)

    rows    number of learned queries; W_2 (rows, width) holds them
    width   of the hidden layer, dim unless given
    score   of a row of W_2 and tanh(W_1 h): "dot" as in the paper, or any other

    Also known as: self-attentive sentence embedding.
    Lin et al. 2017. The penalty is 0 if and only if the rows are one-hot on different positions.
    """

    @checked
    def __init__(
        self,
        dim: int,
        rows: int,
        width: int | None = None,
        *,
        score: ScoreLike = "dot",
        align: "str | Alignment" = "softmax",
        dropout: float = 0.0,
    ):
        super().__init__()
        width = width or dim
        self.hidden = nn.Linear(dim, width, bias=False)
        self.queries = nn.Parameter(torch.empty(rows, width).uniform_(-(width**-0.5), width**-0.5))
        self.attention = Attend(width, width, score, align, dropout)

    @reads(features="dim")
    def forward(self, features: Tensor, over: Structure | None = None) -> Attended:
        query = self.queries.to(features.dtype).expand(*features.shape[:-2], -1, -1)
        return self.attention(query, torch.tanh(self.hidden(features)), features, over)

    @staticmethod
    def penalty(amap: AttentionMap) -> Tensor:
        """|A A^T - I|_F^2 of each item, (...), differentiable; add its mean, times a coefficient, to the loss."""
        weights = amap.weights(grad=True).squeeze(-3)
        overlap = weights @ weights.transpose(-1, -2)
        alone = torch.eye(overlap.shape[-1], dtype=overlap.dtype, device=overlap.device)
        return (overlap - alone).square().sum((-1, -2))
