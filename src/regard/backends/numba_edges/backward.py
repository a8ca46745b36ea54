"""The backward kernels: weights are computed again from tau, along the sources, then along the targets.

Bytes: with GAT's forward about E(2 W b + 28 H + 24) (W = H D, b bytes a value); keys and values of edges add two rows
read and one written, each. One gather for a narrow pair (GAT), and a second pass along the targets for the others.
Each kernel runs chunk c of the schedule.
"""

import math

import numpy as np

from .alignments import shifted_to_weights
from .config import (
    ADD,
    DOT,
    ENTMAX,
    MUL,
    ONE,
    PAIR,
    PREFETCH_AHEAD,
    SIGMOID,
    SOFTMAX,
    SPARSEMAX,
    TANH,
    TOPK,
    UNIFORM,
    ZERO,
)
from .dropout import dropout_mask
from .elementwise import multiply_in_place, multiply_into, tanh
from .jit import helper, inlined, kernel
from .row_sums import add_weighted_rows, add_weighted_rows_and_dots, zero_rows
from .schedule import largest_batch, list_batch
from .scores import edge_scores
from .vector_ops import (
    heads_add_leaky_gradient,
    heads_add_leaky_gradients,
    heads_add_product,
    heads_dot,
    heads_dot_sum,
    heads_scaled,
    heads_set_product,
    line_add,
    line_add_product,
    line_copy,
    line_fill,
    line_multiply,
    line_product,
    line_scaled,
    line_subtract,
    line_sum,
    prefetch,
)


@helper
def recompute_weights(ends, count, t, config, rows_are_sources, stats, index, raw, buffer, line):
    """The weights of a batch once more, from tau."""
    heads = config.heads
    if config.align == UNIFORM:
        flat = buffer.reshape(buffer.size)
        for k in range(count * heads):
            flat[k] = ZERO
    else:
        edge_scores(ends, count, t, config, rows_are_sources, raw, buffer, line)
    for e in range(count):
        if e + PREFETCH_AHEAD < count:
            prefetch(stats, ends[0, e + PREFETCH_AHEAD])
        at = ends[0, e] * stats.shape[1] * heads
        line_subtract(buffer, e * heads, stats, at, stats, at, heads, ZERO)
        if config.apart:
            line_subtract(buffer, e * heads, stats, at + 2 * heads, stats, at, heads, ZERO)
    shifted_to_weights(buffer, count, config)
    if config.align == TOPK:
        for e in range(count):
            i, name = ends[0, e], ends[3, e]
            for h in range(heads):
                chosen = False
                for slot in range(index.shape[2]):
                    chosen |= index[i, h, slot] == name
                if not chosen:
                    buffer[e, h] = ZERO


@helper
def value_dots(ends, count, t, config, dout, dw):
    """dw[e, h] = <dout_i, v_j + value_e> by head, along the targets."""
    v, value, heads, wide = t.v, t.value, config.heads, dout.shape[1]
    width = wide // heads
    for e in range(count):
        if e + PREFETCH_AHEAD < count:
            prefetch(v, ends[1, e + PREFETCH_AHEAD])
            if config.adds:
                prefetch(value, ends[3, e + PREFETCH_AHEAD])
        o, i, j, x = e * heads, ends[0, e] * wide, ends[1, e] * wide, ends[3, e] * wide
        if config.adds:
            heads_dot_sum(dw, o, dout, i, v, j, dout, i, value, x, heads, width, ZERO, ONE)
        else:
            heads_dot(dw, o, dout, i, v, j, dout, i, dout, i, heads, width, ZERO, ONE)


@helper
def _edge_value_gradient(ends, count, value, dout, weight, dw, dvalue, heads):
    """What the values of edges add to dw, and their gradient."""
    wide = dout.shape[1]
    width, more = wide // heads, np.empty((1, heads), dw.dtype)
    for e in range(count):
        if e + PREFETCH_AHEAD < count:
            prefetch(value, ends[3, e + PREFETCH_AHEAD])
        o, i, x = e * heads, ends[0, e] * wide, ends[3, e] * wide
        heads_dot(more, 0, dout, i, value, x, dout, i, dout, i, heads, width, ZERO, ONE)
        line_add(dw, o, more, 0, more, 0, heads, ZERO)
        heads_scaled(dvalue, x, dout, i, dout, i, weight, o, heads, width, ZERO)


