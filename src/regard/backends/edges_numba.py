"""Attention along edges on a CPU: the kernels, compiled by numba on first use and kept on disk.

Bytes: E(W b + 4H + 8) + N(W b + 8H) forward; with GAT's backward about E(2 W b + 28 H + 24) (W = H D, b bytes a value).
Design: a row of the graph is a piece of work, and a row with more than LIMIT edges is cut into parts whose sums are
added in order; pieces are joined into chunks of about equal cost which threads take one after another. Which thread
takes which chunk changes nothing, so results are the same bits for any number of threads. Rows are prefetched some
edges ahead: a random row of a large table costs its latency otherwise. Forward: the scores of a row in a buffer, two
sweeps over them, one over the values. Backward: along the sources, weights are computed again from tau; one gather
for a narrow pair (GAT), and a second pass along the targets for the others.

Tables are node-major, (nodes, heads x width). Kernels release the interpreter and start no threads of their own.
All of them stand in this one file, because numba's cache on disk notices a change only in the file of the caller.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

PAIR, DOT = 0, 1
LEAKY, TANH = 0, 1
SOFTMAX, SPARSEMAX, ENTMAX, SIGMOID, UNIFORM = 0, 1, 2, 3, 4
LIMIT = 1 << 14  # edges of a piece
BLOCK = 128  # edges whose scores are held at a time in the backward
AHEAD = 8  # edges between a prefetch and its use
LINES = 32  # cache lines of a row that are prefetched; the processor follows the rest by itself
STEPS = 24  # Newton's, as in core.alignments.sparse

# Sums may be added in any order and products fused; infinities and NaN keep their meaning (empty rows, overflow).
_FAST = {"reassoc", "contract", "nsz", "arcp"}
kernel = njit(nogil=True, cache=True, fastmath=_FAST)
exact = njit(nogil=True, cache=True, fastmath=False)  # what must not be reordered; unsaid, the caller's would hold

f32 = np.float32
instruction: Any = intrinsic  # its first argument is numba's own


class How(NamedTuple):
    """The constants of one call, in the precision of its tables."""

    heads: int
    kind: int
    act: int
    slope: Any
    scale: Any
    narrow: bool  # a pair of width 1 with a leaky ReLU
    reads: bool  # whether the readout has a gradient
    align: int
    bias: Any  # of the sigmoid; NaN where it is -log(count)
    drops: bool
    key0: int
    key1: int
    batch: int
    rate: float
    keep: Any  # what dropout multiplies a kept weight by


# ---- elementwise functions that a loop can run on whole vectors ----


@instruction
def _float_of(typing: Any, bits: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), build


@instruction
def _bits_of(typing: Any, number: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(32))

    return types.int32(types.float32), build


@instruction
def prefetch(typing: Any, table: Any, row: Any) -> Any:
    """Asks for the first lines of table[row]."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        stride = builder.extract_value(array.strides, 0)
        first = builder.gep(builder.bitcast(array.data, ir.IntType(8).as_pointer()), [builder.mul(args[1], stride)])
        i32, size = ir.IntType(32), stride.type
        name = "llvm.prefetch.p0"
        shape = ir.FunctionType(ir.VoidType(), [first.type, i32, i32, i32])
        call = builder.module.globals.get(name) or ir.Function(builder.module, shape, name)
        lines = builder.udiv(builder.add(stride, ir.Constant(size, 63)), ir.Constant(size, 64))
        most = ir.Constant(size, LINES)
        lines = builder.select(builder.icmp_unsigned("<", lines, most), lines, most)
        with cgutils.for_range(builder, lines) as loop:
            line = builder.gep(first, [builder.mul(loop.index, ir.Constant(size, 64))])
            builder.call(call, [line, ir.Constant(i32, 0), ir.Constant(i32, 2), ir.Constant(i32, 1)])
        return context.get_dummy_value()

    return types.void(table, types.intp), build


