"""Structures: who may meet whom. Row = the one attending (query), column = the attended (key). True = may be attended.

A structure is a frozen value, a predicate on pairs of indices with ranges in closed form: no n x m tensor exists
unless the user brings one (`Mask`). Structures combine with `&`. Edges live in `core/structures/edges.py`.
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
