"""Layers of graph networks by name, with the same width and call, so that networks differ only in the layer."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from ...core.structures.edges import Edges
from ...nn.graph import (
    ExphormerConv,
    GATConv,
    GATv2Conv,
    GPSConv,
    NodeFormerConv,
    PolynormerAttention,
    SetAttentionBlock,
    SGFormerAttention,
    TransformerConv,
)
from ...nn.graph.gps_conv import taken
from ...nn.graph.linear import linear
from ...nn.graph.node_norm import node_norm
from ..gcn import GCNConv
from .sage import SAGEConv


class _NoEdges(nn.Module):
    """A linear map: the layer of a network without edges."""

    def __init__(self, width: int):
        super().__init__()
        self.lin = linear(width, width)

    def forward(self, x: Tensor, edge_index: Any = None, return_map: bool = False) -> Any:
        return (self.lin(x), None) if return_map else self.lin(x)


class _Beside(nn.Module):
    """The mean of a layer over all nodes and a graph convolution, as the branches of SGFormer."""

    def __init__(self, attention: nn.Module, conv: nn.Module):
        super().__init__()
        self.attention, self.conv = attention, conv

    def forward(
        self,
        x: Tensor,
        edge_index: Any,
        batch: Tensor | None = None,
        graphs: int | None = None,
        return_map: bool = False,
    ) -> Any:
        far, amap = self.attention(x, batch, graphs, return_map=True)
        out = (far + self.conv(x, edge_index)) / 2
        return (out, amap) if return_map else out


class _SetBlock(nn.Module):
    """A block of node-set attention: over the neighbours and the node itself, or over all nodes of the graph."""

    def __init__(self, width: int, heads: int, masked: bool, dropout: float):
        super().__init__()
        self.block, self.masked = SetAttentionBlock(width, heads, dropout=dropout), masked

    def forward(
        self,
        x: Tensor,
        edge_index: Any,
        batch: Tensor | None = None,
        graphs: int | None = None,
        return_map: bool = False,
    ) -> Any:
        over = Edges(edge_index, (x.shape[0], x.shape[0]), self_loops=True) if self.masked else None
        return self.block(x, batch, graphs, over, return_map)


class _Own(nn.Module):
    """A user-defined layer(x, edge_index) with the common call."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, edge_index: Any, return_map: bool = False) -> Any:
        out = self.layer(x, edge_index)
        return (out, None) if return_map else out


Make = Callable[[int, int, int, float, Any], nn.Module]  # width, heads, place, dropout, norm
OwnLayer = Callable[[int, int], nn.Module]  # (width, heads) -> layer from (N, width) to (N, width)

# Convolutions: norm, activation and residual are added by the network.
CONVOLUTIONS: dict[str, Make] = {
    "mlp": lambda width, heads, place, dropout, norm: _NoEdges(width),
    "gcn": lambda width, heads, place, dropout, norm: GCNConv(width, width),
    "sage": lambda width, heads, place, dropout, norm: SAGEConv(width, width),
    "mean": lambda width, heads, place, dropout, norm: GATConv(width, width // heads, heads, align="uniform"),
    "gat": lambda width, heads, place, dropout, norm: GATConv(width, width // heads, heads),
    "gatv2": lambda width, heads, place, dropout, norm: GATv2Conv(width, width // heads, heads),
    "transformer": lambda width, heads, place, dropout, norm: TransformerConv(width, width // heads, heads),
    "nodeformer": lambda width, heads, place, dropout, norm: NodeFormerConv(width, width, min(heads, 4)),
    "sgformer": lambda width, heads, place, dropout, norm: _Beside(
        SGFormerAttention(width, 1, width), GCNConv(width, width)
    ),
    "polynormer": lambda width, heads, place, dropout, norm: _Beside(
        PolynormerAttention(width, heads, width // heads), GCNConv(width, width)
    ),
}

# Blocks with norms and residuals of their own.
BLOCKS: dict[str, Make] = {
    "gps": lambda width, heads, place, dropout, norm: GPSConv(
        width, GCNConv(width, width), heads, dropout, norm=norm or "layer"
    ),
    "exphormer": lambda width, heads, place, dropout, norm: GPSConv(
        width,
        GCNConv(width, width),
        dropout=dropout,
        norm=norm or "layer",
        attn_type=ExphormerConv(width, width // heads, heads, clamp=None, seed=place),
    ),
    "esa": lambda width, heads, place, dropout, norm: _SetBlock(width, heads, place % 2 == 0, dropout),
}
LAYERS = (*CONVOLUTIONS, *BLOCKS)


class GraphStep(nn.Module):
    """One layer of a network by name, with norm, activation and residual.

        convolutions: h' = dropout(relu(norm(layer(h, edges)))) (+ h),   blocks: h' = block(h, edges)

    h (N, width), edge_index (2, E), batch (N,) the graph of each node  ->  (h', AttentionMap or None)
    """

    def __init__(
        self,
        kind: "str | OwnLayer",
        width: int,
        heads: int = 4,
        place: int = 0,
        dropout: float = 0.0,
        norm: "str | None" = "layer",
        residual: bool = True,
    ):
        super().__init__()
        if isinstance(kind, str) and kind not in LAYERS:
            raise ValueError(f"GraphStep(kind={kind!r}): expected one of {', '.join(LAYERS)}.")
        if width % heads:
            raise ValueError(f"GraphStep(width={width}, heads={heads}): expected a multiple of heads.")
        self.whole, self.dropout, self.residual = kind in BLOCKS, dropout, residual
        self.layer = (
            {**CONVOLUTIONS, **BLOCKS}[kind](width, heads, place, dropout, norm)
            if isinstance(kind, str)
            else _Own(kind(width, heads))
        )
        self.norm = None if self.whole else node_norm("GraphStep", norm, width, {})

    def forward(
        self, h: Tensor, edge_index: Tensor, batch: Tensor | None = None, graphs: int | None = None
    ) -> tuple[Tensor, Any]:
        more = taken(self.layer, {"batch": batch, "graphs": graphs})
        made, amap = self.layer(h, edge_index, return_map=True, **more)
        if self.whole:
            return made, amap
        made = F.dropout(F.relu(made if self.norm is None else self.norm(made)), self.dropout, self.training)
        return (made + h if self.residual else made), amap