_LOG2E, _ROUND = f32(1.4426950408889634), f32(12582912.0)  # 1.5 * 2^23: adding it rounds to a whole number
_LN2_HIGH, _LN2_LOW = f32(0.693359375), f32(-2.12194440e-4)
_LEAST, _MOST, _ONE, _TWO, _HALF, _ZERO = f32(-87.3), f32(88.7), f32(1), f32(2), f32(0.5), f32(0)
_E2, _E3, _E4, _E5, _E6, _E7 = (f32(1 / math.factorial(i)) for i in range(2, 8))
_SMALL = f32(0.5)
_T3, _T5, _T7, _T9, _T11, _T13 = (f32(x) for x in (
    -1 / 3, 2 / 15, -17 / 315, 62 / 2835, -1382 / 155925, 21844 / 6081075))  # fmt: skip


@exact
def _exp_of_float(x: Any) -> Any:
    """Within 2 ulp; 0 below -87.3; NaN stays NaN. x = k log 2 + r, |r| <= log(2) / 2, and a polynomial in r."""
    y = _LEAST if x < _LEAST else x
    y = _MOST if y > _MOST else y
    shifted = y * _LOG2E + _ROUND
    k = shifted - _ROUND
    r = (y - k * _LN2_HIGH) - k * _LN2_LOW
    p = ((((_E7 * r + _E6) * r + _E5) * r + _E4) * r + _E3) * r + _E2
    p = (p * r) * r + r + _ONE
    power = (_bits_of(shifted) - np.int32(0x4B400000) + np.int32(127)) << np.int32(23)
    return _ZERO if x < _LEAST else p * _float_of(np.int32(power))


@exact
def _tanh_of_float(x: Any) -> Any:
    size = abs(x)
    z = x * x
    near = x + x * z * (((((_T13 * z + _T11) * z + _T9) * z + _T7) * z + _T5) * z + _T3)
    big = _TWO * size
    far = _ONE - _TWO / (_exp_of_float(f32(40) if big > f32(40) else big) + _ONE)
    return near if size < _SMALL else (far if x > _ZERO else -far)


def exp(x: Any) -> Any:
    return math.exp(x)


def tanh(x: Any) -> Any:
    return math.tanh(x)


@overload(exp)
def _(x):
    return (lambda x: _exp_of_float(x)) if x == types.float32 else (lambda x: math.exp(x))


@overload(tanh)
def _(x):
    return (lambda x: _tanh_of_float(x)) if x == types.float32 else (lambda x: math.tanh(x))


# ---- the plan of work ----


@exact
def pieces(start: Any, limit: int, chunk: int) -> Any:
    """Whole rows first, then the parts of rows with more than `limit` edges, and chunks of them of about equal cost.

    row, first, last, place (pieces,): place is where a piece's sum goes, rows + number for a part. hub (hubs, 3): the
    row and the range of its parts. cuts (chunks + 1,) over the pieces; whole: how many of them are whole rows.
    """
    rows = start.size - 1
    parts, hubs = 0, 0
    for i in range(rows):
        degree = start[i + 1] - start[i]
        if degree > limit:
            parts += (degree + limit - 1) // limit
            hubs += 1
    total = rows - hubs + parts
    row, first, last = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    place, hub = np.empty(total, np.int64), np.empty((hubs, 3), np.int64)
    at, whole, part, seen = 0, rows - hubs, 0, 0
    for i in range(rows):
        begin, end = start[i], start[i + 1]
        if end - begin <= limit:
            row[at], first[at], last[at], place[at] = i, begin, end, i
            at += 1
            continue
        hub[seen, 0], hub[seen, 1] = i, part
        for e in range(begin, end, limit):
            k = whole + part
            row[k], first[k], last[k], place[k] = i, e, min(e + limit, end), rows + part
            part += 1
        hub[seen, 2] = part
        seen += 1
    cuts = np.empty(total + 1, np.int64)
    cuts[0], count, cost = 0, 0, 0
    for k in range(total):
        cost += last[k] - first[k] + 1
        if cost >= chunk or k == total - 1 or k == whole - 1:
            count += 1
            cuts[count], cost = k + 1, 0
    return row, first, last, place, hub, cuts[: count + 1], whole


