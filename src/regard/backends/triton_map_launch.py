"""Launches of what is read off a map: one description of the map, one function for each reading."""

from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from .ranges import Ranges
from .triton_map_kernels import cells_kernel, entropy_kernel, mass_kernel, tau_kernel, weights_kernel

LOG2E = 1.4426950408889634
WARPS, STAGES = 4, 3
ROOM = 160 * 1024  # bytes of shared memory that tiles of vectors may take
SMALL = 64  # rows and columns of a tile whose weights are written


@dataclass(eq=False)
class Read:
    """Some heads of a map: s = scale a . b + bias_j + own_i, w = f(s - tau). a (g, n, d), b (g, m, d)."""

    a: Tensor
    b: Tensor
    scale: float
    bias: Tensor | None  # (g, m) fp32
    own: Tensor | None  # (g, n) fp32
    ranges: Ranges
    first_head: int  # of the whole map's
    heads: int
    align: int  # 0 softmax, 1 sigmoid, 2 sparsemax, 3 entmax 1.5, 4 entmax
    power: float  # 1 / (alpha - 1)
    before: tuple[Any, ...] | None = None  # what was given to a kernel the last time, and its tau

    @property
    def unit(self) -> float:
        """Scores of a softmax and a sigmoid are kept in base 2."""
        return LOG2E if self.align <= 1 else 1.0

    @property
    def side(self) -> int:
        """Rows and columns of a tile: 128 of up to 128 numbers of 16 bits, fewer of longer ones."""
        return 128 * 256 // max(256, self.across)

    @property
    def across(self) -> int:
        """Bytes of a vector, as it is padded."""
        return self.padded * self.a.element_size()

    @property
    def padded(self) -> int:
        return max(16, int(triton.next_power_of_2(self.a.shape[2])))

    def stages(self, side: int) -> int:
        """Tiles that are read ahead, within the shared memory; 0 where not even one fits."""
        return max(0, min(STAGES, ROOM // (side * self.across) - 1))

    def tiles(self, side: int) -> dict[str, int]:
        return {"BM": side, "BN": side, "num_warps": WARPS, "num_stages": self.stages(side)}

    def empty(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty((self.a.shape[0], *shape), dtype=dtype, device=self.a.device)

    def given(self, tau: Tensor | None) -> tuple[tuple[Tensor, ...], tuple[float, ...], dict[str, Any]]:
        """Tensors, numbers and sizes of a kernel."""
        if self.before is None or self.before[0] is not tau:
            self.before = (tau, self._given(tau))
        found: tuple[tuple[Tensor, ...], tuple[float, ...], dict[str, Any]] = self.before[1]
        return found

    def _given(self, tau: Tensor | None) -> tuple[tuple[Tensor, ...], tuple[float, ...], dict[str, Any]]:
        a, b, ranges = self.a, self.b, self.ranges
        n, m, d = a.shape[1], b.shape[1], a.shape[2]
        left, right = (max(-(1 << 30), min(x, n + m)) for x in (ranges.left, ranges.right))
        keep = ranges.keep
        keep_b = 0 if keep is None or keep.shape[0] == 1 else keep.stride(0)
        keep_h = 0 if keep is None or keep.shape[1] == 1 else keep.stride(1)
        tensors = (a, b, *(a if x is None else x for x in (self.bias, self.own, tau, ranges.lengths, keep)))
        numbers = (left, right, self.scale * self.unit, self.unit, self.power, self.first_head, self.heads, keep_b,
                   keep_h)  # fmt: skip
        sizes = {"D": d, "DP": self.padded, "ALIGN": self.align, "BIASED": self.bias is not None,
                 "OWNED": self.own is not None, "PADDED": ranges.lengths is not None, "KEPT": keep is not None,
                 "WIDE": triton.knobs.runtime.interpret}  # fmt: skip
        return tensors, numbers, sizes


def tau_of(read: Read) -> Tensor:
    """(g, n): log sum exp of a softmax's scores; +inf for an empty row."""
    n, m = read.a.shape[1], read.b.shape[1]
    tau = read.empty(n)
    (a, b, bias, _, _, lengths, keep), numbers, sizes = read.given(None)
    sizes = {name: size for name, size in sizes.items() if name not in ("ALIGN", "OWNED")}
    tau_kernel[triton.cdiv(n, read.side), tau.shape[0]](
        a, b, bias, tau, lengths, keep, n, m, *numbers[:4], *numbers[5:], **read.tiles(read.side), **sizes
    )
    return tau if read.own is None else tau + read.own


def cells_of(read: Read, tau: Tensor, cell: int) -> tuple[Tensor, Tensor, Tensor]:
    """mass and peak (g, rows, columns) in fp32, count in int64."""
    n, m = read.a.shape[1], read.b.shape[1]
    rows, columns = -(-n // cell), -(-m // cell)
    mass, peak = (read.empty(rows, columns).zero_() for _ in range(2))
    count = read.empty(rows, columns, dtype=torch.int32).zero_()
    tensors, numbers, sizes = read.given(tau)
    side = max(cell, read.side)
    cells_kernel[triton.cdiv(n, side), mass.shape[0]](
        *tensors, mass, peak, count, n, m, rows, columns, *numbers, C=cell, **read.tiles(side), **sizes
    )
    return mass, peak, count.long()


def entropy_of(read: Read, tau: Tensor) -> Tensor:
    """(g, n)"""
    n, m, entropy = read.a.shape[1], read.b.shape[1], read.empty(read.a.shape[1])
    tensors, numbers, sizes = read.given(tau)
    entropy_kernel[triton.cdiv(n, read.side), entropy.shape[0]](
        *tensors, entropy, n, m, *numbers, **read.tiles(read.side), **sizes
    )
    return entropy


def mass_of(read: Read, tau: Tensor) -> Tensor:
    """(g, m)"""
    n, m, mass = read.a.shape[1], read.b.shape[1], read.empty(read.b.shape[1])
    tensors, numbers, sizes = read.given(tau)
    mass_kernel[triton.cdiv(m, read.side), mass.shape[0]](
        *tensors, mass, n, m, *numbers, **read.tiles(read.side), **sizes
    )
    return mass


def band_of(read: Read, tau: Tensor, rows: slice, cols: slice) -> Tensor:
    """The weights of some rows and columns, (g, r, c)."""
    high, wide = rows.stop - rows.start, cols.stop - cols.start
    made = read.empty(high, wide)
    if made.numel():
        tensors, numbers, sizes = read.given(tau)
        weights_kernel[-(-high // SMALL) * -(-wide // SMALL), made.shape[0]](
            *tensors, tensors[0], made, read.a.shape[1], read.b.shape[1], high, wide, rows.start, cols.start, *numbers,
            C=0, **read.tiles(SMALL), **sizes,
        )  # fmt: skip
    return made


def within(read: Read, tau: Tensor, places: Tensor, cell: int) -> Tensor:
    """The weights of some cells, (count, cell, cell); places (count, 3) int64 are their head, row and column."""
    made = torch.empty((places.shape[0], cell, cell), dtype=torch.float32, device=places.device)
    if made.numel():
        tensors, numbers, sizes = read.given(tau)
        side = max(16, cell)
        weights_kernel[(places.shape[0],)](
            *tensors, places.contiguous(), made, read.a.shape[1], read.b.shape[1], cell, cell, 0, 0, *numbers, C=cell,
            **read.tiles(side), **sizes,
        )  # fmt: skip
    return made
