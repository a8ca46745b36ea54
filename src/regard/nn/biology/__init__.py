"""Attention of protein models: triangle attention, and row and column attention over alignments."""

from .alignments import MSAColumnAttention, MSARowAttention
from .triangle import TriangleAttention

__all__ = ["MSAColumnAttention", "MSARowAttention", "TriangleAttention"]
