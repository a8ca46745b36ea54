"""NodeFormerConv: attention over all nodes by random features, plus a relational bias along edges."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.core.arguments import SMALLEST, checked, number
from regard.core.factored import factored_attend
from regard.core.factored.segment_products import in_segments

from ..call_checks import reads
from .layer import GraphLayer
from .linear import heads_first, heads_last
from .pooling import graphs_of

FLOOR = 1e-6  # minimum of a random feature: keeps normalisers above 0


class NodeFormerConv(GraphLayer):
    """Random-feature softmax attention over all nodes, in linear time, plus a learned share of the neighbours.

        x'_i = W_o [sum_j w_ij v_j + sigmoid(b_h) sum_(j -> i) v_j / sqrt(d_i d_j)]_h
        w_ij = f(q_i) . f(k_j) e^(g_j / t) / norm,   f(x)_r = exp(o_r . z - |z|^2 / 2),   z = x / (C^1/4 sqrt t)

    x (N, F), edge_index (2, E) or an adjacency, batch (N,) the graph of each node (one graph unless given)  ->  (N, C)

    features        how many random directions o_r, orthogonal in blocks, sampled from `seed`; redraw(seed) resamples
    temperature     t; g_j is Gumbel noise, in training mode alone, and results are the mean of `samples` draws
    relational      whether to add the share b of the neighbours
    add_self_loops  of the relational part: each node has exactly one loop
    return_loss     (out, loss): the mean over edges of log w_ij / d_i, whose negative is the paper's edge regulariser
    return_map      (out, AttentionMap) of the weights w of the forward pass, without noise; map.on(edge_index) on edges

    Also known as: NodeFormer, kernelised Gumbel-softmax.
    Wu et al. 2022. w approximates the softmax of q . k / (t sqrt C), with an error that falls as 1 / sqrt(features);
    its map is exact for what the layer computed.
    """

    @checked(seed=0)
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 1,
        features: int = 30,
        temperature: float = 0.25,
        relational: bool = True,
        add_self_loops: bool = True,
        samples: int = 10,
        gumbel: bool = True,
        seed: int = 0,
        **options: Any,
    ):
        super().__init__(align="uniform", **options)
        self.in_channels, self.out_channels, self.heads, self.features = in_channels, out_channels, heads, features
        self.temperature = number(temperature, "NodeFormerConv", "temperature", SMALLEST)
        self.add_self_loops, self.samples, self.gumbel = add_self_loops, samples, gumbel
        wide = heads * out_channels
        self.lin_query, self.lin_key, self.lin_value = (nn.Linear(in_channels, wide) for _ in range(3))
        self.lin_out = nn.Linear(wide, out_channels)
        self.relational = nn.Parameter(torch.full((heads,), 0.1)) if relational else None
        self.register_buffer("directions", torch.empty(features, out_channels))
        self.directions: Tensor
        self.redraw(seed)

    def redraw(self, seed: int) -> None:
        """Resamples the random directions from a seed."""
        draw = torch.Generator().manual_seed(seed)
        width, blocks = self.out_channels, -(-self.features // self.out_channels)
        rows = [torch.linalg.qr(torch.randn(width, width, generator=draw))[0].T for _ in range(blocks)]
        length = torch.randn(self.features, width, generator=draw).norm(dim=1, keepdim=True)
        with torch.no_grad():
            self.directions.copy_(torch.cat(rows)[: self.features] * length)

    def reset_parameters(self) -> None:
        self.begin((self.lin_query, self.lin_key, self.lin_value, self.lin_out))
        if self.relational is not None:
            nn.init.constant_(self.relational, 0.1)

    @reads()
    def forward(
        self,
        x: Tensor,
        edge_index: Any = None,
        batch: Tensor | None = None,
        graphs: int | None = None,
        return_loss: bool = False,
        return_map: bool = False,
    ) -> Any:
        graph = self.read(edge_index, x)
        nodes = x.shape[-2]
        ids, count = graphs_of(nodes, batch, None, graphs, x.device)
        segments = None if batch is None else ids
        q, k, v = (heads_first(part(x), self.heads) for part in (self.lin_query, self.lin_key, self.lin_value))
        q, k = self._features(q, None, 0), self._features(k, ids, count)
        if self.training and self.gumbel:
            noise = self._noise(k)  # (samples, H, N, 1)
            q_all, v_all = q.expand(self.samples, *q.shape), v.expand(self.samples, *v.shape)
            out = factored_attend(q_all, k * noise, v_all, ids=segments, count=count, signed=False).out.mean(0)
        else:
            out = None
        ran = factored_attend(q, k, v, ids=segments, count=count, signed=False) if out is None or return_map else None
        out = ran.out if out is None and ran is not None else out
        assert out is not None
        if self.relational is not None:
            out = out + self.relational.sigmoid()[:, None, None] * self._neighbours(v, graph)
        made = self.lin_out(heads_last(out))
        if return_loss:
            return made, self._edge_loss(q, k, graph.index, ids, count)
        return (made, ran.map) if return_map and ran is not None else made

    def _features(self, z: Tensor, ids: Tensor | None, count: int) -> Tensor:
        """f(z / sqrt t), (H, N, features), divided by the maximum of each query, or of all keys of a graph."""
        z = z * (self.temperature**-0.5 * z.shape[-1] ** -0.25)
        logit = z @ self.directions.to(z.dtype).T - z.square().sum(-1, keepdim=True) / 2
        with torch.no_grad():
            most = logit.amax(-1, keepdim=True) if logit.shape[-2] else logit[..., :1]
            if ids is not None:
                best = most.new_full((most.shape[0], count, 1), -torch.inf)
                place = ids[None, :, None].expand(most.shape)
                most = best.scatter_reduce(1, place, most, "amax")[:, ids]
        return ((logit - most).exp() + FLOOR) * self.features**-0.5

    def _noise(self, k: Tensor) -> Tensor:
        """e^(g / t), g Gumbel, for each sample, head and node, over the maximum, which the normaliser cancels."""
        exponential = torch.empty(self.samples, *k.shape[:2], 1, dtype=k.dtype, device=k.device).exponential_()
        log = -exponential.clamp_min(torch.finfo(k.dtype).tiny).log() / self.temperature
        return (log - log.amax(-2, keepdim=True)).exp().clamp_min(1e-20)

    def _neighbours(self, v: Tensor, graph: Any) -> Tensor:
        """sum over edges j -> i of v_j / sqrt(d_i d_j): uniform attention between two scalings."""
        nodes = v.shape[-2]
        into, out_of = self._degrees(graph.index, nodes, v.dtype)
        nobody = v.new_zeros(1, nodes, 1)
        values = heads_last(v * out_of.clamp_min(1).rsqrt()[:, None])[None]  # (1, N, H C)
        attended = self.over_edges(nobody, nobody, values, "dot", graph, self.add_self_loops)
        return heads_first(attended.out[0] * into.sqrt()[:, None], self.heads)

    def _degrees(self, index: Tensor, nodes: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Edges into and out of each node."""
        one = torch.ones_like(index[0], dtype=dtype)
        if self.add_self_loops:
            one = one * (index[0] != index[1])
        none = torch.zeros(nodes, dtype=dtype, device=index.device)
        into, out_of = none.index_add(0, index[1], one), none.index_add(0, index[0], one)
        return (into + 1, out_of + 1) if self.add_self_loops else (into, out_of)

    def _edge_loss(self, q: Tensor, k: Tensor, index: Tensor, ids: Tensor, count: int) -> Tensor:
        j, i = index[0], index[1]
        norm = in_segments(q, k, torch.ones_like(k[..., :1]), ids, count)[..., 0]
        weight = (q[:, i] * k[:, j]).sum(-1) / norm[:, i]
        degree = torch.zeros(q.shape[-2], dtype=q.dtype, device=q.device).index_add(0, i, torch.ones_like(weight[0]))
        return (weight.log() / degree[i]).mean() if index.shape[1] else weight.sum()
