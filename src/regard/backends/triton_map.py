"""Triton map: the cells of a pyramid on a GPU, straight from queries and keys.

What runs here: a softmax over dot products in fp32 or 16 bits, without modifiers, over ranges (causal, window, padding)
and key masks. Everything else is left to the bands of weights in core/pyramid.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..core.alignments import Softmax
from ..core.cores import Dot
from .ranges import ranges_of

if TYPE_CHECKING:
    from ..core.evaluate import Problem
    from ..core.maps import AttentionMap

HAS_TRITON = find_spec("triton") is not None
WIDEST = 256  # of a head
LARGEST = 128  # side of a cell that one program takes whole


def cells(amap: "AttentionMap", cell: int) -> "tuple[Tensor, Tensor, Tensor] | None":
    """mass, peak and count (g, rows of cells, columns of cells) of a map's heads; None where this cannot."""
    from ..core.lazy_maps import LazyMap

    if not HAS_TRITON or not isinstance(amap, LazyMap) or amap.live.device.type != "cuda":
        return None
    return cells_of(amap.live, amap.slab, cell)


def cells_of(problem: "Problem", slab: slice, cell: int) -> "tuple[Tensor, Tensor, Tensor] | None":
    score, core = problem.score, problem.score.core
    plain = not score.modifiers and score.sink is None and score.key_bias is None and problem.factor is None
    if not plain or type(problem.align) is not Softmax or not isinstance(core, Dot) or core.edge is not None:
        return None
    if core.a.dtype == torch.float64 or core.a.shape[-1] > WIDEST or cell > LARGEST or cell & (cell - 1):
        return None
    ranges = ranges_of(problem.structure, problem.n, problem.m)
    if ranges is None:
        return None
    from .triton_map_kernels import launch

    a, b = (x.detach()[slab] for x in (core.a, core.b))
    return launch(a, b, core.scale, ranges, slab.start, problem.heads, cell)
