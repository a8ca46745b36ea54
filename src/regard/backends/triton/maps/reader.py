"""Triton map: what is read off a map on a GPU, straight from queries, keys and tau, in one launch a reading.

What is read here: tau, the cells of a pyramid, the entropy of rows, the mass of keys, any tile, and the cells that a
search descends to. Of every score that lowers to dot products or to pairs with tanh, (leaky) ReLU or |x|, weights by
feature too, with biases and a soft cap, in fp32 or 16 bits; under every alignment that leaves a state of rows; over
ranges, key masks, segments in order and predicted windows. A score or an alignment of a user's own, other modifiers
and other masks are left to the bands of weights in core.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..runtime.device_support import device_refusal
from .map_lowering import launches, map_tensors_of

if TYPE_CHECKING:
    from regard.core.lowering.blocks import Problem
    from regard.core.maps.lazy import LazyMap

LARGEST = 128  # side of a cell that one program takes whole


class TritonMap:
    """Reads lazy maps whose tensors are on a GPU."""

    def tau(self, problem: "Problem") -> Tensor | None:
        read = map_tensors_of(problem, slice(0, problem.g)) if _runs_here(problem) else None
        return None if read is None else _by_feature(launches().tau_of(read), problem)

    def cells(self, amap: "LazyMap", cell: int) -> tuple[Tensor, Tensor, Tensor] | None:
        read = self._tensors_of(amap) if _one_program_takes(cell) else None
        if read is None or not read.stages(cell):
            return None
        mass, peak, count = (_by_feature(x, amap.live) for x in launches().cells_of(read, cell))
        return mass, peak, count if amap.features is None else count[:, 0]

    def entropy(self, amap: "LazyMap") -> Tensor | None:
        read = self._tensors_of(amap)
        return None if read is None else _by_feature(launches().entropy_of(read), amap.live)

    def mass(self, amap: "LazyMap") -> Tensor | None:
        read = self._tensors_of(amap)
        return None if read is None else _by_feature(launches().mass_of(read), amap.live)

    def band(self, amap: "LazyMap", rows: slice, cols: slice) -> Tensor | None:
        read = self._tensors_of(amap)
        if read is None or not read.stages(launches().SMALL):
            return None
        return _by_feature(launches().band_of(read, rows, cols), amap.live)

    def within(self, amap: "LazyMap", places: Tensor, cell: int) -> Tensor | None:
        read = self._tensors_of(amap) if _one_program_takes(cell) and amap.features is None else None
        return None if read is None or not read.stages(cell) else launches().within(read, places, cell)

    def _tensors_of(self, amap: "LazyMap") -> Any:
        """The map as its kernels read it, made once, since a tile takes less than making it; None where they cannot."""
        if not _runs_here(amap.live):
            return None
        if amap.reader_cache is None:
            amap.reader_cache = (map_tensors_of(amap.live, amap.slab, amap.state),)
        return amap.reader_cache[0]


def _one_program_takes(cell: int) -> bool:
    """Whether a program takes a cell whole: its side is a power of two."""
    return cell <= LARGEST and not cell & (cell - 1)


def _runs_here(problem: "Problem") -> bool:
    return not torch.compiler.is_compiling() and device_refusal(problem.device) is None


def _by_feature(x: Tensor, problem: "Problem") -> Tensor:
    """(heads x features, ...) with an axis for features, where there are some."""
    return x if problem.score.features is None else x.unflatten(0, (-1, problem.score.features))
