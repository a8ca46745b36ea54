"""Feature models: from a batch to vectors that can be attended."""

from .documents import Documents
from .encoded import Seen
from .nodes import Nodes
from .patches import Filtered, Patches
from .recurrent import Recurrent
from .transformed import Block, Transformed
from .words import Alone, Convolved, Embedded, Frames, Pairs

__all__ = [
    "Alone",
    "Block",
    "Convolved",
    "Documents",
    "Embedded",
    "Filtered",
    "Frames",
    "Nodes",
    "Pairs",
    "Patches",
    "Recurrent",
    "Seen",
    "Transformed",
]
