"""Graph layers: one operator a file. Arguments, results and parameters as in torch_geometric, where it has them."""

from .agnn_conv import AGNNConv
from .attentional_aggregation import AttentionalAggregation
from .edge_gat_conv import EdgeGATConv
from .gat_conv import GATConv
from .gated_readout import GatedReadout
from .gatv2_conv import GATv2Conv
from .global_node import GlobalNode
from .graph_transformer_conv import GraphTransformerConv
from .graphormer import DegreeEncoding, GraphormerAttention, PathEncoding, shortest_paths
from .han_conv import HANConv
from .hetero import TypedMap
from .hgt_conv import HGTConv
from .rgat_conv import RGATConv
from .sag_pooling import GraphConv, SAGPooling
from .simple_hgn_conv import SimpleHGNConv
from .supergat_conv import SuperGATConv
from .transformer_conv import TransformerConv
from .walk_attention import WalkAttention

__all__ = [
    "AGNNConv",
    "AttentionalAggregation",
    "DegreeEncoding",
    "EdgeGATConv",
    "GATConv",
    "GATv2Conv",
    "GatedReadout",
    "GlobalNode",
    "GraphConv",
    "GraphTransformerConv",
    "GraphormerAttention",
    "HANConv",
    "HGTConv",
    "PathEncoding",
    "RGATConv",
    "SAGPooling",
    "SimpleHGNConv",
    "SuperGATConv",
    "TransformerConv",
    "TypedMap",
    "WalkAttention",
    "shortest_paths",
]
