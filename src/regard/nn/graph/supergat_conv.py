"""SuperGATConv: graph attention with self-supervised link prediction."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.arguments import checked
from regard.core.attend import attend
from regard.core.scores import GAT, Activation, ScaledDot, Score
from regard.core.structures.edges import Edges

from ..call_checks import reads
from .adjacency import Adjacency
from .input_checks import check_ids, check_ids_of_edges
from .layer import GraphLayer
from .linear import heads_first, heads_last, linear


class SuperGATScore(Score):
    """GAT's score, gated by the predicted probability of the edge.

        s_ij = LeakyReLU((a_r . x_i + a_l . x_j) sigmoid(x_i . x_j))

    q = [x_i, a_r . x_i], k = [x_j, a_l . x_j], (..., H, n, C + 1)  ->  s (..., H, n, m)
    """

    @checked
    def __init__(self, slope: float = 0.2):
        super().__init__()
        self.slope = slope

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        likely = (q[..., :-1] @ k[..., :-1].transpose(-1, -2)).sigmoid()
        return F.leaky_relu((q[..., -1:] + k[..., -1:].transpose(-1, -2)) * likely, self.slope)


class SuperGATConv(GraphLayer):
    """Attention whose logits also predict edges; `get_attention_loss()` is the loss of that self-supervised task.

        x'_i = sum_j w_ij W x_j,   w_i = softmax_j e_ij,   p_ij = sigmoid(x_i . x_j)  (edge or not; x projected)
        MX: e_ij = LeakyReLU((a_r . x_i + a_l . x_j) p_ij)          SD: e_ij = LeakyReLU(x_i . x_j / sqrt(C))

    x (N, F), edge_index (2, E) or an adjacency  ->  (N, H C), or (N, C) with concat=False

    neg_sample_ratio, edge_sample_ratio   ratios of non-edges and of edges in the self-supervised task
    neg_edge_index   non-edges of your own; sampled unless given, within the graphs of `batch`

    Also known as: SuperGAT.
    Kim & Oh 2021. Arguments and parameters are those of torch_geometric.nn.SuperGATConv. Without the self-supervised
    loss, a_l = a_r = 0 gives uniform attention.
    """

    @checked
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        add_self_loops: bool = True,
        bias: bool = True,
        attention_type: str = "MX",
        neg_sample_ratio: float = 0.5,
        edge_sample_ratio: float = 1.0,
        is_undirected: bool = False,
        **options: Any,
    ):
        super().__init__(dropout, **options)
        if attention_type not in ("MX", "SD"):
            raise ValueError(
                f'SuperGATConv(attention_type={attention_type!r}): expected "MX" (mixed) or "SD" (scaled dot).'
            )
        if neg_sample_ratio <= 0 or not 0 < edge_sample_ratio <= 1:
            raise ValueError(
                f"SuperGATConv(neg_sample_ratio={neg_sample_ratio}, edge_sample_ratio="
                f"{edge_sample_ratio}): expected above 0, and the second up to 1."
            )
        self.in_channels, self.out_channels, self.heads, self.concat = in_channels, out_channels, heads, concat
        self.negative_slope, self.add_self_loops, self.attention_type = negative_slope, add_self_loops, attention_type
        self.neg_sample_ratio, self.edge_sample_ratio = neg_sample_ratio, edge_sample_ratio
        self.is_undirected = is_undirected
        self.lin = linear(in_channels, heads * out_channels, bias=False)
        mixed = attention_type == "MX"
        self.att_l = nn.Parameter(torch.empty(1, heads, out_channels)) if mixed else None
        self.att_r = nn.Parameter(torch.empty(1, heads, out_channels)) if mixed else None
        self.bias = nn.Parameter(torch.empty(out_channels * (heads if concat else 1))) if bias else None
        self.att_x: Tensor | None = None
        self.att_y: Tensor | None = None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.begin((self.lin,), (self.att_l, self.att_r))

    @reads()
    def forward(
        self,
        x: Tensor,
        edge_index: Any = None,
        neg_edge_index: Tensor | None = None,
        batch: Tensor | None = None,
        return_map: bool = False,
    ) -> Any:
        graph = self.read(edge_index, x)
        if x.ndim != 2:
            raise ValueError(
                f"SuperGATConv: x has shape {tuple(x.shape)}, expected (N, {self.in_channels}): its "
                "self-supervised task needs a single graph."
            )
        if neg_edge_index is not None:
            check_ids_of_edges(self, neg_edge_index, "neg_edge_index")
        if batch is not None:
            check_ids(self, batch, "batch", "the graph of each node", x.shape[-2])
        z = heads_first(self.lin(x), self.heads)  # (H, N, C)
        score: Score
        if self.att_l is not None and self.att_r is not None:
            score = SuperGATScore(self.negative_slope)
            q, k = (torch.cat([z, (z * a[0][:, None]).sum(-1, keepdim=True)], -1) for a in (self.att_r, self.att_l))
        else:
            score, q, k = ScaledDot() | Activation("leaky_relu", slope=self.negative_slope), z, z
        attended = self.over_edges(q, k, z, score, graph, self.add_self_loops)
        if self.training:
            self._self_supervised(z, graph.index, neg_edge_index, batch)
        out = heads_last(attended.out, self.concat)
        out = out if self.bias is None else out + self.bias
        return self.answer(out, attended, graph, self.add_self_loops, None, return_map)

    def _self_supervised(self, z: Tensor, index: Tensor, negative: Tensor | None, batch: Tensor | None) -> None:
        """Logits of edges and non-edges, and their labels."""
        nodes = z.shape[-2]
        if self.add_self_loops:
            loops = torch.arange(nodes, device=index.device).repeat(2, 1)
            index = torch.cat([index[:, index[0] != index[1]], loops], 1)
        if negative is None:
            negative = self.negative_sampling(index, nodes, batch)
        else:
            negative = Adjacency(negative, None, negative).within(nodes, nodes).index
        edge, no_edge = (self._logits(z, pairs) for pairs in (self.positive_sampling(index), negative))
        self.att_x = torch.cat([edge, no_edge])
        self.att_y = torch.cat([torch.ones_like(edge[:, 0]), torch.zeros_like(no_edge[:, 0])])

    def _logits(self, z: Tensor, pairs: Tensor) -> Tensor:
        source, target = (z[:, ends].transpose(0, 1) for ends in pairs)
        return self.get_attention(pairs[1], target, source, z.shape[-2], return_logits=True)

    def negative_sampling(self, edge_index: Tensor, num_nodes: int, batch: Tensor | None = None) -> Tensor:
        """Pairs (2, count) that are no edges and no loops, up to neg_sample_ratio * edge_sample_ratio for each edge.

        Each lies within one graph of the batch. Unless is_undirected, a pair is none where its turned one is an edge.
        """
        check_ids_of_edges(self, edge_index)
        edge_index = Adjacency(edge_index, None, edge_index).within(num_nodes, num_nodes).index
        count = int(self.neg_sample_ratio * self.edge_sample_ratio * edge_index.shape[1])
        return non_edges(edge_index, num_nodes, count, batch, both_ways=not self.is_undirected)

    def positive_sampling(self, edge_index: Tensor) -> Tensor:
        """A random share edge_sample_ratio of the edges (2, E), each independently; all in evaluation mode."""
        if not self.training or self.edge_sample_ratio >= 1:
            return edge_index
        return edge_index[:, torch.rand(edge_index.shape[1], device=edge_index.device) < self.edge_sample_ratio]

    def get_attention(
        self, edge_index_i: Tensor, x_i: Tensor, x_j: Tensor, num_nodes: int | None, return_logits: bool = False
    ) -> Tensor:
        """Of each edge, from its ends x_i (targets) and x_j (sources), (E, H, C): weights (E, H), or the logits of
        the self-supervised task. edge_index_i (E,) are the targets."""
        logits = (x_i * x_j).sum(-1)
        if self.att_l is None or self.att_r is None:
            logits = logits / math.sqrt(self.out_channels)
            score = logits
        else:
            score = ((x_j * self.att_l).sum(-1) + (x_i * self.att_r).sum(-1)) * logits.sigmoid()
        if return_logits:
            return logits
        score = F.leaky_relu(score, self.negative_slope)
        edges = score.shape[0]
        nodes = (int(edge_index_i.max()) + 1 if edges else 0) if num_nodes is None else num_nodes
        over = Edges(torch.stack([torch.arange(edges, device=score.device), edge_index_i]), (nodes, edges))
        k = score.t().unsqueeze(-1)  # a source for each edge: (H, E, 1)
        amap = attend(k.new_zeros(self.heads, nodes, 1), k, k, GAT(slope=1.0), self.align, over).map
        return amap.edges(grad=torch.is_grad_enabled()).t()

    def get_attention_loss(self) -> Tensor:
        """Cross entropy of the self-supervised task, 0 in evaluation mode; add it to the loss."""
        if not self.training or self.att_x is None or self.att_y is None:
            return torch.tensor([0], device=self.lin.weight.device)
        return F.binary_cross_entropy_with_logits(self.att_x.mean(-1), self.att_y)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.out_channels}, heads={self.heads}, "
            f"type={self.attention_type})"
        )


MANY = 1 << 16  # above this many pairs of nodes non-edges are sampled by rejection


def non_edges(index: Tensor, nodes: int, count: int, batch: Tensor | None, both_ways: bool = True) -> Tensor:
    """Up to `count` pairs (2, count) that are no edges and no loops, in neither direction if both_ways, each within one
    graph of the batch."""
    device = index.device
    taken = index[0] * nodes + index[1]
    taken = torch.cat([taken, index[1] * nodes + index[0]]) if both_ways else taken
    if batch is None:
        batch = torch.zeros(nodes, dtype=torch.long, device=device)
    if nodes * nodes <= MANY:  # few pairs: enumerate them
        pair = torch.arange(nodes * nodes, device=device)
    else:
        order = torch.argsort(batch, stable=True)
        size = torch.bincount(batch, minlength=1)
        first = size.cumsum(0) - size
        source = torch.randint(nodes, (3 * count,), device=device)
        inside = (torch.rand(source.shape[0], device=device) * size[batch[source]]).long()
        pair = torch.unique(source * nodes + order[first[batch[source]] + inside])
    source, target = pair // max(1, nodes), pair % max(1, nodes)
    pair = pair[(source != target) & (batch[source] == batch[target]) & ~torch.isin(pair, taken)]
    pair = pair[torch.randperm(pair.shape[0], device=device)[:count]]
    return torch.stack([pair // max(1, nodes), pair % max(1, nodes)])
