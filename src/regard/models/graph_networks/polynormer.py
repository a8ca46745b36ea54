"""Polynormer: local layers, then linear attention over all nodes, each gated by the features."""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from ...nn.graph import GATConv, PolynormerAttention
from ...nn.graph.adjacency import read_graph
from ...nn.graph.features import dropped
from ...nn.graph.linear import linear
from ..gcn import GCNConv


class Polynormer(nn.Module):
    """A polynomial network in two stages: local along the edges, then global over all nodes.

        x_l = (1 - b) LN(relu(H x) * z) + b z,   z = relu(norm(conv(x, edges) + W x)),   local: the sum of all x_l
        global: PolynormerAttention on LN(local),   log p = log_softmax(V ...) of the global stage, or of the local one

    x (N, in_channels) dense or torch.sparse, edge_index (2, E) or an adjacency, batch (N,) the graph of each node (one
    graph unless given)  ->  log-probabilities (N, out_channels)

    attend_globally   False: the output of the local stage, with which the paper starts training
    return_maps       (log p, maps of the global layers)

    Deng et al. 2024. Arguments and parameters are those of torch_geometric.nn.models.Polynormer, where the switch is
    the attribute `_global`, and whose global layers support a single head.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        local_layers: int = 7,
        global_layers: int = 2,
        in_dropout: float = 0.15,
        dropout: float = 0.5,
        global_dropout: float = 0.5,
        heads: int = 1,
        beta: float = 0.9,
        qk_shared: bool = False,
        pre_ln: bool = False,
        post_bn: bool = True,
        local_attn: bool = False,
        *,
        attend_globally: bool = True,
    ):
        super().__init__()
        self.in_drop, self.dropout, self.beta, self.attend_globally = in_dropout, dropout, beta, attend_globally
        self.pre_ln, self.post_bn, wide = pre_ln, post_bn, heads * hidden_channels
        widths = [in_channels] + (local_layers - 1) * [wide]
        self.h_lins = nn.ModuleList(linear(width, wide, glorot=False) for width in widths)
        self.local_convs = nn.ModuleList(
            GATConv(width, hidden_channels, heads=heads, add_self_loops=False, bias=False)
            if local_attn
            else GCNConv(width, wide)
            for width in widths
        )
        self.lins = nn.ModuleList(linear(width, wide, glorot=False) for width in widths)
        self.lns = nn.ModuleList(nn.LayerNorm(wide) for _ in widths)
        if pre_ln:
            self.pre_lns = nn.ModuleList(nn.LayerNorm(width) for width in widths)
        if post_bn:
            self.post_bns = nn.ModuleList(nn.BatchNorm1d(wide) for _ in widths)
        self.lin_in, self.ln = linear(in_channels, wide, glorot=False), nn.LayerNorm(wide)
        self.global_attn = nn.ModuleList(
            PolynormerAttention(wide, heads, hidden_channels, beta, dropout=global_dropout, qk_shared=qk_shared)
            for _ in range(global_layers)
        )
        self.pred_local, self.pred_global = nn.Linear(wide, out_channels), nn.Linear(wide, out_channels)

    def forward(
        self,
        x: Tensor,
        edge_index: Any,
        batch: Tensor | None = None,
        graphs: int | None = None,
        return_maps: bool = False,
    ) -> Any:
        index, total = read_graph(edge_index).index, None
        x = dropped(x, self.in_drop, self.training)
        for place, conv in enumerate(self.local_convs):
            x = self.pre_lns[place](x) if self.pre_ln else x
            gate = F.relu(self.h_lins[place](x))
            z = conv(x, index) + self.lins[place](x)
            z = F.relu(self.post_bns[place](z) if self.post_bn else z)
            z = F.dropout(z, self.dropout, self.training)
            x = (1 - self.beta) * self.lns[place](gate * z) + self.beta * z
            total = x if total is None else total + x
        assert total is not None
        maps: list[Any] = []
        if self.attend_globally:
            x = self.ln(total)
            for attention in self.global_attn:
                x, amap = attention(x, batch, graphs, return_map=True)
                maps.append(amap)
            found = F.log_softmax(self.pred_global(x), -1)
        else:
            found = F.log_softmax(self.pred_local(total), -1)
        return (found, maps) if return_maps else found
