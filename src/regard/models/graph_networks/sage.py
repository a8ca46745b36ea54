"""GraphSAGE: the mean of the neighbours and the node itself, a baseline without attention."""

from typing import Any

from torch import Tensor, nn

from ...core.attend import attend
from ...core.structures.edges import Edges
from ...nn.graph.adjacency import read_graph
from ...nn.graph.linear import linear


class SAGEConv(nn.Module):
    """The sum of a linear map of the neighbours' mean and one of the node itself.

        x'_i = W_l mean_j x_j + b + W_r x_i

    x (N, F), edge_index (2, E) or an adjacency  ->  (N, heads * C); a node without neighbours has W_r x_i + b

    Hamilton et al. 2017. The mean is uniform attention. Parameters are those of torch_geometric.nn.SAGEConv. `heads`
    only multiplies the width, as in GCNConv; return_map=True gives (out, AttentionMap) of the equal weights.
    """

    def __init__(self, in_channels: int, out_channels: int, heads: int = 1):
        super().__init__()
        self.lin_l = linear(in_channels, heads * out_channels, glorot=False)
        self.lin_r = linear(in_channels, heads * out_channels, bias=False, glorot=False)

    def reset_parameters(self) -> None:
        self.lin_l.reset_parameters()
        self.lin_r.reset_parameters()

    def forward(self, x: Tensor, edge_index: Any, return_map: bool = False) -> Any:
        nodes = x.shape[0]
        index = read_graph(edge_index).within(nodes, nodes).index
        no_query = x.new_zeros(1, nodes, 1)
        attended = attend(no_query, no_query, x[None], "dot", "uniform", Edges(index, (nodes, nodes)))
        out = self.lin_l(attended.out[0]) + self.lin_r(x)
        return (out, attended.map) if return_map else out
