"""Triton map: what is read off a map on a GPU, straight from queries, keys and tau, in one launch a reading.

What is read here: tau, the cells of a pyramid, the entropy of rows, the mass of keys, any tile, and the cells that a
search descends to. Of dot products (with a bias of keys or rows) in fp32 or 16 bits, without modifiers, under softmax,
sigmoid, sparsemax and entmax, over ranges (causal, window, padding) and key masks. Everything else is left to the bands
of weights in core.
"""

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..core.alignments import Alignment, Entmax, Sigmoid, Softmax, Sparsemax
from ..core.cores import Dot
from .ranges import ranges_of
from .triton_here import unable

if TYPE_CHECKING:
    from ..core.blocks import Problem
    from ..core.lazy_maps import LazyMap

WIDEST = 256  # of a head
LARGEST = 128  # side of a cell that one program takes whole


class TritonMap:
    """Reads lazy maps whose tensors are on a GPU."""

    def tau(self, problem: "Problem") -> Tensor | None:
        read = read_of(problem, slice(0, problem.g), known=False) if _here(problem) else None
        return None if read is None else _launch().tau_of(read)

    def cells(self, amap: "LazyMap", cell: int) -> tuple[Tensor, Tensor, Tensor] | None:
        kept = self._kept(amap) if _whole(cell) else None
        return None if kept is None or not kept[0].stages(cell) else _launch().cells_of(*kept, cell)

    def entropy(self, amap: "LazyMap") -> Tensor | None:
        kept = self._kept(amap)
        return None if kept is None else _launch().entropy_of(*kept)

    def mass(self, amap: "LazyMap") -> Tensor | None:
        kept = self._kept(amap)
        return None if kept is None else _launch().mass_of(*kept)

    def band(self, amap: "LazyMap", rows: slice, cols: slice) -> Tensor | None:
        kept = self._kept(amap)
        return None if kept is None else _launch().band_of(*kept, rows, cols)

    def within(self, amap: "LazyMap", places: Tensor, cell: int) -> Tensor | None:
        kept = self._kept(amap) if _whole(cell) else None
        return None if kept is None or not kept[0].stages(cell) else _launch().within(*kept, places, cell)

    def _kept(self, amap: "LazyMap") -> tuple[Any, Tensor] | None:
        """The map as its kernels read it, and tau: made once, since a tile takes less than making it."""
        if not _here(amap.live):
            return None
        if amap.kept is None:
            read = read_of(amap.live, amap.slab)
            amap.kept = (None if read is None else (read, amap.state.tau[amap.slab].contiguous()),)
        found: tuple[Any, Tensor] | None = amap.kept[0]
        return found


def _whole(cell: int) -> bool:
    """Whether a program takes a cell whole: its side is a power of two."""
    return cell <= LARGEST and not cell & (cell - 1)


def _here(problem: "Problem") -> bool:
    return not torch.compiler.is_compiling() and unable(problem.device) is None


@functools.cache
def _launch() -> Any:
    from . import triton_map_launch

    return triton_map_launch


def read_of(problem: "Problem", slab: slice, known: bool = True) -> Any:
    """Some heads of a map as its kernels read them; None where they cannot. known: tau is."""
    score, core = problem.score, problem.score.core
    found = _function(problem.align)
    if found is None or problem.factor is not None or score.modifiers or not isinstance(core, Dot):
        return None
    if core.edge is not None or score.features is not None or core.a.dtype == torch.float64:
        return None
    if not 0 < core.a.shape[-1] <= WIDEST or (not known and (found[0] != 0 or score.sink is not None)):
        return None
    ranges = ranges_of(problem.structure, problem.n, problem.m)
    if ranges is None or slab.stop - slab.start > 65535 or not problem.n or not problem.m:
        return None
    a, b = (x.detach()[slab].contiguous() for x in (core.a, core.b))
    scale = core.scale
    if scale <= 0:  # the kernels take the largest of the products before they scale them
        a, scale = (a * 0, 1.0) if scale == 0 else (-a, -scale)
    bias, own = (None if x is None else x.detach()[slab].float().contiguous() for x in (score.key_bias, score.row_bias))
    return _launch().Read(a, b, scale, bias, own, ranges, slab.start, problem.heads, *found)


def _function(align: Alignment) -> tuple[int, float] | None:
    """The number of f in the kernels, and its power 1 / (alpha - 1)."""
    if type(align) in (Softmax, Sigmoid):
        return int(type(align) is Sigmoid), 1.0
    if type(align) in (Entmax, Sparsemax) and isinstance(align, Entmax) and align.raw is None and align.fixed <= 2:
        return {2.0: 2, 1.5: 3}.get(align.fixed, 4), 1 / (align.fixed - 1)
    return None
