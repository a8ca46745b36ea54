"""Structures: which pairs may attend. Row = query, column = key. True = may be attended.

A structure is a frozen value, a predicate on pairs of indices with closed-form ranges: no n x m tensor is
materialised unless the user passes one (`Mask`). Structures combine with `&`. Edges live in `core/structures/edges.py`.
"""

from .causal_and_window import Causal, Window, check_align, shift_of
from .dynamic import DrawnKeys, PredictedWindow
from .grids import Axial, Neighbourhood, ShiftedWindows
from .masks import Mask, Padding
from .past_blocks import PastBlocks
from .segments import Segments
from .selected import Selected
from .structure import STRUCTURE_NAMES, And, Full, Structure, structure_of

__all__ = [
    "STRUCTURE_NAMES",
    "And",
    "Axial",
    "Causal",
    "DrawnKeys",
    "Full",
    "Mask",
    "Neighbourhood",
    "Padding",
    "PastBlocks",
    "PredictedWindow",
    "Segments",
    "Selected",
    "ShiftedWindows",
    "Structure",
    "Window",
    "check_align",
    "shift_of",
    "structure_of",
]
