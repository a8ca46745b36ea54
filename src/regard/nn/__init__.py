"""Modules people stack: attention with its projections, the cache for decoding, and graph layers."""

from .attention import Attention
from .build import build_alignment, build_score
from .cache import Cache
from .graph import *  # noqa: F403
from .graph import __all__ as _graph

__all__ = ["Attention", "Cache", "build_alignment", "build_score"]
__all__ += _graph
