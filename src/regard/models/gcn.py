"""Graph convolution, the baseline of graph attention."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..core.attend import attend
from ..core.caches.tensor_cache import cached_by_tensor
from ..core.structures.edges import Edges
from ..nn.graph.adjacency import read_graph
from ..nn.graph.features import dropped
from ..nn.graph.linear import linear


class GCNConv(nn.Module):
    """Symmetrically normalised sum over neighbours and the node itself.

        x'_i = sum_j W x_j / sqrt(d_i d_j) + b,   d: degree with self-loops

    x (N, F), edge_index (2, E) of an undirected graph  ->  (N, heads * C)

    Kipf and Welling 2017. Computed as sqrt(d_i) times the mean over neighbours of x_j / sqrt(d_j): uniform
    attention between two scalings. `heads` only multiplies the width, as a drop-in for attention layers; return_map
    gives None.
    """

    def __init__(self, in_channels: int, out_channels: int, heads: int = 1):
        super().__init__()
        self.lin = linear(in_channels, heads * out_channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(heads * out_channels))

    def forward(self, x: Tensor, edge_index: Tensor, return_map: bool = False) -> Any:
        nodes = x.shape[0]
        edge_index = read_graph(edge_index).within(nodes, nodes).index

        def root_of_degree() -> Tensor:
            others = edge_index[1][edge_index[0] != edge_index[1]]  # replace the caller's self-loops
            return (torch.bincount(others, minlength=nodes) + 1).to(torch.float32).sqrt()[:, None]

        root = cached_by_tensor((edge_index,), f"root of degree, {nodes} nodes", root_of_degree)
        v = (self.lin(x) / root)[None]
        nobody = v.new_zeros(1, nodes, 1)
        ran = attend(nobody, nobody, v, "dot", "uniform", Edges(edge_index, (nodes, nodes), self_loops=True))
        out = ran.out[0] * root + self.bias
        return (out, None) if return_map else out


class GCN(nn.Module):
    """Two layers of graph convolution, with dropout on their inputs and an ELU between; same call as models.GAT.

    x (N, nfeat), dense or torch.sparse; adj as in models.GAT  ->  log-probabilities (N, nclass). Kipf and Welling 2017.
    """

    def __init__(self, nfeat: int, nhid: int, nclass: int, dropout: float = 0.6):
        super().__init__()
        self.dropout = dropout
        self.first, self.second = GCNConv(nfeat, nhid), GCNConv(nhid, nclass)

    def forward(self, x: Tensor, adj: Any) -> Tensor:
        index = read_graph(adj).index
        x = F.elu(self.first(dropped(x, self.dropout, self.training), index))
        return F.log_softmax(self.second(dropped(x, self.dropout, self.training), index), -1)
