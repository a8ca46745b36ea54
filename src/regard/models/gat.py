"""GAT and GATv2: the two-layer networks for classifying the nodes of a graph."""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from ..nn.graph import GATConv, GATv2Conv
from ..nn.graph.adjacency import read_graph
from ..nn.graph.features import dropped


class GAT(nn.Module):
    """Two layers of graph attention: several concatenated heads, then the classification layer.

        h = elu(GATConv(dropout(x))),   log p = log_softmax(GATConv(dropout(h)))

    x (N, nfeat), dense or torch.sparse; adj: edge_index (2, E), a torch.sparse adjacency, or a dense one (N, N) in
    which adj[i, j] > 0 means that i attends j  ->  log-probabilities (N, nclass)

    nhid, nheads   width of a hidden head and their number; nhid * nheads goes to the second layer
    dropout        on the inputs of both layers and on the weights; alpha is LeakyReLU's slope
    out_heads      heads of the second layer, averaged (8 for Pubmed)
    self_loops     add self-loops, as in the paper
    return_maps    (log p, [map of layer 1, map of layer 2])

    Velickovic et al. 2018: 8 heads of 8, dropout 0.6, alpha 0.2, Adam with lr 0.005 and weight decay 5e-4 on Cora.
    """

    layer: Any = GATConv

    def __init__(
        self,
        nfeat: int,
        nhid: int,
        nclass: int,
        dropout: float = 0.6,
        alpha: float = 0.2,
        nheads: int = 8,
        *,
        out_heads: int = 1,
        self_loops: bool = True,
        **options: Any,
    ):
        super().__init__()
        self.dropout = dropout
        shared = {"dropout": dropout, "negative_slope": alpha, "add_self_loops": self_loops, **options}
        self.attentions = self.layer(nfeat, nhid, heads=nheads, **shared)
        self.out_att = self.layer(nhid * nheads, nclass, heads=out_heads, concat=False, **shared)

    def reset_parameters(self) -> None:
        self.attentions.reset_parameters()
        self.out_att.reset_parameters()

    def forward(self, x: Tensor, adj: Any, return_maps: bool = False) -> Any:
        graph = read_graph(adj)
        x, first = self.attentions(dropped(x, self.dropout, self.training), graph, return_map=True)
        x = dropped(F.elu(x), self.dropout, self.training)
        x, second = self.out_att(x, graph, return_map=True)
        x = F.log_softmax(x, -1)
        return (x, [first, second]) if return_maps else x


class GATv2(GAT):
    """The same network with GATv2Conv (dynamic attention). Brody et al. 2022."""

    layer = GATv2Conv
