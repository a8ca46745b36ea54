"""Pictures of attention maps, and pages that show them."""

from .figures import heat_map, overlay, spotlight
from .graphs import graph_map
from .lines import line_map
from .page import save_html

__all__ = ["graph_map", "heat_map", "line_map", "overlay", "save_html", "spotlight"]