@helper
def _times_alignment_slope(w, dw, size, config):
    """w = f'(f^-1(w)) dw, in place: what the gradient of a weight is multiplied by."""
    x, y = w.reshape(w.size), dw.reshape(dw.size)
    if config.align == SPARSEMAX:
        for k in range(size):
            x[k] = y[k] if x[k] > ZERO else ZERO
    elif config.align == ENTMAX:
        for k in range(size):
            x[k] = math.sqrt(x[k]) * y[k]
    elif config.align == SIGMOID:
        for k in range(size):
            x[k] = x[k] * (ONE - x[k]) * y[k]
    else:
        for k in range(size):
            x[k] = x[k] * y[k]


@kernel
def row_means(c, cuts, plan, graph, t, config, stats, dout, pulls, slopes):
    """Sparse alignments: sum g dw and sum g of each row, pulls and slopes; softmax has these from its output."""
    b = t.b
    first, last, place = plan.first, plan.last, plan.place
    heads, capacity = config.heads, largest_batch(cuts, c, plan)
    ends, words, none = (
        np.empty((4, capacity), np.int64),
        np.empty((4, capacity), np.int32),
        np.empty((1, 1, 0), np.int32),
    )
    raw, buffer = np.empty((capacity, heads), dout.dtype), np.empty((capacity, heads), dout.dtype)
    mask, dw = np.empty((capacity, heads), dout.dtype), np.empty((capacity, heads), dout.dtype)
    names = ends[3]
    line = np.empty((1, b.shape[1]), dout.dtype)
    p = cuts[c]
    while p < cuts[c + 1]:
        q, count = list_batch(plan, p, cuts[c + 1], graph, config, ends)
        recompute_weights(ends, count, t, config, False, stats, none, raw, buffer, line)
        value_dots(ends, count, t, config, dout, dw)
        if config.drops:
            dropout_mask(names, count, config, words, mask)
            multiply_in_place(dw, mask, count * heads)
        lo = 0
        for k in range(p, q):
            hi, at = lo + last[k] - first[k], place[k]
            for h in range(heads):
                up, down = ZERO, ZERO
                for e in range(lo, hi):
                    w = buffer[e, h]
                    g = math.sqrt(w) if config.align == ENTMAX else (ONE if w > ZERO else ZERO)
                    up += g * dw[e, h]
                    down += g
                pulls[at, h], slopes[at, h] = up, down
            lo = hi
        p = q


@kernel
def any_beyond(x, bound):
    """Whether a finite number of a vector is beyond the bound, on either side of 0."""
    beyond = 0
    for k in range(x.size):
        beyond += (abs(x[k]) > bound) & (x[k] < np.inf)
    return beyond > 0


@kernel
def row_dots(c, rows, dout, out, tau, below, dtau, config, stats):
    """stats (n, 2 or 3, H) of rows c rows to (c + 1) rows: tau; <dout, out> - dtau, the mean of a softmax's gradient;
    below, where tau is kept apart."""
    heads, wide = config.heads, out.shape[1]
    width, soft = wide // heads, config.align == SOFTMAX or config.align == TOPK
    for i in range(c * rows, min((c + 1) * rows, out.shape[0])):
        k, at = i * wide, stats.shape[1] * i * heads
        line_copy(stats, at, tau, i * heads, tau, i * heads, heads, ZERO)
        if config.apart:
            line_copy(stats, at + 2 * heads, below, i * heads, below, i * heads, heads, ZERO)
        line_fill(stats, at + heads, stats, at, stats, at, heads, ZERO)
        if soft:
            heads_dot(stats, at + heads, dout, k, out, k, out, k, out, k, heads, width, ZERO, ONE)
            if dtau.shape[0]:  # d tau = sum p ds
                line_subtract(stats, at + heads, dtau, i * heads, dtau, i * heads, heads, ZERO)


