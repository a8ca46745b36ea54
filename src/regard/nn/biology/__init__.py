"""Attention of models of proteins: over triangles of residues, and over aligned sequences."""

from .alignments import MSAColumnAttention, MSARowAttention
from .triangle import TriangleAttention

__all__ = ["MSAColumnAttention", "MSARowAttention", "TriangleAttention"]
