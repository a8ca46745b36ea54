"""Graph layers: one operator a file. Arguments, results and parameters as in torch_geometric where it has the layer."""

from .agnn_conv import AGNNConv
from .attentional_aggregation import AttentionalAggregation
from .edge_gat_conv import EdgeGATConv
from .edge_set_attention import EdgeSetAttention
from .expander import expander_edges, second_eigenvalue
from .exphormer_conv import ExphormerConv
from .gat_conv import GATConv
from .gated_readout import GatedReadout
from .gatv2_conv import GATv2Conv
from .global_node import GlobalNode
from .gps_conv import GPSConv
from .graph_kernels import diffusion_kernel, walk_kernel
from .graph_self_attention import GraphSelfAttention
from .graph_transformer_conv import GraphTransformerConv
from .graphit_attention import GraphiTAttention
from .graphormer import DegreeEncoding, GraphormerAttention, PathEncoding, shortest_paths
from .grit_conv import GRITConv
from .han_conv import HANConv
from .hetero import TypedMap
from .hgt_conv import HGTConv
from .line_graph import line_graph
from .node_set_attention import NodeSetAttention
from .nodeformer_conv import NodeFormerConv
from .polynormer_attention import PolynormerAttention
from .rgat_conv import RGATConv
from .sag_pooling import GraphConv, SAGPooling
from .same_graph_pairs import same_graph_pairs
from .set_attention_block import SetAttentionBlock
from .sgformer_attention import SGFormerAttention
from .simple_hgn_conv import SimpleHGNConv
from .supergat_conv import SuperGATConv
from .transformer_conv import TransformerConv
from .walk_attention import WalkAttention
from .walk_encoding import WalkEncoding, walk_encoding

__all__ = [
    "AGNNConv",
    "AttentionalAggregation",
    "DegreeEncoding",
    "EdgeGATConv",
    "EdgeSetAttention",
    "ExphormerConv",
    "GATConv",
    "GATv2Conv",
    "GPSConv",
    "GRITConv",
    "GatedReadout",
    "GlobalNode",
    "GraphConv",
    "GraphSelfAttention",
    "GraphTransformerConv",
    "GraphiTAttention",
    "GraphormerAttention",
    "HANConv",
    "HGTConv",
    "NodeFormerConv",
    "NodeSetAttention",
    "PathEncoding",
    "PolynormerAttention",
    "RGATConv",
    "SAGPooling",
    "SGFormerAttention",
    "SetAttentionBlock",
    "SimpleHGNConv",
    "SuperGATConv",
    "TransformerConv",
    "TypedMap",
    "WalkAttention",
    "WalkEncoding",
    "diffusion_kernel",
    "expander_edges",
    "line_graph",
    "same_graph_pairs",
    "second_eigenvalue",
    "shortest_paths",
    "walk_encoding",
    "walk_kernel",
]
