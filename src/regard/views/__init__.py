"""Pictures of attention maps."""

from .figures import heat_map, overlay, spotlight
from .graphs import graph_map
from .lines import line_map

__all__ = ["graph_map", "heat_map", "line_map", "overlay", "spotlight"]
