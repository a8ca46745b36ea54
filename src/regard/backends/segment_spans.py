"""Rows that each see one stretch of keys: segments, and windows about predicted centres.

Rows are brought into an order in which stretches only move on, and keys of one segment beside each other. A block of
rows then meets few tiles, and a key is seen by one stretch of rows too, which the backward walks along.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.plan import Plan
from ..core.structures import And, Around, Full, Segments, Structure
from .range_masks import NO_BOUND, Ranges, ranges_of


@dataclass(frozen=True, eq=False)
class Spans:
    """Row i sees keys low_i to high_i - 1, within ranges. `rows` and `keys` (g, places) are the orders, if any."""

    ranges: Ranges
    low: Tensor | None = None  # (g, n) int32
    high: Tensor | None = None
    rows: Tensor | None = None
    keys: Tensor | None = None

    def of_rows(self, x: Tensor | None) -> Tensor | None:
        return _taken(x, self.rows)

    def of_keys(self, x: Tensor | None) -> Tensor | None:
        return _taken(x, self.keys)

    def back(self, x: Tensor) -> Tensor:
        """Rows where they stood."""
        return x if self.rows is None else _gathered(x, self.rows.argsort(1))


def spannable(plan: Plan) -> bool:
    """Whether the structure is ranges, with one kind of stretches at most."""
    special, ranges = _of(plan)
    if ranges is None or len(special) > 1:
        return False
    bounded = min(ranges.left, ranges.right) < NO_BOUND
    if not special or not bounded:
        return True
    if isinstance(special[0], Around):
        return False  # rows change places, so their own place says nothing
    ids, keys = _ids(special[0])
    packed = plan.n == plan.m and not torch.compiler.is_compiling() and keys.data_ptr() == ids.data_ptr()
    if packed and ranges.left == NO_BOUND and ranges.right == 0:
        return True  # within a segment the order stays, distances do not
    return _order(ids) is None and _order(keys) is None


def moves(plan: Plan) -> bool:
    """Whether rows or keys change places."""
    special, _ = _of(plan)
    return bool(special) and (isinstance(special[0], Around) or any(_order(x) is not None for x in _ids(special[0])))


def spans_of(plan: Plan) -> Spans:
    """A spannable plan's structure as ranges and stretches."""
    special, ranges = _of(plan)
    assert ranges is not None
    if not special:
        return Spans(ranges)
    if isinstance(special[0], Around):
        centre, reach = special[0].centre, special[0].reach
        order = centre.argsort(dim=1, stable=True)
        middle = centre.gather(1, order).floor().int()
        return Spans(ranges, (middle - reach).clamp_min(0), (middle + reach + 1).clamp_max(plan.m), order)
    ids, keys = _ids(special[0])
    by_row, by_key = (_by_head(_order(x), plan) for x in (ids, keys))
    ids, keys = (x.expand(plan.batch, -1).repeat_interleave(plan.heads, 0) for x in (ids, keys))
    ids, keys = _gathered(ids, by_row).contiguous(), _gathered(keys, by_key).contiguous()
    low, high = _sought(keys, ids)
    if by_key is not None and (ranges.lengths is not None or ranges.keep is not None):
        ranges = _keys_moved(ranges, by_key, plan)
    return Spans(ranges, low, high, by_row, by_key)


def stretches_of(
    structure: Structure, batch: int, heads: int, n: int, m: int
) -> tuple[Ranges, Tensor | None, Tensor | None] | None:
    """Ranges and the stretches of rows that stay where they are, (batch x heads, n) int32 each; None where a structure
    is nothing of the kind, or segments of keys are out of order."""
    special, ranges = _parted(structure, n, m)
    if ranges is None:
        return None
    low = high = None
    for part in special:
        found = _around(part, m) if isinstance(part, Around) else _segment(part, batch, heads)
        if found is None:
            return None
        low = found[0] if low is None else torch.maximum(low, found[0])
        high = found[1] if high is None else torch.minimum(high, found[1])
    return ranges, low, high


def _around(part: Around, m: int) -> tuple[Tensor, Tensor]:
    middle = part.centre.floor().int()
    return (middle - part.reach).clamp_min(0), (middle + part.reach + 1).clamp_max(m)


def _segment(part: Segments, batch: int, heads: int) -> tuple[Tensor, Tensor] | None:
    ids, keys = _ids(part)
    if _order(keys) is not None:
        return None
    ids, keys = (x.expand(batch, -1).repeat_interleave(heads, 0) for x in (ids, keys))
    return _sought(keys, ids)


def _sought(keys: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Where the keys of each row's segment begin and end, of keys in order."""
    low, high = (torch.searchsorted(keys, ids, right=side).int() for side in (False, True))
    return low, high


def _of(plan: Plan) -> "tuple[list[Segments | Around], Ranges | None]":
    """Asked before a plan runs, and again when it does."""
    found: tuple[list[Segments | Around], Ranges | None] | None = plan.kept.get("parted")
    if found is None:
        found = plan.kept["parted"] = _parted(plan.over, plan.n, plan.m)
    return found


def _parted(structure: Structure, n: int, m: int) -> "tuple[list[Segments | Around], Ranges | None]":
    parts = structure.parts()
    if not any(isinstance(part, (Segments, Around)) for part in parts):
        return [], ranges_of(structure, n, m)
    special = [part for part in parts if isinstance(part, (Segments, Around))]
    rest = [part for part in parts if not isinstance(part, (Segments, Around))]
    return special, ranges_of(And(tuple(rest)) if rest else Full(), n, m)


def _ids(segments: Segments) -> tuple[Tensor, Tensor]:
    return segments.ids, segments.ids if segments.key_ids is None else segments.key_ids


def _keys_moved(ranges: Ranges, order: Tensor, plan: Plan) -> Ranges:
    """Lengths and key masks as one mask of keys in their new order."""
    keep = torch.ones((plan.batch, plan.heads, plan.m), dtype=torch.uint8, device=order.device)
    if ranges.lengths is not None:
        keep = keep * (torch.arange(plan.m, device=order.device) < ranges.lengths.reshape(-1, 1, 1))
    if ranges.keep is not None:
        keep = keep * ranges.keep
    keep = keep.flatten(0, 1).gather(1, order).unflatten(0, (plan.batch, plan.heads))
    return ranges._replace(lengths=None, keep=keep.to(torch.uint8).contiguous())


def keys_spans(low: Tensor, high: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """The rows that see each key, (g, m) each: where low and high only move on, one stretch."""
    j = torch.arange(m, device=low.device, dtype=low.dtype).expand(low.shape[0], m).contiguous()
    return torch.searchsorted(high, j, right=True).int(), torch.searchsorted(low, j, right=True).int()


def _order(ids: Tensor) -> Tensor | None:
    """Places in the order of their segments; None where they stand so."""
    if not torch.compiler.is_compiling() and bool((ids[:, 1:] >= ids[:, :-1]).all()):
        return None
    return ids.argsort(dim=1, stable=True)


def _by_head(order: Tensor | None, plan: Plan) -> Tensor | None:
    return None if order is None else order.expand(plan.batch, -1).repeat_interleave(plan.heads, 0)


def _taken(x: Tensor | None, order: Tensor | None) -> Tensor | None:
    return x if x is None or order is None else _gathered(x, order)


def _gathered(x: Tensor, order: Tensor | None) -> Tensor:
    if order is None:
        return x
    return x.gather(1, order if x.ndim == 2 else order[..., None].expand(-1, -1, x.shape[-1]))