@kernel
def source_gradients(c, cuts, plan, graph, t, config, stats, index, dout, db, dv, dkey, dvalue, ds, dread):
    """Along the sources: dv and db (m + parts, ...), dkey and dvalue by edge id, ds (E, H) in the order of the targets,
    dread (chunks, H w).

    stats (n, 2 or 3, H): tau, the mean that the gradient of a weight is compared with, and what tau has below its row's
    largest score, where these are kept apart.
    For a narrow pair ds is the gradient of a + b, otherwise that of the score.
    """
    b, v, value, place = t.b, t.v, t.value, plan.place
    heads, deep, capacity = config.heads, b.shape[1], largest_batch(cuts, c, plan)
    ends, words = np.empty((4, capacity), np.int64), np.empty((4, capacity), np.int32)
    raw, buffer = np.empty((capacity, heads), dout.dtype), np.empty((capacity, heads), dout.dtype)
    mask, dw = np.empty((capacity, heads), dout.dtype), np.empty((capacity, heads), dout.dtype)
    targets, names = ends[0], ends[3]
    dropped, line = np.empty((capacity, heads), dout.dtype), np.empty((1, deep), dout.dtype)
    line_fill(dread, c * deep, dread, 0, dread, 0, deep, ZERO)
    p = cuts[c]
    while p < cuts[c + 1]:
        q, count = list_batch(plan, p, cuts[c + 1], graph, config, ends)
        recompute_weights(ends, count, t, config, True, stats, index, raw, buffer, line)
        if config.drops:
            dropout_mask(names, count, config, words, mask)
            multiply_into(dropped, mask, buffer, count * heads)
        used = dropped if config.drops else buffer
        zero_rows(place, p, q, dv)
        zero_rows(place, p, q, db)
        add_weighted_rows_and_dots(plan, p, q, place, dv, v, dout, targets, count, used, dw, heads)
        if config.adds:
            _edge_value_gradient(ends, count, value, dout, used, dw, dvalue, heads)
        if config.drops:
            multiply_in_place(dw, mask, count * heads)
        for e in range(count):
            at = (ends[0, e] * stats.shape[1] + 1) * heads
            line_subtract(dw, e * heads, stats, at, stats, at, heads, ZERO)
        _times_alignment_slope(buffer, dw, count * heads, config)
        if config.narrow:
            _narrow_gradient(count, t, config, raw, buffer, dread, c)
        if config.align != UNIFORM:
            for e in range(count):
                line_copy(ds, ends[2, e] * heads, buffer, e * heads, buffer, 0, heads, ZERO)
            _key_gradient(plan, p, q, ends, count, t, config, buffer, db, dkey, dread, c, line)
        p = q


@helper
def _narrow_gradient(count, t, config, raw, ds, dread, c):
    """From the gradient of the scores to that of a + b, in place."""
    readout = t.readout
    heads, slope, scale = config.heads, config.slope, config.scale
    x, g = raw.reshape(raw.size), ds.reshape(ds.size)
    if config.reads:
        for e in range(count):
            for h in range(heads):
                dread[c, h] += ds[e, h] * (raw[e, h] if raw[e, h] > ZERO else raw[e, h] * slope)
            line_multiply(ds, e * heads, readout, 0, readout, 0, heads, ZERO)
    for k in range(count * heads):
        g[k] *= scale if x[k] > ZERO else scale * slope


@helper
def _key_gradient(plan, p, q, ends, count, t, config, ds, db, dkey, dread, c, line):
    """db of the sources of a batch, dkey by edge id, and dread."""
    a, b, readout, key = t.a, t.b, t.readout, t.key
    first, last, place, targets = plan.first, plan.last, plan.place, ends[0]
    heads, deep, hi = config.heads, b.shape[1], 0
    width, read = deep // heads, c * deep
    into, other = (dkey, line) if config.join else (db, b)
    if config.kind == DOT:
        flat = ds.reshape(ds.size)
        for k in range(count * heads):
            flat[k] *= config.scale
        if config.join != MUL:
            add_weighted_rows(plan, p, q, place, db, a, targets, count, ds, -1, heads)
            if config.join == 0:
                return
    for piece in range(p, q):
        lo, at = hi, place[piece] * deep
        hi = lo + last[piece] - first[piece]
        for e in range(lo, hi):
            i, j, x, g = ends[0, e] * deep, ends[1, e] * deep, ends[3, e] * deep, e * heads
            if config.narrow:
                if config.join == MUL:
                    line_add_product(db, at, ds, g, key, x, heads, ONE)
                    line_product(dkey, x, ds, g, b, j, heads, ZERO)
                    continue
                line_add(db, at, ds, g, ds, g, heads, ZERO)
                if config.join == ADD:
                    line_copy(dkey, x, ds, g, ds, g, heads, ZERO)
                continue
            if e + PREFETCH_AHEAD < count:
                prefetch(a, ends[0, e + PREFETCH_AHEAD])
            if config.kind == DOT:
                if config.join == ADD:
                    heads_scaled(dkey, x, a, i, a, i, ds, g, heads, width, ZERO)
                else:
                    heads_add_product(db, at, a, i, key, x, ds, g, heads, width, ZERO)
                    heads_set_product(dkey, x, a, i, b, j, ds, g, heads, width, ZERO)
                continue
            if config.join == ADD:
                line_sum(line, 0, b, j, key, x, deep, ZERO)
            elif config.join == MUL:
                line_product(line, 0, b, j, key, x, deep, ZERO)
            if config.join:
                line_fill(dkey, x, dkey, x, dkey, x, deep, ZERO)
            y, o = (0, x) if config.join else (j, at)
            if config.act == TANH:
                _add_tanh_gradient(a, i, other, y, ds, e, config, width, into, o, dread, read, config.reads)
            else:
                heads_add_leaky_gradients(into, o, dread, read, a, i, other, y, ds, g, heads, width, config.slope)
            if config.join == ADD:
                line_add(db, at, dkey, x, dkey, x, deep, ZERO)
            elif config.join == MUL:
                line_add_product(db, at, dkey, x, key, x, deep, ONE)
                line_multiply(dkey, x, b, j, b, j, deep, ZERO)
            if config.join:
                line_multiply(dkey, x, readout, 0, readout, 0, deep, ZERO)
        if config.kind == PAIR and not config.narrow:
            line_multiply(db, at, readout, 0, readout, 0, deep, ZERO)


