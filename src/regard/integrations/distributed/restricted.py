"""Restriction of a structure to a block of rows and columns."""

from ...core.errors import Refused
from ...core.structures import And, Causal, Full, Mask, Padding, Segments, Structure, Window
from ...core.structures.causal_and_window import shift_of


def restricted(over: Structure, n: int, m: int, row: int, rows: int, col: int, cols: int) -> Structure | None:
    """`over` for n queries and m keys, restricted to queries row ... row + rows and keys col ... col + cols.

    None if no pair is allowed. The result has a kernel form wherever `over` has one.
    """
    if isinstance(over, And):
        made: Structure = Full()
        for part in over.parts():
            one = restricted(part, n, m, row, rows, col, cols)
            if one is None:
                return None
            made = made & one
        return made
    kind = type(over)
    if kind is Full:
        return over
    if isinstance(over, Causal) and kind is Causal:
        return _band(None, row + shift_of(over.align, n, m, "Causal") - col, rows, cols)
    if isinstance(over, Window) and kind is Window and over.grid is None and over.dilation == 1:
        shift = row + shift_of(over.align, n, m, "Window") - col
        return _band(over.left - shift, over.right + shift, rows, cols)
    if isinstance(over, Padding) and kind is Padding:
        return Padding((over.lengths - col).clamp(0, cols))
    if isinstance(over, Mask) and kind is Mask:
        keep = over.keep
        keep = keep if keep.shape[-1] == 1 else keep[..., col : col + cols]
        return Mask(keep if keep.ndim < 2 or keep.shape[-2] == 1 else keep[..., row : row + rows, :])
    if isinstance(over, Segments) and kind is Segments and over.count is None:
        keys = over.ids if over.key_ids is None else over.key_ids
        return Segments(over.ids[..., row : row + rows], key_ids=keys[..., col : col + cols])
    raise Refused(
        f"over={over} cannot be sharded. Full(), Causal(), Window(...), Padding(...), "
        "Mask(keep=), Segments(ids) and what & joins of them can."
    )


def _band(left: int | None, right: int, rows: int, cols: int) -> Structure | None:
    """-left <= j - i <= right; left None: no bound."""
    open_left = left is None or left >= rows - 1
    if right < 1 - rows or (left is not None and -left > cols - 1):
        return None
    if open_left and right >= cols - 1:
        return Full()
    if open_left and right == cols - rows:
        return Causal("end")
    bound = max(rows, -right) if left is None else left
    return Window(bound, right, align="start")
