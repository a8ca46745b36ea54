"""Feature models: from a batch to vectors that can be attended."""

from .documents import Documents
from .nodes import Nodes
from .patches import Patches
from .recurrent import Recurrent
from .seen import Seen
from .transformed import Block, Transformed
from .words import Convolved, Embedded, Frames, Pairs

__all__ = [
    "Block",
    "Convolved",
    "Documents",
    "Embedded",
    "Frames",
    "Nodes",
    "Pairs",
    "Patches",
    "Recurrent",
    "Seen",
    "Transformed",
]
