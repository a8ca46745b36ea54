"""Launches of what is read off a map: one description of the map, one function for each reading."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import triton
from torch import Tensor

from regard.backends.range_masks import Ranges

from ..common.pair_tables import DOT, LOG2E, PairTables
from ..dense.launch_config import or_other
from ..runtime.device_support import A100_TILES_KIB, H100_TILES_KIB, shared_memory_kib
from ..runtime.fast_launcher import BoundKernel
from ..runtime.triton_private import INTERPRETED
from .kernels import CELLS, ENTROPY, NOTHING, keys_kernel, rows_kernel, tile_kernel

STAGES = 3
TILE_BYTES = (
    92 * 1024,
    160 * 1024,
)  # bytes of shared memory that tiles of vectors may take: of a GPU with little, or much
SMALL = 64  # rows and columns of a tile whose weights are written, or of pairs


@dataclass(eq=False)
class MapTensors:
    """Some heads of a map, or each of their features: w = share_i bell_ij f(s - tau), a (g, n, d), b (g, m, d)."""

    a: Tensor
    b: Tensor
    readout: Tensor | None  # (g, d), of a pair
    key_bias: Tensor | None  # (g, m)
    row_bias: Tensor | None  # (g, n)
    core: int  # of `common/pair_tables`
    scale: float  # of a dot
    linear: float  # pairs: act(x) = linear x + bent |x|
    bent: float
    cap: float | None  # of scores
    ranges: Ranges
    low: Tensor | None  # (heads here, n) int32: the first key of each row, and the one after the last
    high: Tensor | None
    first_head: int  # of the whole map's
    heads: int
    features: int
    align: int  # 0 softmax, 1 sigmoid, 2 sparsemax and ReLU, 3 entmax 1.5, 4 entmax
    power: Tensor | None  # (heads here,): 1 / (alpha - 1) of an entmax
    cool: float  # 1 / temperature of a softmax
    seed: Tensor | None  # of a soft draw's noise
    tau: Tensor | None  # (g, n)
    share: Tensor | None  # (g, n): what the weights of each row are multiplied with
    centre: Tensor | None  # (heads here, n): of a bell over the keys, 1 / (2 width^2) = narrow
    narrow: float
    index: Tensor | None  # (g, n, picks) int32: keys that alone have weights
    picked: int  # 0 all, 1 those of the index, 2 those with a weight of one

    group = 1  # heads of queries that share one of keys

    @property
    def unit(self) -> float:
        """Scores of a softmax and a sigmoid are kept in base 2."""
        return LOG2E * self.cool if self.align <= 1 else 1.0

    @cached_property
    def tables(self) -> PairTables:
        return PairTables(self, False)

    @property
    def side(self) -> int:
        """Rows and columns of a tile: 128 of up to 128 numbers of 16 bits, fewer of longer ones, of pairs, where
        weights take more than f, and of fp32 on a GPU with little shared memory: registers are few."""
        more = (self.cap, self.seed, self.centre, self.index, self.power)
        side = 128 * 256 // max(256, self.across)
        if self.core != DOT:
            return SMALL
        small = any(x is not None for x in more) or (self.full and shared_memory_kib(self.a.device) < A100_TILES_KIB)
        return min(side, SMALL) if small else side

    @property
    def full(self) -> bool:
        return self.a.dtype == torch.float32

    @property
    def across(self) -> int:
        """Bytes of a vector, as it is padded."""
        return self.tables.dp * self.a.element_size()

    def stages(self, side: int) -> int:
        """Tiles that are read ahead, within the shared memory; 0 where not even one fits."""
        if self.core != DOT:
            return 1
        has = TILE_BYTES[shared_memory_kib(self.a.device) >= A100_TILES_KIB]
        return max(0, min(STAGES, has // (side * self.across) - 1))

    def tiles(self, side: int, walks: bool = True) -> dict[str, int]:
        """How a kernel is cut; one that walks runs faster beside another of its kind, with half of the registers."""
        made = {"BLOCK_M": side, "BLOCK_N": side, "num_warps": 4, "num_stages": self.stages(side)}
        if self.core == DOT and self.full and shared_memory_kib(self.a.device) < H100_TILES_KIB:
            return made | {"maxnreg": 255}  # said, since else the assembler may take 40 of them
        if self.core == DOT or side < SMALL:
            return made
        return made | {"num_warps": side // 8} | ({"maxnreg": 128} if walks else {})

    def empty(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty((self.a.shape[0], *shape), dtype=dtype, device=self.a.device)

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """What kernels are given; the last five are known of rows, tau the first of them."""
        tables, ranges = self.tables, self.ranges
        marks = (
            tables.own,
            tables.keys,
            ranges.lengths,
            ranges.keep,
            self.low,
            self.high,
            self.seed,
            self.tau,
            self.share,
            self.centre,
            self.index,
            self.power,
        )
        return (self.a, self.b, *tables.across, tables.readout, tables.modes, *(or_other(x, self.a) for x in marks))

    @cached_property
    def numbers(self) -> tuple[float, ...]:
        """What follows the lengths of a reading."""
        left, right, keep_b, keep_h = self.ranges.numbers(self.a.shape[1], self.b.shape[1])
        cap = 1.0 if self.cap is None else self.cap * self.unit
        return (
            left,
            right,
            self.scale * self.unit,
            cap,
            self.cool,
            LOG2E * self.narrow,
            self.first_head,
            self.heads,
            self.features,
            keep_b,
            keep_h,
            *self.tables.strides,
        )

    @cached_property
    def sizes(self) -> dict[str, Any]:
        tables = self.tables
        return {
            "CORE": self.core,
            "D": self.a.shape[2],
            "DP": tables.dp,
            "WIDTH": tables.width,
            "ALIGN": self.align,
            "PICKED": self.picked,
            "PICKS": 1 if self.index is None else self.index.shape[2],
            "OWNED": tables.own is not None,
            "BIASED": tables.keys is not None,
            "PADDED": self.ranges.lengths is not None,
            "KEPT": self.ranges.keep is not None,
            "SPANNED": self.low is not None,
            "SHARED": self.share is not None,
            "BELL": self.centre is not None,
            "CAPPED": self.cap is not None,
            "SAMPLED": self.seed is not None,
            "PRECISION": "bf16x6" if self.full else "ieee",
            "INTERPRETED": INTERPRETED,
        }

    @cached_property
    def tile(self) -> BoundKernel:
        """What writes weights of a tile: held, since a small one takes a GPU less than the processor."""
        return BoundKernel(tile_kernel, (*self.tensors, self.a), {"C": 0, **self.tiles(SMALL, False), **self.sizes})

    @property
    def plain(self) -> bool:
        """Whether scores are products alone."""
        added = (self.tables.own, self.tables.keys, self.cap, self.seed)
        return self.core == DOT and all(x is None for x in added)


def tau_of(read: MapTensors) -> Tensor:
    """(g, n): log sum exp of a softmax's scores; +inf for an empty row."""
    tau = read.empty(read.a.shape[1])
    _rows(read, NOTHING.value, tau, tau, tau, (0, 0), 1, read.side)
    return tau


