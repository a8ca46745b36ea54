"""SGFormerAttention: linear attention over all nodes in one simple layer."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.arguments import checked
from regard.core.factored import factored_attend

from ..call_checks import reads
from .input_checks import check_nodes
from .linear import heads_first
from .pooling import graphs_of


class SGFormerAttention(nn.Module):
    """Linear attention over all nodes, with at least as much weight on the node itself as on all others together.

        x'_i = sum_j A_ij W_v x_j,   A_ij = (q_i . k_j + n [i = j]) / (sum_l q_i . k_l + n),   |q_i| = |k_j| = 1

    x (N, channels), batch (N,) the graph of each node, in any order (one graph unless given); n: nodes of i's graph
    ->  (N, head_channels), the mean of the heads; return_map=True: (out, AttentionMap)

    Also known as: SGFormer, simple global attention.
    Wu et al. 2023. Arguments and parameters are those of torch_geometric.nn.attention.SGFormerAttention, whose n and
    whose normaliser count the padding of a batch; here they are each graph's own. Rows of A sum to one; a weight may
    be slightly negative.
    """

    @checked
    def __init__(self, channels: int, heads: int = 1, head_channels: int | None = 64, qkv_bias: bool = False):
        super().__init__()
        if channels % heads:
            raise ValueError(f"SGFormerAttention(channels={channels}, heads={heads}): expected a multiple of heads.")
        self.channels, self.heads = channels, heads
        self.head_channels = channels // heads if head_channels is None else head_channels
        width = heads * self.head_channels
        self.q, self.k, self.v = (nn.Linear(channels, width, bias=qkv_bias) for _ in range(3))

    def reset_parameters(self) -> None:
        for part in (self.q, self.k, self.v):
            part.reset_parameters()

    @reads()
    def forward(
        self, x: Tensor, batch: Tensor | None = None, graphs: int | None = None, return_map: bool = False
    ) -> Any:
        check_nodes(self, x, self.channels, by="channels")
        nodes = x.shape[-2]
        ids, count = graphs_of(nodes, batch, None, graphs, x.device)
        q, k, v = (heads_first(part(x), self.heads) for part in (self.q, self.k, self.v))
        q, k = (F.normalize(part, dim=-1) for part in (q, k))
        if batch is None:
            own = x.new_full((nodes,), nodes)
        else:
            own = torch.zeros(count, dtype=x.dtype, device=x.device).scatter_add_(0, ids, x.new_ones(nodes))[ids]
        attended = factored_attend(q, k, v, ids=None if batch is None else ids, count=count, own=own)
        out = attended.out.mean(-3)
        return (out, attended.map) if return_map else out

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, heads={self.heads}, head_channels={self.head_channels})"
