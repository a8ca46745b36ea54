"""Structures whose rows each see one contiguous range of keys, after sorting: segments, and predicted windows.

Rows are sorted so that their ranges are monotonic, and keys so that those of a segment are adjacent. A block of rows
then meets few tiles, and a key is seen by one range of rows too, which the backward walks along.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.lowering.kernel_forms import NO_BOUND, PREDICTED_WINDOW, SEGMENTS, StructureForm
from ..core.plan import Plan
from ..core.structures import Structure
from .range_masks import Ranges, joined_ranges

STRETCHES = (SEGMENTS, PREDICTED_WINDOW)  # families of structures of which each row sees one stretch of keys


@dataclass(frozen=True, eq=False)
class Spans:
    """Row i sees keys low_i to high_i - 1, within ranges. `rows` and `keys` (g, places) are the orders, if any."""

    ranges: Ranges
    low: Tensor | None = None  # (g, n) int32
    high: Tensor | None = None
    rows: Tensor | None = None
    keys: Tensor | None = None

    def of_rows(self, x: Tensor | None) -> Tensor | None:
        return _reordered(x, self.rows)

    def of_keys(self, x: Tensor | None) -> Tensor | None:
        return _reordered(x, self.keys)

    def in_original_order(self, x: Tensor) -> Tensor:
        """Rows in the order of the call."""
        return x if self.rows is None else _gather(x, self.rows.argsort(1))


def spannable(plan: Plan) -> bool:
    """Whether the structure is ranges, with one kind of stretches at most."""
    special, ranges = _split_structure(plan)
    if ranges is None or len(special) > 1:
        return False
    bounded = min(ranges.left, ranges.right) < NO_BOUND
    if not special or not bounded:
        return True
    if special[0].family == PREDICTED_WINDOW:
        return False  # rows change places, so their own place says nothing
    ids, keys = _ids(special[0])
    packed = plan.n == plan.m and not torch.compiler.is_compiling() and keys.data_ptr() == ids.data_ptr()
    if packed and ranges.left == NO_BOUND and ranges.right == 0:
        return True  # within a segment the order stays, distances do not
    return _sorting(ids) is None and _sorting(keys) is None


def reorders(plan: Plan) -> bool:
    """Whether rows or keys are sorted, so that a place in the kernel is not the place of the pair."""
    special, _ = _split_structure(plan)
    return bool(special) and (
        special[0].family == PREDICTED_WINDOW or any(_sorting(x) is not None for x in _ids(special[0]))
    )


def spans_of(plan: Plan) -> Spans:
    """A spannable plan's structure as ranges and stretches."""
    special, ranges = _split_structure(plan)
    assert ranges is not None
    if not special:
        return Spans(ranges)
    if special[0].family == PREDICTED_WINDOW:
        centre, reach = special[0].centre, special[0].reach
        assert centre is not None
        order = centre.argsort(dim=1, stable=True)
        middle = centre.gather(1, order).floor().int()
        return Spans(ranges, (middle - reach).clamp_min(0), (middle + reach + 1).clamp_max(plan.m), order)
    ids, keys = _ids(special[0])
    by_row, by_key = (_by_head(_sorting(x), plan) for x in (ids, keys))
    ids, keys = (x.expand(plan.batch, -1).repeat_interleave(plan.heads, 0) for x in (ids, keys))
    ids, keys = _gather(ids, by_row).contiguous(), _gather(keys, by_key).contiguous()
    low, high = _segment_bounds(keys, ids)
    if by_key is not None and (ranges.lengths is not None or ranges.keep is not None):
        ranges = _reordered_key_mask(ranges, by_key, plan)
    return Spans(ranges, low, high, by_row, by_key)


def ranges_and_stretches(
    structure: Structure, batch: int, heads: int, n: int, m: int
) -> tuple[Ranges, Tensor | None, Tensor | None] | None:
    """Ranges and the stretches of rows that stay where they are, (batch x heads, n) int32 each; None where a structure
    is nothing of the kind, or segments of keys are out of order."""
    special, ranges = _stretches_and_ranges(structure, n, m)
    if ranges is None:
        return None
    low = high = None
    for part in special:
        found = _around(part, m) if part.family == PREDICTED_WINDOW else _segment(part, batch, heads)
        if found is None:
            return None
        low = found[0] if low is None else torch.maximum(low, found[0])
        high = found[1] if high is None else torch.minimum(high, found[1])
    return ranges, low, high


def _around(part: StructureForm, m: int) -> tuple[Tensor, Tensor]:
    assert part.centre is not None
    middle = part.centre.floor().int()
    return (middle - part.reach).clamp_min(0), (middle + part.reach + 1).clamp_max(m)


def _segment(part: StructureForm, batch: int, heads: int) -> tuple[Tensor, Tensor] | None:
    ids, keys = _ids(part)
    if _sorting(keys) is not None:
        return None
    ids, keys = (x.expand(batch, -1).repeat_interleave(heads, 0) for x in (ids, keys))
    return _segment_bounds(keys, ids)


def _segment_bounds(keys: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Where the keys of each row's segment begin and end, of keys in order."""
    low, high = (torch.searchsorted(keys, ids, right=side).int() for side in (False, True))
    return low, high


def _split_structure(plan: Plan) -> "tuple[list[StructureForm], Ranges | None]":
    """Cached: refusals ask for it, and then the run."""
    found: tuple[list[StructureForm], Ranges | None] | None = plan.backend_cache.get("stretches and ranges")
    if found is None:
        found = plan.backend_cache["stretches and ranges"] = _stretches_and_ranges(plan.over, plan.n, plan.m)
    return found


def _stretches_and_ranges(structure: Structure, n: int, m: int) -> "tuple[list[StructureForm], Ranges | None]":
    forms = [part.kernel_form(n, m) for part in structure.parts()]
    stretches = [form for form in forms if form is not None and form.family in STRETCHES]
    return stretches, joined_ranges([form for form in forms if form is None or form.family not in STRETCHES], m)


def _ids(segments: StructureForm) -> tuple[Tensor, Tensor]:
    assert segments.ids is not None and segments.key_ids is not None
    return segments.ids, segments.key_ids


def _reordered_key_mask(ranges: Ranges, order: Tensor, plan: Plan) -> Ranges:
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


def _sorting(ids: Tensor) -> Tensor | None:
    """The order that sorts places by segment; None where they are sorted."""
    if not torch.compiler.is_compiling() and bool((ids[:, 1:] >= ids[:, :-1]).all()):
        return None
    return ids.argsort(dim=1, stable=True)


def _by_head(order: Tensor | None, plan: Plan) -> Tensor | None:
    return None if order is None else order.expand(plan.batch, -1).repeat_interleave(plan.heads, 0)


def _reordered(x: Tensor | None, order: Tensor | None) -> Tensor | None:
    return x if x is None or order is None else _gather(x, order)


def _gather(x: Tensor, order: Tensor | None) -> Tensor:
    if order is None:
        return x
    return x.gather(1, order if x.ndim == 2 else order[..., None].expand(-1, -1, x.shape[-1]))
