"""The attention-free transformer as attention: feature-wise, with query-free scores."""

import torch
from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.attend import Attended, attend
from regard.core.scores import PairBias, QueryFree, Score
from regard.core.structures import Structure

from ..attend import alignment_for
from ..call_checks import reads


class AttentionFree(nn.Module):
    """Feature-wise weights from a learned position bias and the key features; the query only gates the output.

        c_if = sum_j align_j(k_jf + b_ij) v_jf,   out = W_o (sigmoid(q) * c)

    features (..., n, dim)  ->  out (..., n, dim); map (..., 1, dim, n, n)

    length   of the table b (length, length), n <= length; None: no table (AFT-simple)
    window   AFT-local: b is 0 for |i - j| >= window

    Also known as: AFT.
    Zhai et al. 2021. In the taxonomy: multi-dimensional attention with a query-free score and a bias for each pair; the
    query gates the context. Without a table all positions have the same context.
    """

    @checked
    def __init__(
        self,
        dim: int,
        length: int | None = None,
        window: int | None = None,
        *,
        align: "str | Alignment" = "softmax",
        dropout: float = 0.0,
    ):
        super().__init__()
        self.dropout, self.window = dropout, window
        self.lin_query, self.lin_key, self.lin_value, self.lin_out = (nn.Linear(dim, dim) for _ in range(4))
        self.table = None if length is None else nn.Parameter(torch.zeros(length, length))
        self.align = alignment_for(align, dim, dim)

    @reads(features="dim")
    def forward(self, features: Tensor, over: Structure | None = None) -> Attended:
        n = features.shape[-2]
        k, v = (part(features).unsqueeze(-3) for part in (self.lin_key, self.lin_value))
        score: Score = QueryFree(activation="identity", features=True)
        score = score if self.table is None else score | PairBias(self._bias(n))
        dropout = self.dropout if self.training else 0.0
        attended = attend(k, k, v, score, self.align, over, dropout=dropout, sample=self.training)
        out = self.lin_out(torch.sigmoid(self.lin_query(features)) * attended.out.squeeze(-3))
        return Attended(out, attended.map, attended.sample)

    def _bias(self, n: int) -> Tensor:
        assert self.table is not None
        if n > self.table.shape[0]:
            raise ValueError(
                f"AttentionFree was built for length={self.table.shape[0]}, but there are {n} positions: "
                "build it longer."
            )
        bias = self.table[:n, :n]
        if self.window is None:
            return bias
        place = torch.arange(n, device=bias.device)
        return bias.masked_fill((place[:, None] - place).abs() >= self.window, 0.0)
