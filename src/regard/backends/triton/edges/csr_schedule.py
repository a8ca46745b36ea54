"""A graph as work for a GPU: edges by target and by source, rows sorted by degree, long rows cut into pieces."""

from dataclasses import dataclass

import torch
from torch import Tensor

PIECE = 1024  # edges of a row that one program takes; longer rows are cut


@dataclass(frozen=True, eq=False)
class WorkList:
    """Rows, largest first, long ones in pieces. Built on the device; its length is bounded by shapes alone.

    Five int32 numbers each: row (-1 for none), first and last place, slot of its part (-1 for a whole row), pieces of
    the row. `items` (items, 5) has every piece of every row, `hubs` (cuts, 5) every row that is cut, with its first
    slot.
    """

    items: Tensor
    hubs: Tensor
    slots: int

    @staticmethod
    def of(start: Tensor, edges: int) -> "WorkList":
        """From row pointers (n + 1,) of a graph with that many edges. No host waits."""
        n = start.shape[0] - 1
        degree = start.diff()
        order = torch.sort(degree, descending=True, stable=True).indices
        first, last = start[:-1][order].long(), start[1:][order].long()
        pieces = ((last - first + PIECE - 1) // PIECE).clamp_min(1)
        is_cut = pieces > 1
        ends, slot_ends = pieces.cumsum(0), (pieces * is_cut).cumsum(0)
        slot = torch.where(is_cut, slot_ends - pieces, -1)
        cuts = edges // PIECE
        item = torch.arange(n + cuts, device=start.device)
        rank = torch.searchsorted(ends, item, right=True)
        past = rank >= n
        rank = rank.clamp_max(max(0, n - 1))
        piece = item - (ends - pieces)[rank]
        begin = first[rank] + piece * PIECE
        items = [
            order[rank].masked_fill(past, -1),
            begin,
            torch.minimum(begin + PIECE, last[rank]),
            torch.where(is_cut[rank], slot[rank] + piece, -1),
            pieces[rank],
        ]
        hubs = [x[: min(cuts, n)] for x in (order.masked_fill(~is_cut, -1), first, last, slot, pieces)]
        return WorkList(_packed(items), _packed(hubs), 2 * cuts + 1)


def _packed(columns: list[Tensor]) -> Tensor:
    return torch.stack(columns, -1).to(torch.int32)


@dataclass(frozen=True, eq=False)
class CSRSchedule:
    """A graph both ways: by target as given, by source for the backward, each with its work list."""

    source: Tensor  # (E,) int32, in target order
    target: Tensor  # (E,) int32, in source order
    place: Tensor  # (E,) int32, in source order: where that edge stands in target order
    by_target: WorkList
    by_source: WorkList

    @staticmethod
    def of(start: Tensor, source: Tensor, m: int) -> "CSRSchedule":
        """From row pointers (n + 1,), sources in target order (E,), and the number of sources. No host waits."""
        edges, device = source.shape[0], start.device
        ordered, place = torch.sort(source, stable=True)
        row = torch.searchsorted(start, torch.arange(edges, dtype=start.dtype, device=device), right=True) - 1
        start_by_source = torch.searchsorted(ordered, torch.arange(m + 1, dtype=source.dtype, device=device))
        source, target, place = (x.to(torch.int32) for x in (source, row[place], place))
        return CSRSchedule(source, target, place, WorkList.of(start, edges), WorkList.of(start_by_source, edges))
