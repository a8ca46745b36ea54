"""Layers of `regard.nn` as torch_geometric MessagePassing modules, so that its tools support them.

Same constructors, parameters and results as in `regard.nn`. What the tools need in addition:

    to_hetero, HeteroConv, summary, num_hops     isinstance(layer, MessagePassing)
    GNNExplainer, PGExplainer, GraphMask         layer.explain with a mask: every message is scaled by its edge's
    AttentionExplainer                           a hook after the messages that receives "alpha", here on the
                                                 caller's edges, without added self-loops
"""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import Aggregation, MessagePassing

from ... import nn as layers
from ...core.attend import Attended
from ...core.maps.edges import edge_weights
from ...core.maps.lazy import LazyMap
from ...core.scores import Score
from ...nn.graph.adjacency import Adjacency
from ...nn.graph.layer import GraphLayer, weights_of


def _over_edges(
    self: Any,
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
    ran = GraphLayer.over_edges(self, q, k, v, score, graph, self_loops, key, value, join)
    if not self.explain and not self._message_forward_hooks:
        return ran
    if v.ndim != 3 or not isinstance(ran.map, LazyMap):
        raise ValueError(
            f"{type(self).__name__}: torch_geometric's explainers scale the messages of one graph, x (N, F); these are "
            "batched features, or weights of an intervention. Explain them one by one."
        )
    if self._message_forward_hooks:
        weights = edge_weights(ran.map, grad=torch.is_grad_enabled(), dropout=False).unflatten(0, ran.map.lead)
        alpha = weights.transpose(-1, -2)  # (E + nodes, H): the caller's edges come first
        for hook in self._message_forward_hooks.values():
            hook(self, ({"alpha": alpha},), alpha)
    return self._masked(ran, q, v, graph, self_loops, value) if self.explain else ran


def _masked(
    self: Any, ran: Attended, q: Tensor, v: Tensor, graph: Adjacency, self_loops: bool, value: Tensor | None
) -> Attended:
    """y_i = sum_e mask_e w_e v_j, with the messages (E', H, C) in torch_geometric's order: what explain_message takes.

    Weights are not renormalised, as in torch_geometric: a mask scales messages.
    """
    listed = Adjacency(graph.index, None, graph.index, held=graph.held)
    index, weights = weights_of(ran.map, listed, self_loops)
    carried = v.transpose(0, 1)[index[0]]  # (E', H, C)
    if value is not None:
        carried = carried + value.transpose(0, 1)
    messages = self.explain_message(weights[..., None].to(v.dtype) * carried, dim_size=q.shape[-2])
    out = messages.new_zeros((q.shape[-2], *messages.shape[1:])).index_add(0, index[1], messages)
    return Attended(out.transpose(0, 1), ran.map)


def _layer(kind: type[GraphLayer]) -> Any:
    """A subclass of `kind` that is a torch_geometric MessagePassing."""

    def begin(self: Any, *args: Any, **options: Any) -> None:
        kind.__init__(self, *args, **options)
        self.node_dim = 0  # messages are (E, H, C)

    begin.__wrapped__ = kind.__init__  # type: ignore[attr-defined]  # whoever asks for its signature sees ours
    body = {
        "__init__": begin,
        "__doc__": kind.__doc__,
        "__module__": __name__,
        "calls_attend": True,  # a recording captures that call and ignores the messages
        "over_edges": _over_edges,
        "_masked": _masked,
        "_alpha": None,  # a buffer of torch_geometric's layers; here weights are in the map
    }
    return type(kind.__name__, (kind, MessagePassing), body)


def _without_masks(kind: type[GraphLayer]) -> Any:
    """The same for layers without message masks, which raise an error in explain mode."""
    made = _layer(kind)

    def forward(self: Any, *args: Any, **options: Any) -> Any:
        if self.explain or self._message_forward_hooks:
            raise ValueError(
                f"{kind.__name__} applies no masks to its messages and runs no hooks on them, so GNNExplainer and "
                "AttentionExplainer would not see it: use MapExplainer() of regard.integrations.torch_geometric, or "
                "set explain = False on this layer to leave it out."
            )
        return kind.forward(self, *args, **options)

    forward.__wrapped__ = kind.forward  # type: ignore[attr-defined]
    made.forward = forward
    return made


AGNNConv = _layer(layers.AGNNConv)
GATConv = _layer(layers.GATConv)
GATv2Conv = _layer(layers.GATv2Conv)
HANConv = _without_masks(layers.HANConv)
HGTConv = _without_masks(layers.HGTConv)
RGATConv = _without_masks(layers.RGATConv)
SuperGATConv = _layer(layers.SuperGATConv)
TransformerConv = _layer(layers.TransformerConv)

# a convolution takes it as aggr=
AttentionalAggregation = type(
    "AttentionalAggregation",
    (layers.AttentionalAggregation, Aggregation),
    {"__doc__": layers.AttentionalAggregation.__doc__, "__module__": __name__},
)
