"""GraphSelfAttention: every node of a graph attends every node of the same graph."""

from typing import Any

import torch
from torch import Tensor

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.attend import attend
from regard.core.scores import Score
from regard.core.structures import Full, Segments, Structure

from ..call_checks import reads
from ..multihead_attention import MultiheadAttention
from .input_checks import check_nodes
from .linear import heads_last
from .pooling import graphs_of


class GraphSelfAttention(MultiheadAttention):
    """Multi-head attention among all nodes of each graph of a batch, without padding.

        x'_i = W_o [sum_j w_ij v_j]_heads + b_o,   w_i = softmax of q_i . k_j / sqrt(C) over the nodes j of i's graph

    x (N, channels), batch (N,) the graph of each node, in any order (one graph unless given)  ->  (N, channels)

    score, align   any of `attend`
    over           another structure, such as Edges(edge_index); batch is then ignored
    return_map     (out, AttentionMap)

    Also known as: global graph attention, fully connected attention.
    Vaswani et al. 2017. Parameters are those of torch.nn.MultiheadAttention. Nothing is padded, so a graph's result
    does not depend on the others of its batch. Permutation equivariant.
    """

    @checked
    def __init__(
        self,
        channels: int,
        heads: int = 1,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        score: "str | Score" = "scaled_dot",
        align: "str | Alignment" = "softmax",
        backend: str = "auto",
    ):
        if channels % heads:
            raise ValueError(f"GraphSelfAttention(channels={channels}, heads={heads}): expected a multiple of heads.")
        super().__init__(channels, heads, dropout, bias, batch_first=True, score=score, align=align, backend=backend)
        self.channels = channels

    def reset_parameters(self) -> None:
        self._reset_parameters()

    @reads()
    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        batch: Tensor | None = None,
        graphs: int | None = None,
        over: Structure | None = None,
        return_map: bool = False,
    ) -> Any:
        check_nodes(self, x, self.channels, by="channels")
        if over is None:
            over = same_graph(x.shape[-2], batch, graphs, x.device)
        q, k, v = self._project(x, x, x, True)
        dropout = self.dropout if self.training else 0.0
        attended = attend(
            q, k, v, self.score, self.align, over, dropout=dropout, sample=self.training, backend=self.backend
        )
        out = self.out_proj(heads_last(attended.out))
        return (out, attended.map) if return_map else out

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, heads={self.num_heads})"


def same_graph(nodes: int, batch: Tensor | None, graphs: int | None, device: torch.device) -> Structure:
    """Pairs of nodes of the same graph; all pairs without a batch vector."""
    if batch is None:
        return Full()
    return Segments(graphs_of(nodes, batch, None, graphs, device)[0])