def entropy_of(read: MapTensors) -> Tensor:
    """(g, n)"""
    entropy = read.empty(read.a.shape[1])
    _rows(read, ENTROPY.value, entropy, entropy, entropy, (0, 0), 1, read.side)
    return entropy


def cells_of(read: MapTensors, cell: int) -> tuple[Tensor, Tensor, Tensor]:
    """mass and peak (g, rows, columns) in fp32, count in int64."""
    rows, columns = -(-read.a.shape[1] // cell), -(-read.b.shape[1] // cell)
    mass, peak = (read.empty(rows, columns).zero_() for _ in range(2))
    count = read.empty(rows, columns, dtype=torch.int32).zero_()
    _rows(read, CELLS.value, mass, peak, count, (rows, columns), cell, max(cell, read.side))
    return mass, peak, count.long()


def _rows(
    read: MapTensors, what: int, out: Tensor, peak: Tensor, count: Tensor, cells: tuple[int, int], cell: int, side: int
) -> None:
    n, m = read.a.shape[1], read.b.shape[1]
    tensors = read.tensors if read.tau is not None else (*read.tensors[:-5], out, *read.tensors[-4:])
    rows_kernel[triton.cdiv(n, side), out.shape[0]](
        *tensors,
        out,
        peak,
        count,
        n,
        m,
        *cells,
        *read.numbers,
        C=cell,
        WHAT=what,
        PLAIN=read.plain,
        **read.tiles(side),
        **read.sizes,
    )


def mass_of(read: MapTensors) -> Tensor:
    """(g, m)"""
    n, m, mass = read.a.shape[1], read.b.shape[1], read.empty(read.b.shape[1])
    keys_kernel[triton.cdiv(m, read.side), mass.shape[0]](
        *read.tensors, mass, n, m, *read.numbers, **read.tiles(read.side), **read.sizes
    )
    return mass


def band_of(read: MapTensors, rows: slice, cols: slice) -> Tensor:
    """The weights of some rows and columns, (g, r, c)."""
    made = read.empty(rows.stop - rows.start, cols.stop - cols.start)
    if made.numel():
        high, wide = (-(-part.stop // SMALL) - part.start // SMALL for part in (rows, cols))
        g, r, c = made.shape
        numbers = (read.a.shape[1], read.b.shape[1], r, c, rows.start, cols.start, *read.numbers)
        read.tile((high * wide, g, 1), made, numbers)
    return made


def within(read: MapTensors, places: Tensor, cell: int) -> Tensor:
    """The weights of some cells, (count, cell, cell); places (count, 3) int64 are their head, row and column."""
    made = torch.empty((places.shape[0], cell, cell), dtype=torch.float32, device=places.device)
    if made.numel():
        tile_kernel[(places.shape[0],)](
            *read.tensors,
            places.contiguous(),
            made,
            read.a.shape[1],
            read.b.shape[1],
            cell,
            cell,
            0,
            0,
            *read.numbers,
            C=cell,
            **read.tiles(max(16, cell), False),
            **read.sizes,
        )
    return made
