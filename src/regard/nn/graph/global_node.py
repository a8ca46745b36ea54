"""GlobalNode: a virtual node in each graph, connected to all others in both directions."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.core.arguments import checked

from ..call_checks import reads
from .adjacency import Adjacency
from .input_checks import check_ids_of_edges, check_nodes
from .pooling import graphs_of


class GlobalNode(nn.Module):
    """Adds a virtual node to each graph, so that two layers connect any pair of nodes.

        edges + (n -> g) + (g -> n) for every node n of graph g

    x (N, F), edge_index (2, E), batch (N,)
    ->  x (N + graphs, F), edge_index (2, E + 2 N), batch (N + graphs,), edge_type (E + 2 N,)

    The virtual nodes are last, one a graph, and start with a learned vector. edge_type is 0 for the original edges,
    1 from a node to its global node, 2 back: for layers with edge types (RGATConv, SimpleHGNConv).
    `split` separates the two kinds of nodes.

    Also known as: virtual node, master node, supernode.
    Gilmer et al. 2017; "global attention" by a virtual node. Any graph layer runs on what comes out.
    """

    @checked
    def __init__(self, channels: int):
        super().__init__()
        self.start = nn.Parameter(torch.zeros(channels))

    @reads()
    def forward(
        self, x: Tensor, edge_index: Any = None, batch: Tensor | None = None, graphs: int | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        check_nodes(self, x, self.start.shape[0], by="channels")
        check_ids_of_edges(self, edge_index)
        nodes, count = x.shape[0], edge_index.shape[1]
        # an id out of bounds would index a global node
        edge_index = Adjacency(edge_index, None, edge_index).within(nodes, nodes).index
        batch, graphs = graphs_of(nodes, batch, None, graphs, x.device)
        every, home = torch.arange(nodes, device=x.device), nodes + batch
        index = torch.cat([edge_index, torch.stack([every, home]), torch.stack([home, every])], 1)
        kind = torch.repeat_interleave(
            torch.arange(3, device=x.device), torch.tensor([count, nodes, nodes], device=x.device)
        )
        x = torch.cat([x, self.start.to(x.dtype).expand(graphs, -1)])
        return x, index, torch.cat([batch, torch.arange(graphs, device=x.device)]), kind

    @staticmethod
    def split(x: Tensor, graphs: int) -> tuple[Tensor, Tensor]:
        """The nodes (N, F), and the global nodes (graphs, F)."""
        return x[: x.shape[0] - graphs], x[x.shape[0] - graphs :]
