"""Task models: whole networks that are trained as they are."""

from .gat import GAT, GATv2

__all__ = ["GAT", "GATv2"]
