"""Modules people stack: attention with its projections, and the cache for decoding."""

from .attention import Attention
from .build import build_alignment, build_score
from .cache import Cache

__all__ = ["Attention", "Cache", "build_alignment", "build_score"]
