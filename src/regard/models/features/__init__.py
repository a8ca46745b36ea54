"""Feature models: from a batch to the keys and values of attention."""

from .documents import Documents
from .edge_sets import EdgeSets
from .encoded import Encoded
from .nodes import Nodes
from .patches import Filtered, Patches
from .recurrent import Recurrent
from .transformed import Transformed, TransformerBlock
from .words import Alone, Convolved, Embedded, Frames, Pairs

__all__ = [
    "Alone",
    "Convolved",
    "Documents",
    "EdgeSets",
    "Embedded",
    "Encoded",
    "Filtered",
    "Frames",
    "Nodes",
    "Pairs",
    "Patches",
    "Recurrent",
    "Transformed",
    "TransformerBlock",
]