# ---- scores, weights, sums ----


@kernel
def _scores(fixed, table, index, first, last, readout, how, buffer):
    """buffer[e, h] = the score of `fixed` with table[index[first + e]]; a score is the same from either side."""
    heads = how.heads
    rows, ends = table.reshape(table.shape[0], heads, table.shape[1] // heads), index.size
    one, read = fixed.reshape(heads, rows.shape[2]), readout.reshape(heads, rows.shape[2])
    slope, width = how.slope, rows.shape[2]
    for e in range(last - first):
        if first + e + AHEAD < ends:
            prefetch(table, index[first + e + AHEAD])
        if how.narrow:
            line = table[index[first + e]]
            for h in range(heads):
                x = fixed[h] + line[h]
                buffer[e, h] = readout[h] * (x if x > _ZERO else x * slope)
            continue
        other = rows[index[first + e]]
        for h in range(heads):
            total = _ZERO
            if how.kind == DOT:
                for d in range(width):
                    total += one[h, d] * other[h, d]
                total *= how.scale
            elif how.act == LEAKY:
                for d in range(width):
                    x = one[h, d] + other[h, d]
                    total += read[h, d] * (x if x > _ZERO else x * slope)
            else:
                for d in range(width):
                    total += read[h, d] * tanh(one[h, d] + other[h, d])
            buffer[e, h] = total


@kernel
def _weights(buffer, count, how):
    """f(s - tau), in place of s - tau."""
    flat, size = buffer.reshape(buffer.size), count * how.heads
    if how.align == SPARSEMAX:
        for k in range(size):
            flat[k] = flat[k] if flat[k] > _ZERO else _ZERO
    elif how.align == ENTMAX:
        for k in range(size):
            x = _HALF * (flat[k] if flat[k] > _ZERO else _ZERO)
            flat[k] = x * x
    elif how.align == SIGMOID:
        for k in range(size):
            flat[k] = _ONE / (_ONE + exp(-flat[k]))
    else:
        for k in range(size):
            flat[k] = exp(flat[k])


@kernel
def _threshold(buffer, count, h, top, how):
    """Newton's steps from the left end to sum f(s - tau) = 1; tau relative to the largest score."""
    tau = -_ONE if how.align == SPARSEMAX else -_TWO
    for _ in range(STEPS):
        total, slope = _ZERO, _ZERO
        for e in range(count):
            rest = buffer[e, h] - top - tau
            rest = rest if rest > _ZERO else _ZERO
            if how.align == SPARSEMAX:
                total += rest
                slope += _ONE if rest > _ZERO else _ZERO
            else:
                total += rest * rest
                slope += rest
        if how.align == ENTMAX:
            total, slope = total / f32(4), slope * _HALF
        step = (total - _ONE) / slope
        if not step > _ZERO:
            break
        before = tau
        tau += step
        if tau == before:
            break
    return top + tau


@kernel
def _align(buffer, count, tau, how):
    """Scores of one row into weights, in place; tau (heads,) is filled, +inf where no score is open."""
    heads = how.heads
    top, total = np.empty(heads, buffer.dtype), np.zeros(heads, buffer.dtype)
    if how.align == UNIFORM or how.align == SIGMOID:
        for h in range(heads):
            seen = 0
            for e in range(count):
                seen += how.align == UNIFORM or buffer[e, h] > -np.inf
            tau[h] = math.log(seen) if how.align == UNIFORM or math.isnan(how.bias) else -how.bias
            tau[h] = tau[h] if seen else np.inf
        for e in range(count):
            for h in range(heads):
                buffer[e, h] = (_ZERO if how.align == UNIFORM else buffer[e, h]) - tau[h]
        _weights(buffer, count, how)
        return
    for h in range(heads):
        top[h] = -np.inf
    for e in range(count):
        for h in range(heads):
            top[h] = top[h] if buffer[e, h] <= top[h] else buffer[e, h]  # NaN rises to the top
    if how.align != SOFTMAX:
        for h in range(heads):
            tau[h] = _threshold(buffer, count, h, top[h], how) if top[h] > -np.inf else np.inf
        for e in range(count):
            for h in range(heads):
                buffer[e, h] -= tau[h]
        _weights(buffer, count, how)
        return
    for h in range(heads):
        top[h] = np.inf if top[h] == -np.inf else top[h]
    for e in range(count):
        line = buffer[e]
        for h in range(heads):
            x = exp(line[h] - top[h])
            line[h] = x
            total[h] += x
    for h in range(heads):
        tau[h] = top[h] + math.log(total[h]) if top[h] < np.inf or top[h] != top[h] else np.inf
        total[h] = _ONE / total[h] if total[h] > _ZERO or total[h] != total[h] else _ZERO
    for e in range(count):
        for h in range(heads):
            buffer[e, h] *= total[h]


@exact
def _kept(edge: int, group: int, how: Any, keep: Any) -> None:
    """keep[0:4] = dropout's factors of an edge for the heads 4 group to 4 group + 3: Philox-4x32-10, as core.philox."""
    mask = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    c0, c1, c2, c3 = np.uint64(edge) & mask, np.uint64(0), np.uint64(group), np.uint64(how.batch)
    k0, k1 = np.uint64(how.key0), np.uint64(how.key1)
    for _ in range(10):
        p0 = c0 * np.uint64(0xD2511F53)
        p1 = c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (p1 >> half) ^ c1 ^ k0, p1 & mask, (p0 >> half) ^ c3 ^ k1, p0 & mask
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & mask, (k1 + np.uint64(0xBB67AE85)) & mask
    for lane, word in enumerate((c0, c1, c2, c3)):
        unit = (np.float64(word >> np.uint64(9)) + 0.5) * 2.0**-23
        keep[lane] = how.keep if unit >= how.rate else 0.0


@kernel
def _dropout(edge, first, count, through, slot, how, mask):
    """mask[e, h] of the edges at first + e; `through` says that edge ids stand at edge[slot[...]]."""
    four = np.empty(4, mask.dtype)
    for e in range(count):
        name = edge[slot[first + e]] if through else edge[first + e]
        for group in range((how.heads + 3) // 4):
            _kept(name, group, how, four)
            for h in range(4 * group, min(4 * group + 4, how.heads)):
                mask[e, h] = four[h - 4 * group]


@kernel
def _add(out, table, index, first, last, weight, heads):
    """out[h, :] += sum_e weight[e, h] table[index[first + e], h, :], four edges at a time."""
    rows, ends = table.reshape(table.shape[0], heads, table.shape[1] // heads), index.size
    width, count = rows.shape[2], last - first
    fours = count // 4 * 4
    for e in range(0, fours, 4):
        for ahead in range(first + e + AHEAD, min(first + e + AHEAD + 4, ends)):
            prefetch(table, index[ahead])
        r0, r1 = rows[index[first + e]], rows[index[first + e + 1]]
        r2, r3 = rows[index[first + e + 2]], rows[index[first + e + 3]]
        for h in range(heads):
            w0, w1, w2, w3 = weight[e, h], weight[e + 1, h], weight[e + 2, h], weight[e + 3, h]
            for d in range(width):
                out[h, d] += w0 * r0[h, d] + w1 * r1[h, d] + w2 * r2[h, d] + w3 * r3[h, d]
    for e in range(fours, count):
        r0 = rows[index[first + e]]
        for h in range(heads):
            w0 = weight[e, h]
            for d in range(width):
                out[h, d] += w0 * r0[h, d]


@kernel
def _dots(one, table, index, first, count, into, heads):
    """into[e, h] = <one[h, :], table[index[first + e], h, :]>, four edges at a time."""
    rows, ends = table.reshape(table.shape[0], heads, table.shape[1] // heads), index.size
    width, fours = rows.shape[2], count // 4 * 4
    for e in range(0, fours, 4):
        for ahead in range(first + e + AHEAD, min(first + e + AHEAD + 4, ends)):
            prefetch(table, index[ahead])
        r0, r1 = rows[index[first + e]], rows[index[first + e + 1]]
        r2, r3 = rows[index[first + e + 2]], rows[index[first + e + 3]]
        for h in range(heads):
            t0, t1, t2, t3 = _ZERO, _ZERO, _ZERO, _ZERO
            for d in range(width):
                x = one[h, d]
                t0 += x * r0[h, d]
                t1 += x * r1[h, d]
                t2 += x * r2[h, d]
                t3 += x * r3[h, d]
            into[e, h], into[e + 1, h], into[e + 2, h], into[e + 3, h] = t0, t1, t2, t3
    for e in range(fours, count):
        if first + e + AHEAD < ends:
            prefetch(table, index[first + e + AHEAD])
        r0 = rows[index[first + e]]
        for h in range(heads):
            t0 = _ZERO
            for d in range(width):
                t0 += one[h, d] * r0[h, d]
            into[e, h] = t0


# ---- forward: one call runs chunk c of the work ----


@kernel
def forward(c, cuts, row, first, last, source, edge, a, b, v, readout, how, out, tau):
    """out (n, W) and tau (n, H) of whole rows."""
    heads, widest = how.heads, 0
    for p in range(cuts[c], cuts[c + 1]):
        widest = max(widest, last[p] - first[p])
    buffer = np.empty((widest, heads), a.dtype)
    mask = np.empty((widest if how.drops else 0, heads), a.dtype)
    sums = out.reshape(out.shape[0], heads, out.shape[1] // heads)
    for p in range(cuts[c], cuts[c + 1]):
        i, count = row[p], last[p] - first[p]
        sums[i] = _ZERO
        if how.align != UNIFORM:
            _scores(a[i], b, source, first[p], last[p], readout, how, buffer)
        _align(buffer, count, tau[i], how)
        if how.drops:
            _dropout(edge, first[p], count, False, edge, how, mask)
            buffer[:count] *= mask[:count]
        _add(sums[i], v, source, first[p], last[p], buffer, heads)


@kernel
def part_scores(c, cuts, row, first, last, base, source, a, b, readout, how, scores):
    """Scores of the parts of one row with many edges, scores (degree, H)."""
    if how.align == UNIFORM:
        return
    for p in range(cuts[c], cuts[c + 1]):
        _scores(a[row[p]], b, source, first[p], last[p], readout, how, scores[first[p] - base :])


@kernel
def part_align(scores, base, edge, tau, how):
    """The whole row at once: scores into weights, and dropout."""
    _align(scores, scores.shape[0], tau, how)
    if how.drops:
        mask = np.empty(scores.shape, scores.dtype)
        _dropout(edge, base, scores.shape[0], False, edge, how, mask)
        scores *= mask


@kernel
def part_sums(c, cuts, first, last, base, source, v, weights, how, sums):
    """sums (parts, H, D): what each part adds to the row."""
    for p in range(cuts[c], cuts[c + 1]):
        sums[p] = _ZERO
        _add(sums[p], v, source, first[p], last[p], weights[first[p] - base :], how.heads)


# ---- backward ----


@kernel
def _support(w, how):
    """f'(f^-1(w)): what the gradient of a weight is multiplied by."""
    if how.align == SPARSEMAX:
        return _ONE if w > _ZERO else _ZERO
    if how.align == ENTMAX:
        return math.sqrt(w)
    if how.align == SIGMOID:
        return w * (_ONE - w)
    return w


@kernel
def row_means(c, cuts, row, first, last, place, source, edge, a, b, v, readout, how, tau, dout, above, below):
    """Sparse alignments: sum g dw and sum g of each row, which softmax has for free from its output."""
    heads = how.heads
    values, pulls = (
        v.reshape(v.shape[0], heads, v.shape[1] // heads),
        dout.reshape(dout.shape[0], heads, v.shape[1] // heads),
    )
    buffer, mask = np.empty((BLOCK, heads), a.dtype), np.ones((BLOCK, heads), a.dtype)
    for p in range(cuts[c], cuts[c + 1]):
        i, up, down = row[p], above[place[p]], below[place[p]]
        up[:] = _ZERO
        down[:] = _ZERO
        for begin in range(first[p], last[p], BLOCK):
            count = min(BLOCK, last[p] - begin)
            _scores(a[i], b, source, begin, begin + count, readout, how, buffer)
            for e in range(count):
                for h in range(heads):
                    buffer[e, h] -= tau[i, h]
            _weights(buffer, count, how)
            if how.drops:
                _dropout(edge, begin, count, False, edge, how, mask)
            for e in range(count):
                j = source[begin + e]
                for h in range(heads):
                    g, dw = _support(buffer[e, h], how), _ZERO
                    for d in range(values.shape[2]):
                        dw += pulls[i, h, d] * values[j, h, d]
                    up[h] += g * dw * mask[e, h]
                    down[h] += g


@kernel
def row_dots(c, cuts, row, dout, out, how, means):
    """means (n, H) = <dout, out> of each row and head."""
    heads = how.heads
    width = out.shape[1] // heads
    outs, pulls = out.reshape(out.shape[0], heads, width), dout.reshape(out.shape[0], heads, width)
    for p in range(cuts[c], cuts[c + 1]):
        i = row[p]
        for h in range(heads):
            total = _ZERO
            for d in range(width):
                total += outs[i, h, d] * pulls[i, h, d]
            means[i, h] = total


@kernel
def by_source(
    c, cuts, row, first, last, place, target, slot, edge, a, b, v, readout, how, stats, dout, db, dv, ds, dread
):
    """Along the sources: dv and db (m + parts, ...), ds (E, H) in the order of the targets, dread (chunks, H w).

    stats (n, 2, H): tau, and the mean that the gradient of a weight is compared with.
    For a narrow pair ds is the gradient of a + b, otherwise that of the score.
    """
    heads = how.heads
    width, wide = b.shape[1] // heads, v.shape[1] // heads
    values, sums = v.reshape(v.shape[0], heads, wide), dv.reshape(dv.shape[0], heads, wide)
    keys, sums_b = b.reshape(b.shape[0], heads, width), db.reshape(db.shape[0], heads, width)
    queries = a.reshape(a.shape[0], heads, width)
    buffer, dw = np.empty((BLOCK, heads), a.dtype), np.empty((BLOCK, heads), a.dtype)
    mask = np.empty((BLOCK if how.drops else 0, heads), a.dtype)
    dr = dread[c]
    dr[:] = _ZERO
    ends = target.size
    for p in range(cuts[c], cuts[c + 1]):
        j, at = row[p], place[p]
        sums[at] = _ZERO
        sums_b[at] = _ZERO
        for begin in range(first[p], last[p], BLOCK):
            count = min(BLOCK, last[p] - begin)
            if how.align == UNIFORM:
                buffer[:count] = _ZERO
            else:
                _scores(b[j], a, target, begin, begin + count, readout, how, buffer)
            for e in range(count):
                if begin + e + AHEAD < ends:
                    prefetch(stats, target[begin + e + AHEAD])
                    prefetch(ds, slot[begin + e + AHEAD])
                tau = stats[target[begin + e], 0]
                for h in range(heads):
                    buffer[e, h] -= tau[h]
            _weights(buffer, count, how)
            _dots(values[j], dout, target, begin, count, dw, heads)
            if how.drops:
                _dropout(edge, begin, count, True, slot, how, mask)
                dw[:count] *= mask[:count]
                mask[:count] *= buffer[:count]
                _add(sums[at], dout, target, begin, begin + count, mask, heads)
            else:
                _add(sums[at], dout, target, begin, begin + count, buffer, heads)
            for e in range(count):
                mean = stats[target[begin + e], 1]
                for h in range(heads):
                    buffer[e, h] = _support(buffer[e, h], how) * (dw[e, h] - mean[h])
            if how.align == UNIFORM:
                continue
            if how.narrow:
                _narrow_gradient(b[j], a, target, begin, count, readout, how, buffer, db[at], dr)
            for e in range(count):
                into = ds[slot[begin + e]]
                for h in range(heads):
                    into[h] = buffer[e, h]
            if how.kind == DOT:
                for e in range(count):
                    for h in range(heads):
                        buffer[e, h] *= how.scale
                _add(sums_b[at], a, target, begin, begin + count, buffer, heads)
            elif not how.narrow:
                _pair_gradient(keys[j], queries, target, begin, count, how, buffer, sums_b[at], dr, how.reads)
        if how.kind == PAIR and not how.narrow:
            sums_b[at] *= readout.reshape(heads, width)


@kernel
def _narrow_gradient(fixed, table, index, first, count, readout, how, ds, into, dr):
    """From the gradient of the scores to that of a + b, in place; adds it up."""
    for e in range(count):
        line = table[index[first + e]]
        for h in range(how.heads):
            x, g = fixed[h] + line[h], ds[e, h]
            dr[h] += g * (x if x > _ZERO else x * how.slope)
            g *= readout[h] * (_ONE if x > _ZERO else how.slope)
            ds[e, h] = g
            into[h] += g


@kernel
def _pair_gradient(fixed, rows, index, first, count, how, ds, into, dr, reads):
    """into[h, w] += sum_e ds[e, h] act'(fixed + rows[index]), less the factor r_w; dr too where `reads`."""
    width, slope = fixed.shape[1], how.slope
    total, ends = dr.reshape(how.heads, width), index.size
    for e in range(count):
        if first + e + AHEAD < ends:
            prefetch(rows, index[first + e + AHEAD])
        other = rows[index[first + e]]
        for h in range(how.heads):
            g = ds[e, h]
            if how.act == LEAKY and reads:
                for d in range(width):
                    x = fixed[h, d] + other[h, d]
                    into[h, d] += g if x > _ZERO else g * slope
                    total[h, d] += g * (x if x > _ZERO else x * slope)
            elif how.act == LEAKY:
                for d in range(width):
                    into[h, d] += g if fixed[h, d] + other[h, d] > _ZERO else g * slope
            elif reads:
                for d in range(width):
                    y = tanh(fixed[h, d] + other[h, d])
                    into[h, d] += g * (_ONE - y * y)
                    total[h, d] += g * y
            else:
                for d in range(width):
                    y = tanh(fixed[h, d] + other[h, d])
                    into[h, d] += g * (_ONE - y * y)


@kernel
def by_target(c, cuts, row, first, last, place, source, a, b, readout, how, ds, da):
    """Along the targets: da (n + parts, H w) from ds."""
    heads = how.heads
    width = a.shape[1] // heads
    sums, nothing = da.reshape(da.shape[0], heads, width), np.empty(readout.size, a.dtype)
    queries, keys = a.reshape(a.shape[0], heads, width), b.reshape(b.shape[0], heads, width)
    for p in range(cuts[c], cuts[c + 1]):
        i, at, count = row[p], place[p], last[p] - first[p]
        sums[at] = _ZERO
        mine = ds[first[p] : last[p]]
        if how.narrow:
            total = da[at]
            for e in range(count):
                for h in range(heads):
                    total[h] += mine[e, h]
        elif how.kind == DOT:
            _add(sums[at], b, source, first[p], last[p], mine, heads)
            for h in range(heads):
                for d in range(width):
                    sums[at, h, d] *= how.scale
        else:
            _pair_gradient(queries[i], keys, source, first[p], count, how, mine, sums[at], nothing, False)
            sums[at] *= readout.reshape(heads, width)
