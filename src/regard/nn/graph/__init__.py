"""Graph layers: one operator a file. Arguments, results and parameters as in torch_geometric, where it has them."""

from .agnn_conv import AGNNConv
from .attentional_aggregation import AttentionalAggregation
from .gat_conv import GATConv
from .gatv2_conv import GATv2Conv
from .han_conv import HANConv
from .hgt_conv import HGTConv
from .rgat_conv import RGATConv
from .sag_pooling import GraphConv, SAGPooling
from .supergat_conv import SuperGATConv
from .transformer_conv import TransformerConv
from .types import TypedMap

__all__ = [
    "AGNNConv", "AttentionalAggregation", "GATConv", "GATv2Conv", "GraphConv", "HANConv", "HGTConv", "RGATConv",
    "SAGPooling", "SuperGATConv", "TransformerConv", "TypedMap",
]  # fmt: skip
