"""Neural network modules: multi-head attention and its compositions, KV caches for decoding, and graph layers."""

import sys

from ..core.arguments.synonyms import no_attribute
from .attend import Attend
from .attention import Attention
from .biology import *  # noqa: F403
from .biology import __all__ as _biology
from .build import build_alignment, build_score
from .composed import Composed
from .feature import *  # noqa: F403
from .feature import __all__ as _feature
from .graph import *  # noqa: F403
from .graph import __all__ as _graph
from .kv_cache import Cache
from .multihead import *  # noqa: F403
from .multihead import __all__ as _multihead
from .multihead_attention import MultiheadAttention
from .paged_cache import PagedCache
from .query import *  # noqa: F403
from .query import __all__ as _query
from .replace import Replacement, replace
from .vision import *  # noqa: F403
from .vision import __all__ as _vision

__all__ = [
    "Attend",
    "Attention",
    "Cache",
    "Composed",
    "MultiheadAttention",
    "PagedCache",
    "Replacement",
    "build_alignment",
    "build_score",
    "replace",
]
__all__ += _biology
__all__ += _feature
__all__ += _graph
__all__ += _multihead
__all__ += _query
__all__ += _vision


def __getattr__(name: str) -> object:
    if name.startswith("_"):
        raise no_attribute(__name__, name, __all__)
    whole = __name__.partition(".")[0]
    raise no_attribute(__name__, name, __all__, {whole: sys.modules[whole].__all__})
