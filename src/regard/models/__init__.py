"""Task models: whole networks that are trained as they are."""

from .gat import GAT, GATv2
from .mlp import MLP

__all__ = ["GAT", "MLP", "GATv2"]
