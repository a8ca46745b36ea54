"""Scores of a batch of edges: dot, and additive (a pair sum) with a leaky ReLU or a tanh."""

from .config import ADD, DOT, MUL, ONE, PAIR, PREFETCH_AHEAD, TANH, ZERO
from .elementwise import tanh
from .jit import helper
from .vector_ops import (
    heads_dot,
    heads_dot_product,
    heads_dot_sum,
    heads_leaky_dot,
    heads_leaky_dot_product,
    heads_leaky_dot_sum,
    line_add,
    line_multiply,
    line_product,
    line_sum,
    prefetch,
)


@helper
def edge_scores(ends, count, t, config, rows_are_sources, raw, buffer, line):
    """buffer[e, h] = the score of an edge; raw[e, h] = a + b of a narrow pair. turned: rows are sources."""
    a, b, readout, key = t.a, t.b, t.readout, t.key
    heads = config.heads
    if config.narrow:
        alone = heads == 1 and config.join == 0
        if alone:
            for e in range(count):
                raw[e, 0] = a[ends[0, e], 0] + b[ends[1, e], 0]
        for e in range(count if alone else 0, count):
            if e + PREFETCH_AHEAD < count:
                if rows_are_sources:
                    prefetch(a, ends[0, e + PREFETCH_AHEAD])
                else:
                    prefetch(b, ends[1, e + PREFETCH_AHEAD])
            i, j = ends[0, e] * heads, ends[1, e] * heads
            if config.join == MUL:
                line_product(raw, e * heads, b, j, key, ends[3, e] * heads, heads, ZERO)
                line_add(raw, e * heads, a, i, a, i, heads, ZERO)
                continue
            line_sum(raw, e * heads, a, i, b, j, heads, ZERO)
            if config.join == ADD:
                line_add(raw, e * heads, key, ends[3, e] * heads, a, i, heads, ZERO)
        x, s, slope, scale = raw.reshape(raw.size), buffer.reshape(buffer.size), config.slope, config.scale
        for k in range(count * heads):
            s[k] = scale * (x[k] if x[k] > ZERO else x[k] * slope)
        if config.reads:
            for e in range(count):
                line_multiply(buffer, e * heads, readout, 0, readout, 0, heads, ZERO)
        return
    if config.kind == PAIR and config.act == TANH:
        _tanh_scores(ends, count, t, config, buffer, line)
        return
    wide = a.shape[1]
    width, zero, scale, slope = wide // heads, ZERO, config.scale, config.slope
    for e in range(count):
        if e + PREFETCH_AHEAD < count:
            if rows_are_sources:
                prefetch(a, ends[0, e + PREFETCH_AHEAD])
            else:
                prefetch(b, ends[1, e + PREFETCH_AHEAD])
        o, i, j, x = e * heads, ends[0, e] * wide, ends[1, e] * wide, ends[3, e] * wide
        if config.kind == DOT:
            if config.join == 0:
                heads_dot(buffer, o, a, i, b, j, a, i, a, i, heads, width, zero, scale)
            elif config.join == ADD:
                heads_dot_sum(buffer, o, a, i, b, j, a, i, key, x, heads, width, zero, scale)
            else:
                heads_dot_product(buffer, o, a, i, b, j, a, i, key, x, heads, width, zero, scale)
        elif config.join == 0:
            heads_leaky_dot(buffer, o, a, i, b, j, readout, 0, a, i, heads, width, slope, ONE)
        elif config.join == ADD:
            heads_leaky_dot_sum(buffer, o, a, i, b, j, readout, 0, key, x, heads, width, slope, ONE)
        else:
            heads_leaky_dot_product(buffer, o, a, i, b, j, readout, 0, key, x, heads, width, slope, ONE)


@helper
def _tanh_scores(ends, count, t, config, buffer, line):
    """The same of a pair with a tanh."""
    a, b, key, heads, wide = t.a, t.b, t.key, config.heads, t.a.shape[1]
    other, width = line if config.join else b, wide // heads
    x, y, z = a.reshape(a.size), other.reshape(other.size), t.readout.reshape(t.readout.size)
    for e in range(count):
        i, j = ends[0, e] * wide, ends[1, e] * wide
        if config.join == ADD:
            line_sum(line, 0, b, j, key, ends[3, e] * wide, wide, ZERO)
        elif config.join == MUL:
            line_product(line, 0, b, j, key, ends[3, e] * wide, wide, ZERO)
        j = 0 if config.join else j
        for h in range(heads):
            total = ZERO
            for d in range(h * width, h * width + width):
                total += z[d] * tanh(x[i + d] + y[j + d])
            buffer[e, h] = total
