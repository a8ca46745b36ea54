"""Base class of graph layers: attention over edges, with weights in the caller's edge order."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.alignments import Alignment, alignment_of
from regard.core.arguments import checked
from regard.core.attend import Attended, attend
from regard.core.maps.attention_map import AttentionMap
from regard.core.maps.edges import edge_weights
from regard.core.maps.lazy import LazyMap
from regard.core.scores import Score
from regard.core.structures.edges import Edges

from .adjacency import Adjacency, pair_of, read_graph, sparse_like
from .input_checks import check_graph, check_nodes
from .linear import glorot_


class GraphLayer(nn.Module):
    """Attention over the edges of a graph: target i attends the sources j of its edges j -> i.

    align    how scores become weights, softmax by default; "sparsemax", "entmax15", "sigmoid", TopK(4), ...
    dropout  on the weights, in training mode
    backend  "auto", or a name that never falls back
    Of torch_geometric's further options, flow="target_to_source" reverses the edges; aggr must be "add".
    """

    @checked
    def __init__(
        self, dropout: float = 0.0, align: "str | Alignment" = "softmax", backend: str = "auto", **options: Any
    ):
        super().__init__()
        self.dropout, self.align, self.backend = dropout, align, backend
        alignment_of(align)
        self.flow = options.pop("flow", "source_to_target")
        if self.flow not in ("source_to_target", "target_to_source"):
            raise ValueError(
                f'{type(self).__name__}(flow={self.flow!r}): expected "source_to_target" or "target_to_source".'
            )
        if options.pop("aggr", "add") not in ("add", "sum"):
            raise ValueError(f'{type(self).__name__}(aggr=...): attention is a weighted sum; only "add" is possible.')
        options.pop("node_dim", None), options.pop("decomposed_layers", None)
        if options:
            raise TypeError(f"{type(self).__name__} got unknown arguments {sorted(options)}: leave them out.")

    def begin(self, parts: Iterable[Any], vectors: "Iterable[Tensor | None]" = ()) -> None:
        """Resets parameters: modules by reset_parameters, vectors by Glorot's rule, the bias to 0; None is skipped."""
        for part in parts:
            if part is not None:
                part.reset_parameters()
        for vector in vectors:
            if vector is not None:
                glorot_(vector)
        bias = getattr(self, "bias", None)
        if bias is not None:
            nn.init.zeros_(bias)

    def both_ends(self, x: Any) -> tuple[Tensor, Tensor]:
        """(sources, targets) for a score that compares them."""
        source, target = pair_of(x)
        if target is None:
            raise ValueError(
                f"{type(self).__name__} compares both ends: x = (x_source, x_target) needs the targets' features."
            )
        return source, target

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, heads={self.heads})"

    def read(self, adjacency: Any, x: Any) -> Adjacency:
        """The graph, checked against the node features x (one tensor, or sources and targets).

        Ids index their rows. Where targets have no features, the layer gives their number by `within`."""
        if adjacency is None and not isinstance(x, (Tensor, tuple, list)):
            raise TypeError(
                f"{type(self).__name__}: x is a {type(x).__name__} and edge_index is missing: "
                "conv(data.x, data.edge_index)."
            )
        by = "in_channels" if hasattr(self, "in_channels") else "channels"
        widths = getattr(self, by, -1)
        if not isinstance(widths, dict):  # by type: checked with the names of types
            check_nodes(self, x, widths, by=by)
        source, target = pair_of(x)
        graph = read_graph(adjacency, self.flow)
        check_graph(self, graph, x)
        return graph if target is None else graph.within(source.shape[-2], target.shape[-2])

    def over_edges(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        score: "str | Score",
        graph: Adjacency,
        self_loops: bool = False,
        key: Tensor | None = None,
        value: Tensor | None = None,
        join: str = "add",
    ) -> Attended:
        """q (..., H, n, d), k (..., H, m, d), v (..., H, m, d_v), with the edges' keys and values."""
        over = Edges(graph.index, (q.shape[-2], k.shape[-2]), self_loops, key, value, join, _within=graph.held)
        dropout = self.dropout if self.training else 0.0
        return attend(q, k, v, score, self.align, over, dropout=dropout, backend=self.backend)

    def answer(
        self,
        out: Tensor,
        ran: Attended,
        graph: Adjacency,
        self_loops: bool,
        return_attention_weights: "bool | None",
        return_map: bool,
    ) -> Any:
        """out; (out, (edge_index, weights)) as torch_geometric returns it; or (out, map)."""
        if return_map:
            if return_attention_weights:
                raise ValueError(
                    "return_attention_weights and return_map: pass one of them; map.edges() has the weights."
                )
            return out, ran.map
        if not return_attention_weights:
            return out
        return out, weights_of(ran.map, graph, self_loops)


def weights_of(amap: AttentionMap, graph: Adjacency, self_loops: bool) -> Any:
    """(edge_index, weights (..., E, H)) in torch_geometric's edge order, differentiable, before dropout.

    With self-loops: edges without loops, then one loop a node. For a sparse adjacency: (adjacency, weights).
    """
    if isinstance(amap, LazyMap):
        found = edge_weights(amap, grad=torch.is_grad_enabled(), dropout=False).unflatten(0, amap.lead)
    else:  # weights replaced by an intervention
        found = torch.cat([amap.edges(), amap.loops], -1)
    weights, index = found.transpose(-1, -2), graph.index  # (..., E + nodes, H)
    if not self_loops:
        weights = weights[..., : index.shape[1], :]
    else:
        count, nodes = index.shape[1], min(amap.n, amap.m)
        loop, node = index[0] == index[1], torch.arange(nodes, device=index.device)
        own = torch.full_like(node, count).scatter_reduce(0, index[0][loop], loop.nonzero()[:, 0], "amin")
        ids = torch.cat([(~loop).nonzero()[:, 0], torch.where(own < count, own, count + node)])
        index = torch.cat([index[:, ~loop], node.repeat(2, 1)], 1)
        weights = weights[..., ids, :]
    if not graph.sparse:
        return graph.as_given(index), weights
    order = torch.argsort(index[1] * max(1, amap.m) + index[0], stable=True)
    index, weights = index[:, order], weights[..., order, :]
    return sparse_like(graph.given, index, weights), weights