@inlined
def _add_tanh_gradient(a, i, b, j, ds, e, config, width, into, at, dread, read, reads):
    """A pair with a tanh: into += ds tanh'(a + b), less the factor r; dread += ds tanh(a + b) where `reads`."""
    x, y, z, r = a.reshape(a.size), b.reshape(b.size), into.reshape(into.size), dread.reshape(dread.size)
    for h in range(config.heads):
        k, g = h * width, ds[e, h]
        for d in range(k, k + width):
            value = tanh(x[i + d] + y[j + d])
            z[at + d] += g * (ONE - value * value)
            if reads:
                r[read + d] += g * value


@kernel
def target_gradients(c, cuts, plan, graph, t, config, ds, da):
    """Along the targets: da (n + parts, H w) from ds."""
    a, b, readout, key = t.a, t.b, t.readout, t.key
    row, first, last, place = plan.row, plan.first, plan.last, plan.place
    heads, deep, capacity = config.heads, a.shape[1], largest_batch(cuts, c, plan)
    width = deep // heads
    if config.narrow:
        for p in range(cuts[c], cuts[c + 1]):
            at = place[p] * heads
            line_fill(da, at, da, at, da, at, heads, ZERO)
            for e in range(first[p], last[p]):
                line_add(da, at, ds, e * heads, ds, 0, heads, ZERO)
        return
    ends, line, nothing = np.empty((4, capacity), np.int64), np.empty((1, deep), ds.dtype), np.empty((1, 0), ds.dtype)
    sources, names, other = ends[1], ends[3], line if config.join else b
    p = cuts[c]
    while p < cuts[c + 1]:
        q, count = list_batch(plan, p, cuts[c + 1], graph, config, ends)
        zero_rows(place, p, q, da)
        if config.kind == DOT and config.join != MUL:
            add_weighted_rows(plan, p, q, place, da, b, sources, count, ds, 0, heads)
            if config.join == ADD:
                add_weighted_rows(plan, p, q, place, da, key, names, count, ds, 0, heads)
        hi = 0
        for piece in range(p, q):
            lo, at, i = hi, place[piece] * deep, row[piece] * deep
            hi, mine = lo + last[piece] - first[piece], first[piece] - lo  # edge e of the batch is mine + e in ds
            if config.kind == DOT:
                if config.join == MUL:
                    for e in range(lo, hi):
                        j, x = ends[1, e] * deep, ends[3, e] * deep
                        heads_add_product(da, at, b, j, key, x, ds, (mine + e) * heads, heads, width, ZERO)
                line_scaled(da, at, da, at, da, at, deep, config.scale)
                continue
            for e in range(lo, hi):
                if e + PREFETCH_AHEAD < count:
                    prefetch(b, ends[1, e + PREFETCH_AHEAD])
                j, x = ends[1, e] * deep, ends[3, e] * deep
                if config.join == ADD:
                    line_sum(line, 0, b, j, key, x, deep, ZERO)
                elif config.join == MUL:
                    line_product(line, 0, b, j, key, x, deep, ZERO)
                j = 0 if config.join else j
                if config.act == TANH:
                    _add_tanh_gradient(a, i, other, j, ds, mine + e, config, width, da, at, nothing, 0, False)
                else:
                    heads_add_leaky_gradient(da, at, a, i, other, j, ds, (mine + e) * heads, heads, width, config.slope)
            line_multiply(da, at, readout, 0, readout, 0, deep, ZERO)
        p = q
