"""Modules people stack: attention with its projections, its compositions, the cache for decoding, and graph layers."""

from .attend import Attend
from .attention import Attention
from .build import build_alignment, build_score
from .composed import Composed
from .feature import *  # noqa: F403
from .feature import __all__ as _feature
from .graph import *  # noqa: F403
from .graph import __all__ as _graph
from .kv_cache import Cache
from .query import *  # noqa: F403
from .query import __all__ as _query
from .vision import *  # noqa: F403
from .vision import __all__ as _vision

__all__ = ["Attend", "Attention", "Cache", "Composed", "build_alignment", "build_score"]
__all__ += _feature
__all__ += _graph
__all__ += _query
__all__ += _vision
