"""Launching the edge kernels: the work list, shapes, the configuration table. Imported only where Triton runs."""

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from . import triton_edges_kernels as kernels

PIECE = 1024  # edges of a row that one program takes; longer rows are cut
PROGRAMS = 132 * 16  # of the pass over targets, each taking every so many rows


@dataclass(frozen=True, eq=False)
class Work:
    """Rows, largest first, long ones in pieces. Built on the device; its length is bounded by shapes alone."""

    row: Tensor  # (items,) int32, -1 past the end
    start: Tensor
    stop: Tensor
    slot: Tensor  # (items,) int32: where a piece's part goes, -1 for a whole row
    order: Tensor  # (n,) rows by falling degree
    pieces: Tensor  # (n,)
    first_slot: Tensor  # (n,)
    cuts: int  # how many rows can be cut at most
    slots: int


def work_of(start: Tensor, edges: int) -> Work:
    """From row pointers (n + 1,) of a graph with that many edges."""
    n = start.shape[0] - 1
    degree = start.diff()
    order = torch.sort(degree, descending=True, stable=True).indices
    pieces = ((degree + PIECE - 1) // PIECE).clamp_min(1)
    sorted_pieces = pieces[order]
    ends = sorted_pieces.cumsum(0)
    items = n + edges // PIECE
    item = torch.arange(items, device=start.device)
    rank = torch.searchsorted(ends, item, right=True)
    past = rank >= n
    rank = rank.clamp_max(max(0, n - 1))
    row = order[rank]
    piece = item - (ends - sorted_pieces)[rank]
    first = start[row] + piece * PIECE
    last = torch.minimum(first + PIECE, start[row + 1])
    is_cut = sorted_pieces > 1
    slot_ends = (sorted_pieces * is_cut).cumsum(0)
    first_slot_sorted = slot_ends - sorted_pieces * is_cut
    slot = torch.where(is_cut[rank] & ~past, first_slot_sorted[rank] + piece, -1)
    first_slot = torch.empty_like(first_slot_sorted).scatter_(0, order, first_slot_sorted)
    cuts = edges // PIECE
    row, first, last, slot = (_small(x) for x in (row.masked_fill(past, -1), first, last, slot))
    return Work(row, first, last, slot, _small(order), _small(pieces), _small(first_slot), min(cuts, n), 2 * cuts + 1)


def _small(x: Tensor) -> Tensor:
    return x.to(torch.int32)


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph both ways: by target as given, by source for the backward, each with its work list."""

    source: Tensor  # (E,) int32, in target order
    target: Tensor  # (E,) in source order
    place: Tensor  # (E,) in source order: where that edge stands in target order
    by_target: Work
    by_source: Work

    @staticmethod
    def of(start: Tensor, source: Tensor, m: int) -> "Graph":
        """From row pointers (n + 1,), sources in target order (E,), and the number of sources. No host waits."""
        edges = source.shape[0]
        ordered, place = torch.sort(source, stable=True)
        row = torch.searchsorted(start, torch.arange(edges, device=start.device), right=True) - 1
        start_by_source = torch.searchsorted(ordered, torch.arange(m + 1, device=start.device))
        works = work_of(start, edges), work_of(start_by_source, edges)
        return Graph(_small(source), _small(row[place]), _small(place), *works)


@dataclass(frozen=True)
class Shape:
    """Sizes, and their next powers of two."""

    kind: int
    h: int
    d: int
    dv: int

    @property
    def padded(self) -> tuple[int, int, int]:
        return triton.next_power_of_2(self.h), triton.next_power_of_2(self.d), triton.next_power_of_2(self.dv)

    def forward_config(self) -> tuple[int, int]:
        """Edges a step and warps. GAT streams rows: many in flight to a warp. Others compute on them: few to a warp."""
        return self._config(8, 1) if self.kind == 0 else self._config(2, self._row // 64)

    def backward_config(self) -> tuple[int, int]:
        return self._config(2, self._row // (128 if self.kind == 0 else 64))

    @property
    def _row(self) -> int:
        hp, dp, dvp = self.padded
        return hp * max(dp, dvp)

    def _config(self, edges: int, warps: int) -> tuple[int, int]:
        """Measured on an H200 at rows of 128 and 256 numbers; narrow rows take more edges a step to fill a warp."""
        return max(edges, min(32, 256 // self._row)), min(8, max(1, warps))


def _strided(x: Tensor) -> tuple[Tensor, int, int]:
    """A node-major tensor and its strides over nodes and heads."""
    return x, x.stride(0), x.stride(1)


def _items(work: Work) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return work.row, work.start, work.stop, work.slot


def _pieces(work: Work) -> tuple[Tensor, Tensor, Tensor]:
    return work.order, work.pieces, work.first_slot


def forward(
    shape: Shape, graph: Graph, edge: Tensor, a: Tensor, b: Tensor, v: Tensor, r: Tensor | None,
    scale: float, slope: float, dropout: float, seed: Tensor | None, shared: bool, item: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """out (n, H, DV) and tau (n, H); a (n, H, [D]), b (m, H, [D]), v (m, H, DV) with unit stride in the last axis."""
    n, work = a.shape[0], graph.by_target
    out = torch.empty((n, shape.h, shape.dv), dtype=v.dtype, device=v.device)  # every row has an item that writes it
    tau = torch.empty((n, shape.h), dtype=torch.float32, device=v.device)
    if n == 0:
        return out, tau
    hp, dp, dvp = shape.padded
    part = torch.empty(work.slots * hp * (dvp + 2), dtype=torch.float32, device=v.device)
    be, warps = shape.forward_config()
    some = a if seed is None else seed
    kernels.forward_kernel[(work.row.shape[0],)](
        *_items(work), graph.source, edge,
        *_strided(a), *_strided(b), *_strided(v), a if r is None else r,
        *_strided(out), tau, part, scale, slope, dropout, some, item,
        KIND=shape.kind, SHARED=shared, DROP=seed is not None and dropout > 0, H=shape.h, D=shape.d, DV=shape.dv,
        HP=hp, DP=dp, DVP=dvp, BE=be, num_warps=warps,
    )  # fmt: skip
    if work.cuts:
        kernels.merge_kernel[(work.cuts,)](
            *_pieces(work), *_strided(out), tau, part,
            H=shape.h, DV=shape.dv, HP=hp, DVP=dvp, num_warps=2,
        )  # fmt: skip
    return out, tau


def backward(
    shape: Shape, graph: Graph, edge: Tensor, a: Tensor, b: Tensor, v: Tensor, r: Tensor | None, out: Tensor,
    tau: Tensor, dout: Tensor, scale: float, slope: float, dropout: float, seed: Tensor | None, shared: bool, item: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:  # fmt: skip
    """Gradients of a, b, v and the readout. With `shared`, b is v and the gradient of both stands in the third."""
    n, m, device = a.shape[0], b.shape[0], v.device
    work, work_by_source, source = graph.by_target, graph.by_source, graph.source
    hp, dp, dvp = shape.padded
    make = torch.empty if n and m and source.shape[0] else torch.zeros  # with edges, every row has an item
    da = make((n, shape.h, shape.d), dtype=a.dtype, device=device)
    db = make((0 if shared else m, shape.h, shape.d), dtype=b.dtype, device=device)
    dv = make((m, shape.h, shape.dv), dtype=v.dtype, device=device)
    ds = torch.empty((source.shape[0], shape.h), dtype=torch.float32, device=device)
    pack = torch.empty((n, shape.h, 4), dtype=torch.float32, device=device)
    dr = None
    if n and m and source.shape[0]:
        kernels.delta_kernel[(n,)](
            *_strided(out), *_strided(dout), tau, *_strided(a), pack,
            n, KIND=shape.kind, H=shape.h, DV=shape.dv, HP=hp, DVP=dvp, num_warps=1,
        )  # fmt: skip
        part = torch.empty(work_by_source.slots * hp * (dvp + dp), dtype=torch.float32, device=device)
        be, warps = shape.backward_config()
        some = a if seed is None else seed
        kernels.source_kernel[(work_by_source.row.shape[0],)](
            *_items(work_by_source), graph.target, graph.place, edge,
            *_strided(a), *_strided(b), *_strided(v), a if r is None else r,
            *_strided(dout), pack, *_strided(db), *_strided(dv), ds,
            part, scale, slope, dropout, some, item,
            KIND=shape.kind, SHARED=shared, DROP=seed is not None and dropout > 0, H=shape.h, D=shape.d, DV=shape.dv,
            HP=hp, DP=dp, DVP=dvp, BE=be, num_warps=warps,
        )  # fmt: skip
        if work_by_source.cuts:
            kernels.source_merge_kernel[(work_by_source.cuts,)](
                *_pieces(work_by_source), *_strided(db),
                *_strided(dv), part,
                SHARED=shared, H=shape.h, D=shape.d, DV=shape.dv, HP=hp, DP=dp, DVP=dvp, num_warps=2,
            )  # fmt: skip
        part = torch.empty(work.slots * hp * dp, dtype=torch.float32, device=device)
        items = work.row.shape[0]
        programs = min(items, PROGRAMS) if shape.kind == 1 else items
        by_program = torch.zeros(
            (programs if shape.kind == 1 else 1, shape.h, shape.d), dtype=torch.float32, device=device
        )
        be, warps = (64, 1) if shape.kind == 0 else shape.backward_config()
        kernels.target_kernel[(programs,)](
            *_items(work), items, source,
            *_strided(a), *_strided(b), a if r is None else r, ds, *_strided(da),
            by_program, part, scale, slope,
            KIND=shape.kind, H=shape.h, D=shape.d, HP=hp, DP=dp, BE=be,
            num_warps=warps,
        )  # fmt: skip
        if work.cuts:
            kernels.target_merge_kernel[(work.cuts,)](
                *_pieces(work), *_strided(da), part,
                H=shape.h, D=shape.d, HP=hp, DP=dp, num_warps=2,
            )  # fmt: skip
        if shape.kind == 1:
            dr = by_program.sum(0)
    elif shape.kind == 1:
        dr = torch.zeros((shape.h, shape.d), dtype=torch.float32, device=device)
    return da, db, dv, dr
