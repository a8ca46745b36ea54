"""Weighted sums of gathered rows, out_i += sum_e w_e x_e, four edges at a time."""

from .config import ONE, PREFETCH_AHEAD, ZERO
from .jit import helper
from .vector_ops import (
    heads_add_four_scaled,
    heads_add_four_scaled_and_dots,
    heads_add_scaled,
    heads_dot,
    line_fill,
    prefetch,
)


@helper
def add_weighted_rows(plan, p, q, place, out, table, index, count, weight, shift, heads):
    """out[place[piece], h, :] += sum_e weight[e, h] table[index[e], h, :] for the edges of each piece, four at a time.

    shift: the weights stand in the order of the graph, `shift` edges before it, and not in that of the batch (-1).
    """
    first, last, wide, hi = plan.first, plan.last, table.shape[1], 0
    width = wide // heads
    for piece in range(p, q):
        lo, o = hi, place[piece] * wide
        hi = lo + last[piece] - first[piece]
        fours, w = lo + (hi - lo) // 4 * 4, lo if shift < 0 else first[piece] - shift
        for e in range(lo, fours, 4):
            for ahead in range(e + PREFETCH_AHEAD, min(e + PREFETCH_AHEAD + 4, count)):
                prefetch(table, index[ahead])
            x, y, z, u = index[e] * wide, index[e + 1] * wide, index[e + 2] * wide, index[e + 3] * wide
            heads_add_four_scaled(out, o, table, x, y, z, u, weight, w * heads, heads, width)
            w += 4
        for e in range(fours, hi):
            if e + PREFETCH_AHEAD < count:
                prefetch(table, index[e + PREFETCH_AHEAD])
            x = index[e] * wide
            heads_add_scaled(out, o, table, x, table, x, weight, w * heads, heads, width, ZERO)
            w += 1


@helper
def add_weighted_rows_and_dots(plan, p, q, place, out, v, dout, targets, count, weight, dw, heads):
    """dv of the sources of a batch, as `add_weighted_rows` does it, and dw[e, h] = <dout_i, v_j> by head on the way."""
    row, first, last, wide, hi = plan.row, plan.first, plan.last, dout.shape[1], 0
    width = wide // heads
    for piece in range(p, q):
        lo, o, j = hi, place[piece] * wide, row[piece] * wide
        hi = lo + last[piece] - first[piece]
        fours = lo + (hi - lo) // 4 * 4
        for e in range(lo, fours, 4):
            for ahead in range(e + PREFETCH_AHEAD, min(e + PREFETCH_AHEAD + 4, count)):
                prefetch(dout, targets[ahead])
            x, y, z, u = targets[e] * wide, targets[e + 1] * wide, targets[e + 2] * wide, targets[e + 3] * wide
            heads_add_four_scaled_and_dots(out, o, v, j, dout, x, y, z, u, weight, e * heads, dw, heads, width)
        for e in range(fours, hi):
            if e + PREFETCH_AHEAD < count:
                prefetch(dout, targets[e + PREFETCH_AHEAD])
            x, k = targets[e] * wide, e * heads
            heads_add_scaled(out, o, dout, x, dout, x, weight, k, heads, width, ZERO)
            heads_dot(dw, k, v, j, dout, x, v, j, v, j, heads, width, ZERO, ONE)


@helper
def zero_rows(place, p, q, out):
    wide = out.shape[1]
    for piece in range(p, q):
        o = place[piece] * wide
        line_fill(out, o, out, o, out, o, wide, ZERO)
