"""Gradients of what modifiers hold, and of a sink: each program adds up what is its own, in a fixed order.

The scores of a tile and their gradient are computed again, as in `backward`: two products a tile, beside the five of a
backward. A bias of pairs has one program for each of its tiles, which walks over the items and heads that share it: no
buffer has an axis that the bias has not. Slopes and tables of distances have one program for each block of rows, which
adds to numbers of its own; torch sums these. A sink needs the rows' log-sum-exp alone.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.core.lowering.kernel_forms import ALIBI, EXPONENTIAL, GIVEN_BIAS, POSITIVE_PART, SIGMOID, SQUARE

from ..common.key_bias import bias_of
from ..common.pair_tables import PairTables
from ..common.philox import or_dropped, uniform
from ..common.range_masks import CHANGING, length_of, narrowed, span_of, tiles_of
from ..modifiers.alibi import away
from ..modifiers.codes import decoded
from ..modifiers.distance_table import add_to_table
from ..modifiers.held import functions_of, held_of
from ..runtime.fast_launcher import launched, plainly
from ..runtime.launch_replay import alloc
from .arguments import DenseArguments
from .backward import row_of
from .launch_config import bounds_and_strides, noise_of, or_other, sizes_of
from .primitives import numbers_of, product, rows_of
from .tile import LOG2E, row_side, tile_with_slope
from .tile_sizes import side_of
from .weights import pulled, slopes, weights

CHANGES = (*CHANGING, "items", "members", "share", "across", "down")


@triton.jit
def _tile_gradient(
    Q,
    K,
    V,
    DOUT,
    OWN,
    BIAS,
    TAU,
    DELTA,
    NORM,
    LENGTHS,
    KEEP,
    LOW,
    HIGH,
    seed,
    i0,
    first,
    g,
    n,
    m,
    left,
    right,
    scale,
    dropout,
    heads,
    group,
    keep_b,
    keep_h,
    power,
    D: tl.constexpr,
    DP: tl.constexpr,
    DVW: tl.constexpr,
    DVP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    OWNED: tl.constexpr,
    BIASED: tl.constexpr,
    PADDED: tl.constexpr,
    KEPT: tl.constexpr,
    SPANNED: tl.constexpr,
    DROPPED: tl.constexpr,
    NORMED: tl.constexpr,
    ALIGN: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
    MODIFIERS,
    MODIFY: tl.constexpr,
    SLOPES: tl.constexpr,
    FROM: tl.constexpr,
):
    """Of one tile of head g, (BLOCK_M, BLOCK_N) each: the gradient of the scores, f'(s - tau), and the slope of the
    scores by what the FROM-th modifier is given."""
    batch, head, shared = g // heads, g % heads, g // group
    length = length_of(LENGTHS, batch, m, PADDED)
    i, j = i0 + tl.arange(0, BLOCK_M), first + tl.arange(0, BLOCK_N)
    x, mode, own = row_side(Q, Q, OWN, g, i, n, 0, D, DP, OWNED)
    low, high = span_of(LOW + g * n, HIGH + g * n, i, n, SPANNED)
    s, slope = tile_with_slope(
        x,
        Q,
        Q,
        K + shared * m * D,
        Q,
        mode,
        own,
        bias_of(BIAS, g, shared, m, BIASED),
        KEEP + batch * keep_b + head * keep_h,
        low,
        high,
        i0,
        first,
        n,
        length,
        m,
        left,
        right,
        scale,
        batch,
        head,
        MODIFIERS,
        0,
        D,
        DP,
        4,
        BLOCK_M,
        BLOCK_N,
        OWNED,
        BIASED,
        KEPT,
        SPANNED,
        False,
        PRECISION,
        INTERPRETED,
        0.0,
        MODIFY,
        SLOPES,
        FROM,
        ALIGN <= 1,
        False,
    )
    tau, mean = row_of(TAU + g * n, DELTA + g * n, i, n, ALIGN, False, False)
    w = weights(s, tau[:, None], power, ALIGN, INTERPRETED)
    xo = rows_of(DOUT + g * n * DVW, i, n, DVW, DVP, False)
    yo = rows_of(V + shared * m * DVW, j, m, DVW, DVP, False)
    dw = product(xo, tl.trans(yo), PRECISION, INTERPRETED)
    if NORMED:
        w *= numbers_of(NORM + g * n, i, n, 1.0, False)[:, None]
    if DROPPED:
        dw *= or_dropped(uniform(seed, i, first, head, batch, BLOCK_M, BLOCK_N, False), dropout)
    u = w
    if ALIGN > 1:
        u = slopes(s, tau[:, None], power, ALIGN)
    return pulled(s, tau[:, None], w, dw, mean[:, None], power, ALIGN), u, slope


@triton.jit
def _tiles_met(
    i0,
    n,
    m,
    g,
    heads,
    left,
    right,
    LENGTHS,
    LOW,
    HIGH,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    PADDED: tl.constexpr,
    SPANNED: tl.constexpr,
):
    """Where the tiles begin and end that a block of rows meets."""
    length, i = length_of(LENGTHS, g // heads, m, PADDED), i0 + tl.arange(0, BLOCK_M)
    start, inner, outer, stop = tiles_of(i0, n, length, left, right, BLOCK_M, BLOCK_N, True)
    low, high = span_of(LOW + g * n, HIGH + g * n, i, n, SPANNED)
    start, inner, outer, stop = narrowed(start, inner, outer, stop, low, high, i < n, length, BLOCK_N, SPANNED)
    return start, stop


@launched
@triton.jit(do_not_specialize=CHANGES)
def pair_gradient_kernel(
    Q,
    K,
    V,
    DOUT,
    OWN,
    BIAS,
    TAU,
    DELTA,
    NORM,
    LENGTHS,
    KEEP,
    LOW,
    HIGH,
    SEED,
    OUT,
    n,
    m,
    left,
    right,
    scale,
    dropout,
    heads,
    group,
    keep_b,
    keep_h,
    power,
    items,
    share,
    members,
    down,
    across,
    own_heads,
    D: tl.constexpr,
    DP: tl.constexpr,
    DVW: tl.constexpr,
    DVP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    OWNED: tl.constexpr,
    BIASED: tl.constexpr,
    PADDED: tl.constexpr,
    KEPT: tl.constexpr,
    SPANNED: tl.constexpr,
    DROPPED: tl.constexpr,
    NORMED: tl.constexpr,
    ALIGN: tl.constexpr,
    BY_QUERY: tl.constexpr,
    BY_KEY: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
    MODIFIERS,
    MODIFY: tl.constexpr,
    SLOPES: tl.constexpr,
    FROM: tl.constexpr,
):
    """OUT (items / share or 1, own_heads, n or 1, m or 1) = sums of the gradients of pairs that read a place.

    share: items of the batch that one bias is for; members: heads that one is for; down, across: tiles of rows and of
    columns that a program walks over, where OUT has no such axis (not BY_QUERY, not BY_KEY).
    """
    seed = tl.load(SEED) if DROPPED else 0
    at = tl.program_id(1)
    columns = tl.cdiv(m, BLOCK_N) if BY_KEY else 1
    row, column = tl.program_id(0) // columns, tl.program_id(0) % columns
    first_item, first_head = at // own_heads * share, at % own_heads
    several = tl.minimum(share, items - first_item)
    total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for turn in range(several * members * down * across):
        member = turn // (down * across)
        g = ((first_item + member // members) * heads + first_head + member % members).to(tl.int64)
        i0 = (row + turn // across % down) * BLOCK_M
        first = (column + turn % across) * BLOCK_N
        start, stop = _tiles_met(i0, n, m, g, heads, left, right, LENGTHS, LOW, HIGH, BLOCK_M, BLOCK_N, PADDED, SPANNED)
        if (first >= start) & (first < stop):
            ds, _, slope = _tile_gradient(
                Q,
                K,
                V,
                DOUT,
                OWN,
                BIAS,
                TAU,
                DELTA,
                NORM,
                LENGTHS,
                KEEP,
                LOW,
                HIGH,
                seed,
                i0,
                first,
                g,
                n,
                m,
                left,
                right,
                scale,
                dropout,
                heads,
                group,
                keep_b,
                keep_h,
                power,
                D,
                DP,
                DVW,
                DVP,
                BLOCK_M,
                BLOCK_N,
                OWNED,
                BIASED,
                PADDED,
                KEPT,
                SPANNED,
                DROPPED,
                NORMED,
                ALIGN,
                PRECISION,
                INTERPRETED,
                MODIFIERS,
                MODIFY,
                SLOPES,
                FROM,
            )
            total += ds * slope
    at = at.to(tl.int64)
    i, j = row * BLOCK_M + tl.arange(0, BLOCK_M), column * BLOCK_N + tl.arange(0, BLOCK_N)
    if BY_QUERY and BY_KEY:
        OUT += at * n * m
        tl.store(OUT + i.to(tl.int64)[:, None] * m + j[None, :], total, mask=(i < n)[:, None] & (j < m)[None, :])
    elif BY_QUERY:
        tl.store(OUT + at * n + i, tl.sum(total, 1), mask=i < n)
    elif BY_KEY:
        tl.store(OUT + at * m + j, tl.sum(total, 0), mask=j < m)
    else:
        tl.store(OUT + at, tl.sum(tl.sum(total, 1), 0))


@launched
@triton.jit(do_not_specialize=CHANGES)
def distance_gradient_kernel(
    Q,
    K,
    V,
    DOUT,
    OWN,
    BIAS,
    TAU,
    DELTA,
    NORM,
    LENGTHS,
    KEEP,
    LOW,
    HIGH,
    SEED,
    OUT,
    n,
    m,
    left,
    right,
    scale,
    dropout,
    heads,
    group,
    keep_b,
    keep_h,
    power,
    D: tl.constexpr,
    DP: tl.constexpr,
    DVW: tl.constexpr,
    DVP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    OWNED: tl.constexpr,
    BIASED: tl.constexpr,
    PADDED: tl.constexpr,
    KEPT: tl.constexpr,
    SPANNED: tl.constexpr,
    DROPPED: tl.constexpr,
    NORMED: tl.constexpr,
    ALIGN: tl.constexpr,
    TABLE: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
    MODIFIERS,
    MODIFY: tl.constexpr,
    SLOPES: tl.constexpr,
    FROM: tl.constexpr,
    SINK=None,
):
    """OUT (g, blocks of rows, 2 reach + 1) of a TABLE, zeros before; of ALiBi (g, blocks of rows).

    A distance multiplies what is wrong with a row's mean of dw (DELTA), so ALiBi finds that: of a mean that is e too
    large, a row's gradients sum to u_sink mean - (u_sink + sum_j u_j) e, u = f'(s - tau).
    """
    seed = tl.load(SEED) if DROPPED else 0
    g = tl.program_id(1).to(tl.int64)
    i0, own = tl.program_id(0) * BLOCK_M, MODIFIERS[FROM - 1]
    i = i0 + tl.arange(0, BLOCK_M)
    at = g * tl.num_programs(0) + tl.program_id(0)
    start, stop = _tiles_met(i0, n, m, g, heads, left, right, LENGTHS, LOW, HIGH, BLOCK_M, BLOCK_N, PADDED, SPANNED)
    none = tl.zeros([BLOCK_M], tl.float32)
    found, total, whole, pull = none, none, none, none
    below = tl.sum(none, 0)
    above = below
    if TABLE:
        OUT += at * (2 * own.reach + 1)
    for first in range(start, stop, BLOCK_N):
        ds, u, slope = _tile_gradient(
            Q,
            K,
            V,
            DOUT,
            OWN,
            BIAS,
            TAU,
            DELTA,
            NORM,
            LENGTHS,
            KEEP,
            LOW,
            HIGH,
            seed,
            i0,
            first,
            g,
            n,
            m,
            left,
            right,
            scale,
            dropout,
            heads,
            group,
            keep_b,
            keep_h,
            power,
            D,
            DP,
            DVW,
            DVP,
            BLOCK_M,
            BLOCK_N,
            OWNED,
            BIASED,
            PADDED,
            KEPT,
            SPANNED,
            DROPPED,
            NORMED,
            ALIGN,
            PRECISION,
            INTERPRETED,
            MODIFIERS,
            MODIFY,
            SLOPES,
            FROM,
        )
        if TABLE:
            below, above = add_to_table(
                OUT, ds * slope, first - i0 - own.shift, own.reach, below, above, BLOCK_M, BLOCK_N
            )
        else:
            far = away(own, i[:, None], (first + tl.arange(0, BLOCK_N))[None, :])
            found, total = found + tl.sum(ds * slope * far, 1), total + tl.sum(ds, 1)
            whole, pull = whole + tl.sum(u, 1), pull + tl.sum(u * slope * far, 1)
    if TABLE:
        tl.store(OUT, below + tl.where(own.reach == 0, above, 0.0))
        tl.store(OUT + 2 * own.reach, above, mask=own.reach > 0)
    else:
        if ALIGN != 1:
            tau, mean = row_of(TAU + g * n, DELTA + g * n, i, n, ALIGN, False, False)
            if SINK is not None:
                sink = tl.load(SINK + g).to(tl.float32) + tl.zeros([BLOCK_M, 1], tl.float32)
                if ALIGN == 0:
                    more = tl.exp2(sink * LOG2E - tau[:, None])
                    if NORMED:
                        more *= numbers_of(NORM + g * n, i, n, 1.0, False)[:, None]
                else:
                    more = slopes(sink, tau[:, None], power, ALIGN)
                more = tl.sum(more, 1)
                whole, total = whole + more, total - more * mean
            found -= tl.where(whole > 0, total / tl.where(whole > 0, whole, 1.0), 0.0) * pull
        tl.store(OUT + at, -tl.sum(found, 0))


def modifier_gradients(
    call: DenseArguments, tables: PairTables, tau: Tensor, rows: Tensor, delta: Tensor, dout: Tensor
) -> list[Tensor | None]:
    """Of the sink and of held_1 to held_3. delta (g, n): the mean of dw that a row takes out, after a backward."""
    found: list[Tensor | None] = [None if call.sink is None else _sink_gradient(call, tau, delta)]
    codes, tensors = decoded(call.modifiers), iter(call.held)
    for place, code in enumerate(codes):
        held = next(tensors) if code.holds else None
        if code.holds:
            learned = held if code.learns else None
            found.append(None if learned is None else _gradient(call, tables, tau, rows, delta, dout, place, learned))
    return found + [None] * (1 + len(call.held) - len(found))


def _sink_gradient(call: DenseArguments, tau: Tensor, delta: Tensor) -> Tensor:
    """(g,): -sum_i f'(sink - tau_i) delta_i, of a key whose value is 0; a sigmoid's keys are judged by themselves."""
    assert call.sink is not None
    if call.align == SIGMOID:
        return torch.zeros_like(call.sink)
    away = call.sink.float()[:, None] - tau
    rest = away.clamp_min(0.0)
    if call.align == EXPONENTIAL:
        slope = away.exp()
    elif call.align == POSITIVE_PART:
        slope = (away > 0).to(rest.dtype)
    elif call.align == SQUARE:
        slope = 0.5 * rest
    else:
        slope = (rest / call.power) ** (call.power - 1.0) * (away > 0)
    return -(torch.where(tau < float("inf"), slope * delta, 0.0)).sum(1)


def _gradient(
    call: DenseArguments,
    tables: PairTables,
    tau: Tensor,
    rows: Tensor,
    delta: Tensor,
    dout: Tensor,
    place: int,
    held: Tensor,
) -> Tensor:
    """Of the tensor that the place-th modifier holds."""
    code, a, (g, n, _), m = decoded(call.modifiers)[place], call.a, call.a.shape, call.b.shape[1]
    sizes = sizes_of(call, tables, "backward")
    side = side_of(call.a, call.v, call.core)
    taken = ("D", "DP", "DVW", "DVP", "PADDED", "KEPT", "SPANNED", "PRECISION", "INTERPRETED")
    constants: dict[str, Any] = {name: sizes[name] for name in taken}
    softmax = call.align == EXPONENTIAL
    values, bends = functions_of(call.modifiers)
    constants |= {
        "BLOCK_M": side,
        "BLOCK_N": side,
        "OWNED": tables.own is not None,
        "BIASED": int(tables.keys is not None),
        "DROPPED": call.seed is not None,
        "NORMED": softmax and rows.shape[0] == 2,
        "ALIGN": call.align,
        "MODIFIERS": held_of(call.modifiers, call.held, call.bounds, n, m),
        "MODIFY": values,
        "SLOPES": bends,
        "FROM": place + 1,
        "num_warps": 4,
        "num_stages": 2,
    }
    (left, right), scale, strides = bounds_and_strides(call)
    bounds = (call.ranges.lengths, call.ranges.keep, call.low, call.high)
    vectors = (a, call.b, call.v, dout, or_other(tables.own, a), or_other(tables.keys, a))
    states = (rows[0], delta, rows[-1]) if softmax else (tau, delta, tau)
    marks = (*states, *(or_other(x, a) for x in bounds), noise_of(call))
    numbers = (n, m, left, right, scale, call.dropout, *strides, call.power)
    blocks = -(-n // side)
    if code.family != GIVEN_BIAS:
        table = code.family != ALIBI
        width = held.shape[1] if table else 1
        parts = alloc((g, blocks, width), a.device, zero=True)
        sink = {} if call.sink is None else {"SINK": call.sink.contiguous()}
        plainly(distance_gradient_kernel)[blocks, g](
            *vectors, *marks, parts, *numbers, TABLE=table, **constants, **sink
        )
        by_head = parts.sum(1).unflatten(0, (-1, call.heads)).sum(0)
        by_head = by_head if held.shape[0] > 1 else by_head.sum(0, keepdim=True)
        return by_head if table else by_head[:, 0]
    items = g // call.heads
    own_items, own_heads, own_n, own_m = held.shape
    out = alloc(tuple(held.shape), a.device, zero=True)
    columns = -(-m // side)
    grid = (blocks if own_n > 1 else 1) * (columns if own_m > 1 else 1), own_items * own_heads
    plainly(pair_gradient_kernel)[grid](
        *vectors,
        *marks,
        out,
        *numbers,
        items,
        code.share if own_items > 1 else items,
        1 if own_heads > 1 else call.heads,
        1 if own_n > 1 else blocks,
        1 if own_m > 1 else columns,
        own_heads,
        BY_QUERY=own_n > 1,
        BY_KEY=own_m > 1,
        **constants,
    )
    return out
