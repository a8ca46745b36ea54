"""Graph layers: one operator a file. Arguments, results and parameters as in torch_geometric, where it has them."""

from .gat_conv import GATConv
from .gatv2_conv import GATv2Conv
from .transformer_conv import TransformerConv

__all__ = ["GATConv", "GATv2Conv", "TransformerConv"]
