"""Static figures, drawn by matplotlib: one kind a file. See figure.py for what a new one needs."""

from regard.core.name_registry import read_folder

from .figure import FIGURES, figure
from .graph import graph_map
from .heads import head_grid
from .heat import heat_map
from .lines import line_map
from .overlay import overlay, spotlight
from .text import text_map

read_folder(__name__, __path__)  # imports every file of this folder, so that figures register themselves

__all__ = ["FIGURES", "figure", "graph_map", "head_grid", "heat_map", "line_map", "overlay", "spotlight", "text_map"]
