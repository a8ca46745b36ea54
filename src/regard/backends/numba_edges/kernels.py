"""Attention along edges on a CPU: the kernels, compiled by numba on first use and kept on disk.

Bytes: E(W b + 4H + 8) + N(W b + 8H) forward; with GAT's backward about E(2 W b + 28 H + 24) (W = H D, b bytes a value);
keys and values of edges add one row read forward, two reads and a write backward, each.
Design: a row of the graph is a piece of work, and a row with more than LIMIT edges is cut into parts whose sums are
added in order; pieces are joined into chunks of about equal cost which threads take one after another. Which thread
takes which chunk changes nothing, so results are the same bits for any number of threads. A chunk runs in batches of
about BATCH edges: the ends and the ids of a batch are listed first, so that scores, exponentials and dropout are long
loops even where rows are short, and nothing is allocated for a row. Rows of tables are handled as lines, by vector
instructions of our own: the compiler cannot know that two tables do not overlap. One instruction handles all heads of
an edge: a function that is handed tables counts their owners, inlined or not, which costs more than eight narrow heads.
Rows are prefetched some edges ahead.
Backward: along the sources, weights are computed again from tau; one gather for a narrow pair (GAT), and a second pass
along the targets for the others.

Tables are node-major, (nodes, heads x width). Kernels release the interpreter and start no threads of their own.
All of them stand in this one file, because numba's cache on disk notices a change only in the file of the caller.
"""

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils, event
from numba.extending import intrinsic, overload

PAIR, DOT = 0, 1
LEAKY, TANH = 0, 1
SOFTMAX, SPARSEMAX, ENTMAX, SIGMOID, UNIFORM, TOPK = 0, 1, 2, 3, 4, 5
ADD, MUL = 1, 2  # how an edge's key joins that of its source
LIMIT = 1 << 14  # edges of a piece
BATCH = 256  # edges that are handled together, whole rows of them
AHEAD = 8  # edges between a prefetch and its use
LINES = 32  # cache lines of a row that are prefetched; the processor follows the rest by itself
STEPS = 24  # Newton's, as in core.alignments.sparse
LANES = 8  # values of a vector

# Sums may be added in any order and products fused; infinities and NaN keep their meaning (empty rows, overflow).
_FAST = {"reassoc", "contract", "nsz", "arcp"}
kernel = njit(nogil=True, cache=True, fastmath=_FAST)  # called from Python
part = njit(nogil=True, fastmath=_FAST)  # called from kernels; a call costs more than an edge: one for a batch
small = njit(nogil=True, fastmath=_FAST, inline="always")  # called for an edge, where that is much work
exact = njit(nogil=True, fastmath=False)  # what must not be reordered; unsaid, the caller's would hold

f32 = np.float32
instruction: Any = intrinsic  # its first argument is numba's own


class How(NamedTuple):
    """The constants of one call, in the precision of its tables."""

    heads: int
    kind: int
    act: int
    slope: Any
    scale: Any  # of a dot, or a readout that is the same everywhere
    narrow: bool  # a pair of width 1 with a leaky ReLU
    reads: bool  # whether there is a readout of its own for each value
    align: int
    bias: Any  # of the sigmoid; NaN where it is -log(count)
    top: int  # how many scores of a row top-k keeps
    join: int  # 0 where edges have no keys
    adds: bool  # whether edges have values
    drops: bool
    key0: int
    key1: int
    batch: int
    least: int  # dropout keeps draws of at least this, of 2^23
    keep: Any  # what dropout multiplies a kept weight by


class NodeTables(NamedTuple):
    """a (n, H w), b (m, H w), v (m, H D), readout (1, H w); key (edge ids, H w) and value (edge ids, H D) or empty."""

    a: Any
    b: Any
    v: Any
    readout: Any
    key: Any
    value: Any


class EdgeLists(NamedTuple):
    """The edges of each row: their other ends; the place of each among the edges by target; edge ids by that place."""

    end: Any
    slot: Any
    edge: Any
    by_source: bool  # rows are sources, and the other ends targets; slot is empty where rows are targets


class WorkPlan(NamedTuple):
    """Pieces of work, see `pieces`."""

    row: Any
    first: Any
    last: Any
    place: Any


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


# ---- lines: vector instructions over stretches of tables; offsets count values from the start of a table ----

_FLAGS = ("reassoc", "contract", "nsz", "arcp")


def _spread(builder: Any, number: Any, lanes: int) -> Any:
    """A number in all lanes."""
    if lanes == 1:
        return number
    kind = ir.VectorType(number.type, lanes)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), zeros)


def _at(builder: Any, first: Any, place: Any, lanes: int) -> Any:
    """A pointer to `lanes` values."""
    pointer = builder.gep(first, [place])
    return pointer if lanes == 1 else builder.bitcast(pointer, ir.VectorType(first.type.pointee, lanes).as_pointer())


def _bytes(first: Any) -> int:
    return 8 if isinstance(first.type.pointee, ir.DoubleType) else 4


def _load(builder: Any, first: Any, place: Any, lanes: int) -> Any:
    return builder.load(_at(builder, first, place, lanes), align=_bytes(first))


def _store(builder: Any, value: Any, first: Any, place: Any, lanes: int) -> None:
    builder.store(value, _at(builder, first, place, lanes), align=_bytes(first))


def _stretch(builder: Any, count: Any, body: Callable[[Any, int], None]) -> None:
    """body(place, lanes) over 0 to count: eight values at a time, then four, then one by one."""
    size = count.type
    number = lambda x: ir.Constant(size, x)  # noqa: E731
    done = builder.and_(count, number(-LANES))
    with cgutils.for_range_slice(builder, number(0), done, number(LANES), size, inc=True) as (place, _):
        body(place, LANES)
    four = builder.and_(count, number(4))
    with builder.if_then(builder.icmp_unsigned("!=", four, number(0))):
        body(done, 4)
    done = builder.add(done, four)
    with cgutils.for_range_slice(builder, done, count, number(1), size, inc=True) as (place, _):
        body(place, 1)


def _data(context: Any, builder: Any, kind: Any, table: Any) -> Any:
    data = context.make_array(kind)(context, builder, table).data
    return builder.bitcast(data, context.get_data_type(kind.dtype).as_pointer())


def _set_line(build: Callable[..., Any], context: Any, builder: Any, signature: Any, args: Any) -> Any:
    tables = [_data(context, builder, signature.args[k], args[k]) for k in (0, 2, 4)]
    _build_line(build, builder, tables, [args[k] for k in (1, 3, 5)], args[6], args[7:])
    return context.get_dummy_value()


def _build_line(
    build: Callable[..., Any], builder: Any, tables: list[Any], starts: list[Any], count: Any, numbers: list[Any]
) -> None:
    def body(place: Any, lanes: int) -> None:
        where = [builder.add(start, place) for start in starts]
        values = [_load(builder, table, at, lanes) for table, at in zip(tables, where, strict=True)]
        made = build(builder, *values, *(_spread(builder, number, lanes) for number in numbers))
        _store(builder, made, tables[0], where[0], lanes)

    _stretch(builder, count, body)


def _line(build: Callable[..., Any]) -> Any:
    """An instruction that sets out[o : o + n] to build(builder, out, x, y, s) of x[p : p + n], y[q : q + n]."""

    @instruction
    def made(typing: Any, out: Any, o: Any, x: Any, p: Any, y: Any, q: Any, n: Any, s: Any) -> Any:
        i = types.intp
        return types.void(out, i, x, i, y, i, i, out.dtype), partial(_set_line, build)

    return made


def _by_head(build: Callable[..., Any]) -> Any:
    """The same for each head in turn, n values each; s is weights[w + head], and u one number for all."""

    @instruction
    def made(
        typing: Any, out: Any, o: Any, x: Any, p: Any, y: Any, q: Any, weights: Any, w: Any, heads: Any, n: Any, u: Any
    ) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            *tables, numbers = (_data(context, builder, signature.args[k], args[k]) for k in (0, 2, 4, 6))
            with cgutils.for_range(builder, args[8]) as head:
                weight = _load(builder, numbers, builder.add(args[7], head.index), 1)
                shift = builder.mul(head.index, args[9])
                starts = [builder.add(args[k], shift) for k in (1, 3, 5)]
                _build_line(build, builder, tables, starts, args[9], [weight, args[10]])
            return context.get_dummy_value()

        i = types.intp
        return types.void(out, i, x, i, y, i, weights, i, i, i, out.dtype), code

    return made


def _nothing(real: Any, lanes: int) -> Any:
    zero = ir.Constant(real, 0.0)
    return zero if lanes == 1 else ir.Constant(ir.VectorType(real, lanes), [zero] * lanes)


class _Sum:
    """A running sum, in a vector of each size that `_stretch` uses."""

    def __init__(self, builder: Any, real: Any):
        self.builder = builder
        self.parts = {n: cgutils.alloca_once_value(builder, _nothing(real, n)) for n in (LANES, 4, 1)}
        for lanes, place in self.parts.items():
            builder.store(_nothing(real, lanes), place)  # each time, not once for the function

    def add(self, value: Any, lanes: int) -> None:
        b, place = self.builder, self.parts[lanes]
        b.store(b.fadd(b.load(place), value, flags=_FLAGS), place)

    def total(self) -> Any:
        b = self.builder

        def pick(x: Any, chosen: list[int]) -> Any:
            return b.shuffle_vector(x, x, ir.Constant(ir.VectorType(ir.IntType(32), len(chosen)), chosen))

        eight, four, one = (b.load(place) for place in self.parts.values())
        four = _plus(b, _plus(b, pick(eight, [0, 1, 2, 3]), pick(eight, [4, 5, 6, 7])), four)
        two = _plus(b, pick(four, [0, 1]), pick(four, [2, 3]))
        first, second = (b.extract_element(two, ir.Constant(ir.IntType(32), k)) for k in (0, 1))
        return _plus(b, _plus(b, first, second), one)


def _totals(build: Callable[..., Any]) -> Any:
    """An instruction that sets out[o + head] to scale times the sum of build(builder, x, y, z, u, s) over n values."""

    @instruction
    def made(
        typing: Any,
        out: Any,
        o: Any,
        x: Any,
        p: Any,
        y: Any,
        q: Any,
        z: Any,
        r: Any,
        u: Any,
        t: Any,
        heads: Any,
        n: Any,
        s: Any,
        scale: Any,
    ) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            into, *tables = (_data(context, builder, signature.args[k], args[k]) for k in (0, 2, 4, 6, 8))
            width = args[11]
            with cgutils.for_range(builder, args[10]) as head:
                shift = builder.mul(head.index, width)
                starts, total = [builder.add(args[k], shift) for k in (3, 5, 7, 9)], _Sum(builder, into.type.pointee)

                def body(place: Any, lanes: int) -> None:
                    where = [builder.add(start, place) for start in starts]
                    values = [_load(builder, t, w, lanes) for t, w in zip(tables, where, strict=True)]
                    total.add(build(builder, *values, _spread(builder, args[12], lanes)), lanes)

                _stretch(builder, width, body)
                _store(builder, _times(builder, args[13], total.total()), into, builder.add(args[1], head.index), 1)
            return context.get_dummy_value()

        i = types.intp
        return types.void(out, i, x, i, y, i, z, i, u, i, i, i, out.dtype, out.dtype), code

    return made


def _four(builder: Any, first: Any, head: Any, heads: Any) -> list[Any]:
    """Places of a head's numbers of four edges, one after another from `first`."""
    start = builder.add(first, head)
    return [builder.add(start, builder.mul(heads, ir.Constant(start.type, k))) for k in range(4)]


@instruction
def _add_four(
    typing: Any, out: Any, o: Any, x: Any, p: Any, q: Any, r: Any, s: Any, weights: Any, w: Any, heads: Any, n: Any
) -> Any:
    """out[o : o + n] += weights[w] x[p : p + n] + weights[w + heads] x[q : q + n] + ..., for each head in turn."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        into, table, numbers = (_data(context, builder, signature.args[k], args[k]) for k in (0, 2, 7))
        heads, width = args[9:]
        with cgutils.for_range(builder, heads) as head:
            shift = builder.mul(head.index, width)
            out, *starts = (builder.add(args[k], shift) for k in (1, 3, 4, 5, 6))
            four = [_load(builder, numbers, at, 1) for at in _four(builder, args[8], head.index, heads)]

            def body(place: Any, lanes: int) -> None:
                where = builder.add(out, place)
                total = _load(builder, into, where, lanes)
                for start, weight in zip(starts, four, strict=True):
                    value = _load(builder, table, builder.add(start, place), lanes)
                    total = _plus(builder, total, _times(builder, value, _spread(builder, weight, lanes)))
                _store(builder, total, into, where, lanes)

            _stretch(builder, width, body)
        return context.get_dummy_value()

    i = types.intp
    return types.void(out, i, x, i, i, i, i, weights, i, i, i), code


@instruction
def _pull_four(
    typing: Any,
    out: Any,
    o: Any,
    y: Any,
    k: Any,
    x: Any,
    p: Any,
    q: Any,
    r: Any,
    s: Any,
    weights: Any,
    w: Any,
    dots: Any,
    heads: Any,
    n: Any,
) -> Any:
    """`_add_four`, and dots[w] = <y[k : k + n], x[p : p + n]> and so on, so that each row is read once."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        tables = (_data(context, builder, signature.args[k], args[k]) for k in (0, 2, 4, 9, 11))
        into, line, table, numbers, found = tables
        heads, width = args[12:]
        with cgutils.for_range(builder, heads) as head:
            shift = builder.mul(head.index, width)
            out, mine, *starts = (builder.add(args[k], shift) for k in (1, 3, 5, 6, 7, 8))
            places = _four(builder, args[10], head.index, heads)
            four = [_load(builder, numbers, at, 1) for at in places]
            sums = [_Sum(builder, into.type.pointee) for _ in range(4)]

            def body(place: Any, lanes: int) -> None:
                where = builder.add(out, place)
                total = _load(builder, into, where, lanes)
                one = _load(builder, line, builder.add(mine, place), lanes)
                for start, weight, dot in zip(starts, four, sums, strict=True):
                    value = _load(builder, table, builder.add(start, place), lanes)
                    total = _plus(builder, total, _times(builder, value, _spread(builder, weight, lanes)))
                    dot.add(_times(builder, value, one), lanes)
                _store(builder, total, into, where, lanes)

            _stretch(builder, width, body)
            for at, dot in zip(places, sums, strict=True):
                _store(builder, dot.total(), found, at, 1)
        return context.get_dummy_value()

    i = types.intp
    return types.void(out, i, y, i, x, i, i, i, i, weights, i, dots, i, i), code


def _zero(x: Any) -> Any:
    zero: Any = 0.0
    if isinstance(x.type, ir.VectorType):
        zero = [ir.Constant(x.type.element, 0.0)] * x.type.count
    return ir.Constant(x.type, zero)


def _times(b: Any, x: Any, y: Any) -> Any:
    return b.fmul(x, y, flags=_FLAGS)


def _plus(b: Any, x: Any, y: Any) -> Any:
    return b.fadd(x, y, flags=_FLAGS)


def _bent(b: Any, x: Any, s: Any) -> Any:
    """LeakyReLU"""
    return b.select(b.fcmp_ordered(">", x, _zero(x)), x, _times(b, x, s))


def _steep(b: Any, x: Any, s: Any, u: Any) -> Any:
    """s LeakyReLU'(x)"""
    return b.select(b.fcmp_ordered(">", x, _zero(x)), s, _times(b, s, u))


line_sum = _line(lambda b, out, x, y, s: _plus(b, x, y))  # out = x + y
line_product = _line(lambda b, out, x, y, s: _times(b, x, y))  # out = x * y
line_add = _line(lambda b, out, x, y, s: _plus(b, out, x))  # out += x
line_less = _line(lambda b, out, x, y, s: b.fsub(out, x, flags=_FLAGS))  # out -= x
line_times = _line(lambda b, out, x, y, s: _times(b, out, x))  # out *= x
line_copy = _line(lambda b, out, x, y, s: x)
line_fill = _line(lambda b, out, x, y, s: s)
line_scaled = _line(lambda b, out, x, y, s: _times(b, x, s))  # out = s x
line_add_product = _line(lambda b, out, x, y, s: _plus(b, out, _times(b, _times(b, x, y), s)))  # out += s x y
line_most = _line(lambda b, out, x, y, s: b.select(b.fcmp_ordered("<=", x, out), out, x))  # the larger; NaN is largest
heads_scaled = _by_head(lambda b, out, x, y, s, u: _times(b, x, s))  # out = s x
heads_add_scaled = _by_head(lambda b, out, x, y, s, u: _plus(b, out, _times(b, x, s)))  # out += s x
heads_set_product = _by_head(lambda b, out, x, y, s, u: _times(b, _times(b, x, y), s))  # out = s x y
heads_add_product = _by_head(lambda b, out, x, y, s, u: _plus(b, out, _times(b, _times(b, x, y), s)))  # out += s x y
heads_slopes = _by_head(lambda b, out, x, y, s, u: _plus(b, out, _steep(b, _plus(b, x, y), s, u)))
totals_product = _totals(lambda b, x, y, z, u, s: _times(b, x, y))  # <x, y>
totals_of_sum = _totals(lambda b, x, y, z, u, s: _times(b, x, _plus(b, y, u)))  # <x, y + u>
totals_of_product = _totals(lambda b, x, y, z, u, s: _times(b, x, _times(b, y, u)))  # <x, y u>
totals_bent = _totals(lambda b, x, y, z, u, s: _times(b, z, _bent(b, _plus(b, x, y), s)))  # <z, LeakyReLU(x + y)>
totals_bent_sum = _totals(lambda b, x, y, z, u, s: _times(b, z, _bent(b, _plus(b, x, _plus(b, y, u)), s)))
totals_bent_product = _totals(lambda b, x, y, z, u, s: _times(b, z, _bent(b, _plus(b, x, _times(b, y, u)), s)))


@instruction
def heads_bend(
    typing: Any,
    out: Any,
    o: Any,
    read: Any,
    r: Any,
    x: Any,
    p: Any,
    y: Any,
    q: Any,
    weights: Any,
    w: Any,
    heads: Any,
    n: Any,
    slope: Any,
) -> Any:
    """out += s LeakyReLU'(x + y) and read += s LeakyReLU(x + y) for each head, s = weights[w + head]."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        into, reads, *pair, numbers = (_data(context, builder, signature.args[k], args[k]) for k in (0, 2, 4, 6, 8))
        width = args[11]
        with cgutils.for_range(builder, args[10]) as head:
            number = _load(builder, numbers, builder.add(args[9], head.index), 1)
            shift = builder.mul(head.index, width)
            starts = [builder.add(args[k], shift) for k in (1, 3, 5, 7)]

            def body(place: Any, lanes: int) -> None:
                where = [builder.add(start, place) for start in starts]
                total = _plus(builder, *(_load(builder, t, at, lanes) for t, at in zip(pair, where[2:], strict=True)))
                weight, bent = (_spread(builder, x, lanes) for x in (number, args[12]))
                made = _steep(builder, total, weight, bent), _times(builder, weight, _bent(builder, total, bent))
                for table, at, more in zip((into, reads), where, made, strict=False):
                    _store(builder, _plus(builder, _load(builder, table, at, lanes), more), table, at, lanes)

            _stretch(builder, width, body)
        return context.get_dummy_value()

    i = types.intp
    return types.void(out, i, read, i, x, i, y, i, weights, i, i, i, out.dtype), code


_LOG2E, _ROUND = f32(1.4426950408889634), f32(12582912.0)  # 1.5 * 2^23: adding it rounds to a whole number
_LN2_HIGH, _LN2_LOW = f32(0.693359375), f32(-2.12194440e-4)
_LEAST, _MOST, _ONE, _TWO, _HALF, _ZERO = f32(-87.3), f32(88.7), f32(1), f32(2), f32(0.5), f32(0)
_E2, _E3, _E4, _E5, _E6, _E7 = (f32(1 / math.factorial(i)) for i in range(2, 8))
_SMALL = f32(0.5)
_T3, _T5, _T7, _T9, _T11, _T13 = (
    f32(x) for x in (-1 / 3, 2 / 15, -17 / 315, 62 / 2835, -1382 / 155925, 21844 / 6081075)
)


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


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def turned(start: Any, source: Any, sources: int) -> Any:
    """The edges by source, as core.edges.BySource has them, by counting: start (m + 1,), target and slot (E,)."""
    begin, target, slot = np.zeros(sources + 1, np.int64), np.empty_like(source), np.empty_like(source)
    for e in range(source.size):
        begin[source[e] + 1] += 1
    for j in range(sources):
        begin[j + 1] += begin[j]
    place = begin[:-1].copy()
    for i in range(start.size - 1):
        for e in range(start[i], start[i + 1]):
            j = source[e]
            target[place[j]], slot[place[j]] = i, e
            place[j] += 1
    return begin, target, slot


# ---- batches ----


@part
def _room(cuts, c, plan):
    """Edges of the largest batch of a chunk."""
    first, last = plan.first, plan.last
    widest = BATCH
    for p in range(cuts[c], cuts[c + 1]):
        widest = max(widest, last[p] - first[p])
    return widest


@part
def _listed(plan, p, end, graph, how, ends):
    """Lists the edges of whole pieces from p on, about BATCH: ends[0:4] = target, source, slot, id of each edge."""
    row, first, last = plan.row, plan.first, plan.last
    other, slot, edge, by_source = graph.end, graph.slot, graph.edge, graph.by_source
    count, named = 0, how.drops or how.join > 0 or how.adds or how.align == TOPK
    while p < end and (count == 0 or count + last[p] - first[p] <= BATCH):
        mine = row[p]
        for e in range(first[p], last[p]):
            if by_source:
                ends[0, count], ends[1, count], ends[2, count] = other[e], mine, slot[e]
            else:
                ends[0, count], ends[1, count], ends[2, count] = mine, other[e], e
            count += 1
        p += 1
    if named:
        for e in range(count):
            ends[3, e] = edge[ends[2, e]]
    return p, count


# ---- scores, weights, sums ----


@part
def _scores(ends, count, t, how, turned, raw, buffer, line):
    """buffer[e, h] = the score of an edge; raw[e, h] = a + b of a narrow pair. turned: rows are sources."""
    a, b, readout, key = t.a, t.b, t.readout, t.key
    heads = how.heads
    if how.narrow:
        alone = heads == 1 and how.join == 0
        if alone:
            for e in range(count):
                raw[e, 0] = a[ends[0, e], 0] + b[ends[1, e], 0]
        for e in range(count if alone else 0, count):
            if e + AHEAD < count:
                if turned:
                    prefetch(a, ends[0, e + AHEAD])
                else:
                    prefetch(b, ends[1, e + AHEAD])
            i, j = ends[0, e] * heads, ends[1, e] * heads
            if how.join == MUL:
                line_product(raw, e * heads, b, j, key, ends[3, e] * heads, heads, _ZERO)
                line_add(raw, e * heads, a, i, a, i, heads, _ZERO)
                continue
            line_sum(raw, e * heads, a, i, b, j, heads, _ZERO)
            if how.join == ADD:
                line_add(raw, e * heads, key, ends[3, e] * heads, a, i, heads, _ZERO)
        x, s, slope, scale = raw.reshape(raw.size), buffer.reshape(buffer.size), how.slope, how.scale
        for k in range(count * heads):
            s[k] = scale * (x[k] if x[k] > _ZERO else x[k] * slope)
        if how.reads:
            for e in range(count):
                line_times(buffer, e * heads, readout, 0, readout, 0, heads, _ZERO)
        return
    if how.kind == PAIR and how.act == TANH:
        _tanh_scores(ends, count, t, how, buffer, line)
        return
    wide = a.shape[1]
    width, zero, scale, slope = wide // heads, _ZERO, how.scale, how.slope
    for e in range(count):
        if e + AHEAD < count:
            if turned:
                prefetch(a, ends[0, e + AHEAD])
            else:
                prefetch(b, ends[1, e + AHEAD])
        o, i, j, x = e * heads, ends[0, e] * wide, ends[1, e] * wide, ends[3, e] * wide
        if how.kind == DOT:
            if how.join == 0:
                totals_product(buffer, o, a, i, b, j, a, i, a, i, heads, width, zero, scale)
            elif how.join == ADD:
                totals_of_sum(buffer, o, a, i, b, j, a, i, key, x, heads, width, zero, scale)
            else:
                totals_of_product(buffer, o, a, i, b, j, a, i, key, x, heads, width, zero, scale)
        elif how.join == 0:
            totals_bent(buffer, o, a, i, b, j, readout, 0, a, i, heads, width, slope, _ONE)
        elif how.join == ADD:
            totals_bent_sum(buffer, o, a, i, b, j, readout, 0, key, x, heads, width, slope, _ONE)
        else:
            totals_bent_product(buffer, o, a, i, b, j, readout, 0, key, x, heads, width, slope, _ONE)


@part
def _tanh_scores(ends, count, t, how, buffer, line):
    """The same of a pair with a tanh."""
    a, b, key, heads, wide = t.a, t.b, t.key, how.heads, t.a.shape[1]
    other, width = line if how.join else b, wide // heads
    x, y, z = a.reshape(a.size), other.reshape(other.size), t.readout.reshape(t.readout.size)
    for e in range(count):
        i, j = ends[0, e] * wide, ends[1, e] * wide
        if how.join == ADD:
            line_sum(line, 0, b, j, key, ends[3, e] * wide, wide, _ZERO)
        elif how.join == MUL:
            line_product(line, 0, b, j, key, ends[3, e] * wide, wide, _ZERO)
        j = 0 if how.join else j
        for h in range(heads):
            total = _ZERO
            for d in range(h * width, h * width + width):
                total += z[d] * tanh(x[i + d] + y[j + d])
            buffer[e, h] = total


@part
def _weights(buffer, count, how):
    """f(s - tau), in place of s - tau. What is no number stays none."""
    flat, size = buffer.reshape(buffer.size), count * how.heads
    if how.align == SPARSEMAX:
        for k in range(size):
            flat[k] = _ZERO if flat[k] <= _ZERO else flat[k]
    elif how.align == ENTMAX:
        for k in range(size):
            x = _HALF * (_ZERO if flat[k] <= _ZERO else flat[k])
            flat[k] = x * x
    elif how.align == SIGMOID:
        for k in range(size):
            flat[k] = _ONE / (_ONE + exp(-flat[k]))
    else:
        for k in range(size):
            flat[k] = exp(flat[k])


@part
def _threshold(buffer, lo, hi, h, top, how):
    """Newton's steps from the left end to sum f(s - tau) = 1; tau relative to the largest score."""
    tau = -_ONE if how.align == SPARSEMAX else -_TWO
    for _ in range(STEPS):
        total, slope = _ZERO, _ZERO
        for e in range(lo, hi):
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
        if slope == _ZERO:  # of the largest score alone it is more, unless that is no number
            return f32(np.nan)
        step = (total - _ONE) / slope
        if not step > _ZERO:
            break
        before = tau
        tau += step
        if tau == before:
            break
    return top + tau


@part
def _choose(buffer, lo, hi, names, i, index, best, how):
    """Leaves the k best scores of a row and head and closes the others; index[i, h] names their edges, -1 for none."""
    many = index.shape[2]
    for h in range(how.heads):
        found = 0
        for e in range(lo, hi):  # the best so far, largest first; of equal ones the earlier stays
            x = buffer[e, h]
            if x == -np.inf or (found == many and not (x > buffer[best[found - 1], h] or x != x)):
                continue
            at = min(found, many - 1)
            while at > 0 and (x > buffer[best[at - 1], h] or (x != x and not math.isnan(buffer[best[at - 1], h]))):
                best[at] = best[at - 1]
                at -= 1
            best[at] = e
            found = min(found + 1, many)
        for slot in range(many):
            index[i, h, slot] = names[best[slot]] if slot < found else -1
        at = 0
        best[:found].sort()
        for e in range(lo, hi):
            if at < found and best[at] == e:
                at += 1
            else:
                buffer[e, h] = -np.inf


@part
def _open(plan, p, q, buffer, tau, names, index, best, how):
    """Rows of scores into s - tau, or s - max for the softmax, in place; tau is filled, +inf where no score is open."""
    row, first, last, heads, hi = plan.row, plan.first, plan.last, how.heads, 0
    for piece in range(p, q):
        lo, i = hi, row[piece]
        hi, at = lo + last[piece] - first[piece], i * heads
        if how.align == UNIFORM or how.align == SIGMOID:
            for h in range(heads):
                seen = 0
                for e in range(lo, hi):
                    seen += how.align == UNIFORM or buffer[e, h] > -np.inf
                x = math.log(seen) if how.align == UNIFORM or math.isnan(how.bias) else -how.bias
                tau[i, h] = x if seen else np.inf
                for e in range(lo, hi):
                    buffer[e, h] = (_ZERO if how.align == UNIFORM else buffer[e, h]) - tau[i, h]
            continue
        if how.align == TOPK:
            _choose(buffer, lo, hi, names, i, index, best, how)
        if heads == 1 and (how.align == SOFTMAX or how.align == TOPK):
            tau[i, 0] = -np.inf
            for e in range(lo, hi):
                tau[i, 0] = tau[i, 0] if buffer[e, 0] <= tau[i, 0] else buffer[e, 0]
            if tau[i, 0] == -np.inf:
                tau[i, 0] = np.inf
            for e in range(lo, hi):
                buffer[e, 0] -= tau[i, 0]
            continue
        line_fill(tau, at, tau, at, tau, at, heads, -np.inf)
        for e in range(lo, hi):
            line_most(tau, at, buffer, e * heads, tau, at, heads, _ZERO)
        for h in range(heads):
            top = tau[i, h]
            if top == -np.inf:
                tau[i, h] = np.inf
            elif how.align == SPARSEMAX or how.align == ENTMAX:
                tau[i, h] = _threshold(buffer, lo, hi, h, top, how)
        for e in range(lo, hi):
            line_less(buffer, e * heads, tau, at, tau, at, heads, _ZERO)


@part
def _close(plan, p, q, buffer, tau, total, how):
    """Softmax: exponentials of a row are divided by their sum, and tau goes from the largest score to log sum exp."""
    if how.align != SOFTMAX and how.align != TOPK:
        return
    row, first, last, heads, hi = plan.row, plan.first, plan.last, how.heads, 0
    for piece in range(p, q):
        lo, i = hi, row[piece]
        hi = lo + last[piece] - first[piece]
        if heads == 1:
            total[0, 0], top = _ZERO, tau[i, 0]
            for e in range(lo, hi):
                total[0, 0] += buffer[e, 0]
            x = total[0, 0]
            tau[i, 0] = top + math.log(x) if top < np.inf or top != top else np.inf
            total[0, 0] = _ONE / x if x > _ZERO or x != x else _ZERO
            for e in range(lo, hi):
                buffer[e, 0] *= total[0, 0]
            continue
        line_fill(total, 0, total, 0, total, 0, heads, _ZERO)
        for e in range(lo, hi):
            line_add(total, 0, buffer, e * heads, total, 0, heads, _ZERO)
        for h in range(heads):
            x, top = total[0, h], tau[i, h]
            tau[i, h] = top + math.log(x) if top < np.inf or top != top else np.inf
            total[0, h] = _ONE / x if x > _ZERO or x != x else _ZERO
        for e in range(lo, hi):
            line_times(buffer, e * heads, total, 0, total, 0, heads, _ZERO)


@exact
def _draws(names, count, group, how, words):
    """words[0:4, e] for the heads 4 group to 4 group + 3 of an edge: Philox-4x32-10, as core.philox, less nine bits."""
    mask, half, nine = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(9)
    m0, m1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
    for e in range(count):
        c0, c1, c2, c3 = np.uint64(names[e]) & mask, np.uint64(0), np.uint64(group), np.uint64(how.batch)
        k0, k1 = np.uint64(how.key0), np.uint64(how.key1)
        for _ in range(10):
            p0, p1 = c0 * m0, c2 * m1
            c0, c1, c2, c3 = (p1 >> half) ^ c1 ^ k0, p1 & mask, (p0 >> half) ^ c3 ^ k1, p0 & mask
            k0, k1 = (k0 + np.uint64(0x9E3779B9)) & mask, (k1 + np.uint64(0xBB67AE85)) & mask
        words[0, e], words[1, e] = np.int32(c0 >> nine), np.int32(c1 >> nine)
        words[2, e], words[3, e] = np.int32(c2 >> nine), np.int32(c3 >> nine)


@part
def _dropout(names, count, how, words, mask):
    """mask[e, h]: what dropout multiplies each weight by."""
    heads, least = how.heads, np.int32(how.least)
    flat = mask.reshape(mask.size)
    for group in range((heads + 3) // 4):
        _draws(names, count, group, how, words)
        for lane in range(min(4, heads - 4 * group)):
            at = 4 * group + lane
            for e in range(count):
                flat[e * heads + at] = how.keep if words[lane, e] >= least else _ZERO


@part
def _flat_times(x, y, size):
    """x *= y"""
    p, q = x.reshape(x.size), y.reshape(y.size)
    for k in range(size):
        p[k] *= q[k]


@part
def _flat_product(out, x, y, size):
    """out = x * y"""
    o, p, q = out.reshape(out.size), x.reshape(x.size), y.reshape(y.size)
    for k in range(size):
        o[k] = p[k] * q[k]


@part
def _add(plan, p, q, place, out, table, index, count, weight, shift, heads):
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
            for ahead in range(e + AHEAD, min(e + AHEAD + 4, count)):
                prefetch(table, index[ahead])
            x, y, z, u = index[e] * wide, index[e + 1] * wide, index[e + 2] * wide, index[e + 3] * wide
            _add_four(out, o, table, x, y, z, u, weight, w * heads, heads, width)
            w += 4
        for e in range(fours, hi):
            if e + AHEAD < count:
                prefetch(table, index[e + AHEAD])
            x = index[e] * wide
            heads_add_scaled(out, o, table, x, table, x, weight, w * heads, heads, width, _ZERO)
            w += 1


@part
def _pull(plan, p, q, place, out, v, dout, targets, count, weight, dw, heads):
    """dv of the sources of a batch, as `_add` does it, and dw[e, h] = <dout_i, v_j> by head on the way."""
    row, first, last, wide, hi = plan.row, plan.first, plan.last, dout.shape[1], 0
    width = wide // heads
    for piece in range(p, q):
        lo, o, j = hi, place[piece] * wide, row[piece] * wide
        hi = lo + last[piece] - first[piece]
        fours = lo + (hi - lo) // 4 * 4
        for e in range(lo, fours, 4):
            for ahead in range(e + AHEAD, min(e + AHEAD + 4, count)):
                prefetch(dout, targets[ahead])
            x, y, z, u = targets[e] * wide, targets[e + 1] * wide, targets[e + 2] * wide, targets[e + 3] * wide
            _pull_four(out, o, v, j, dout, x, y, z, u, weight, e * heads, dw, heads, width)
        for e in range(fours, hi):
            if e + AHEAD < count:
                prefetch(dout, targets[e + AHEAD])
            x, k = targets[e] * wide, e * heads
            heads_add_scaled(out, o, dout, x, dout, x, weight, k, heads, width, _ZERO)
            totals_product(dw, k, v, j, dout, x, v, j, v, j, heads, width, _ZERO, _ONE)


@part
def _clear(place, p, q, out):
    wide = out.shape[1]
    for piece in range(p, q):
        o = place[piece] * wide
        line_fill(out, o, out, o, out, o, wide, _ZERO)


# ---- forward: one call runs chunk c of the work ----


@kernel
def forward(c, cuts, plan, graph, t, how, out, tau, index):
    """out (n, W), tau (n, H) and index (n, H, k) of whole rows."""
    row, v, value = plan.row, t.v, t.value
    heads, room = how.heads, _room(cuts, c, plan)
    ends, words, best = np.empty((4, room), np.int64), np.empty((4, room), np.int32), np.empty(index.shape[2], np.int64)
    raw, buffer = np.empty((room, heads), out.dtype), np.empty((room, heads), out.dtype)
    mask, sources, names = np.empty((room, heads), out.dtype), ends[1], ends[3]
    line, total = np.empty((1, t.b.shape[1]), out.dtype), np.empty((1, heads), out.dtype)
    p = cuts[c]
    while p < cuts[c + 1]:
        q, count = _listed(plan, p, cuts[c + 1], graph, how, ends)
        if how.align != UNIFORM:
            _scores(ends, count, t, how, False, raw, buffer, line)
        _open(plan, p, q, buffer, tau, names, index, best, how)
        _weights(buffer, count, how)
        _close(plan, p, q, buffer, tau, total, how)
        if how.drops:
            _dropout(names, count, how, words, mask)
            _flat_times(buffer, mask, count * heads)
        _clear(row, p, q, out)
        _add(plan, p, q, row, out, v, sources, count, buffer, -1, heads)
        if how.adds:
            _add(plan, p, q, row, out, value, names, count, buffer, -1, heads)
        p = q


@kernel
def part_scores(c, cuts, plan, graph, t, how, base, scores):
    """Scores of the parts of one row with many edges, scores (degree, H)."""
    if how.align == UNIFORM:
        return
    room = _room(cuts, c, plan)
    ends, raw = np.empty((4, room), np.int64), np.empty((room, how.heads), scores.dtype)
    line = np.empty((1, t.b.shape[1]), scores.dtype)
    for p in range(cuts[c], cuts[c + 1]):
        _, count = _listed(plan, p, p + 1, graph, how, ends)
        _scores(ends, count, t, how, False, raw, scores[plan.first[p] - base :], line)


@kernel
def part_align(plan, scores, names, tau, index, how):
    """The whole row at once, the one piece of the plan: scores into weights, and dropout."""
    count, heads = scores.shape
    best, total = np.empty(index.shape[2], np.int64), np.empty((1, heads), scores.dtype)
    _open(plan, 0, 1, scores, tau, names, index, best, how)
    _weights(scores, count, how)
    _close(plan, 0, 1, scores, tau, total, how)
    if how.drops:
        mask, words = np.empty(scores.shape, scores.dtype), np.empty((4, count), np.int32)
        _dropout(names, count, how, words, mask)
        _flat_times(scores, mask, count * heads)


@kernel
def part_sums(c, cuts, plan, graph, t, how, base, weights, sums):
    """sums (parts, W): what each part adds to the row."""
    ends, place = np.empty((4, _room(cuts, c, plan)), np.int64), np.arange(plan.first.size)
    for p in range(cuts[c], cuts[c + 1]):
        _, count = _listed(plan, p, p + 1, graph, how, ends)
        _clear(place, p, p + 1, sums)
        _add(plan, p, p + 1, place, sums, t.v, ends[1], count, weights, base, how.heads)
        if how.adds:
            _add(plan, p, p + 1, place, sums, t.value, ends[3], count, weights, base, how.heads)


# ---- backward ----


@part
def _again(ends, count, t, how, turned, stats, index, raw, buffer, line):
    """The weights of a batch once more, from tau."""
    heads = how.heads
    if how.align == UNIFORM:
        flat = buffer.reshape(buffer.size)
        for k in range(count * heads):
            flat[k] = _ZERO
    else:
        _scores(ends, count, t, how, turned, raw, buffer, line)
    for e in range(count):
        if e + AHEAD < count:
            prefetch(stats, ends[0, e + AHEAD])
        at = ends[0, e] * 2 * heads
        line_less(buffer, e * heads, stats, at, stats, at, heads, _ZERO)
    _weights(buffer, count, how)
    if how.align == TOPK:
        for e in range(count):
            i, name = ends[0, e], ends[3, e]
            for h in range(heads):
                chosen = False
                for slot in range(index.shape[2]):
                    chosen |= index[i, h, slot] == name
                if not chosen:
                    buffer[e, h] = _ZERO


@part
def _pulled(ends, count, t, how, dout, dw):
    """dw[e, h] = <dout_i, v_j + value_e> by head, along the targets."""
    v, value, heads, wide = t.v, t.value, how.heads, dout.shape[1]
    width = wide // heads
    for e in range(count):
        if e + AHEAD < count:
            prefetch(v, ends[1, e + AHEAD])
            if how.adds:
                prefetch(value, ends[3, e + AHEAD])
        o, i, j, x = e * heads, ends[0, e] * wide, ends[1, e] * wide, ends[3, e] * wide
        if how.adds:
            totals_of_sum(dw, o, dout, i, v, j, dout, i, value, x, heads, width, _ZERO, _ONE)
        else:
            totals_product(dw, o, dout, i, v, j, dout, i, dout, i, heads, width, _ZERO, _ONE)


@part
def _value_gradient(ends, count, value, dout, weight, dw, dvalue, heads):
    """What the values of edges add to dw, and their gradient."""
    wide = dout.shape[1]
    width, more = wide // heads, np.empty((1, heads), dw.dtype)
    for e in range(count):
        if e + AHEAD < count:
            prefetch(value, ends[3, e + AHEAD])
        o, i, x = e * heads, ends[0, e] * wide, ends[3, e] * wide
        totals_product(more, 0, dout, i, value, x, dout, i, dout, i, heads, width, _ZERO, _ONE)
        line_add(dw, o, more, 0, more, 0, heads, _ZERO)
        heads_scaled(dvalue, x, dout, i, dout, i, weight, o, heads, width, _ZERO)


@part
def _support(w, dw, size, how):
    """w = f'(f^-1(w)) dw, in place: what the gradient of a weight is multiplied by."""
    x, y = w.reshape(w.size), dw.reshape(dw.size)
    if how.align == SPARSEMAX:
        for k in range(size):
            x[k] = y[k] if x[k] > _ZERO else _ZERO
    elif how.align == ENTMAX:
        for k in range(size):
            x[k] = math.sqrt(x[k]) * y[k]
    elif how.align == SIGMOID:
        for k in range(size):
            x[k] = x[k] * (_ONE - x[k]) * y[k]
    else:
        for k in range(size):
            x[k] = x[k] * y[k]


@kernel
def row_means(c, cuts, plan, graph, t, how, stats, dout, above, below):
    """Sparse alignments: sum g dw and sum g of each row, which softmax has for free from its output."""
    b = t.b
    first, last, place = plan.first, plan.last, plan.place
    heads, room = how.heads, _room(cuts, c, plan)
    ends, words, none = np.empty((4, room), np.int64), np.empty((4, room), np.int32), np.empty((1, 1, 0), np.int32)
    raw, buffer = np.empty((room, heads), dout.dtype), np.empty((room, heads), dout.dtype)
    mask, dw = np.empty((room, heads), dout.dtype), np.empty((room, heads), dout.dtype)
    names = ends[3]
    line = np.empty((1, b.shape[1]), dout.dtype)
    p = cuts[c]
    while p < cuts[c + 1]:
        q, count = _listed(plan, p, cuts[c + 1], graph, how, ends)
        _again(ends, count, t, how, False, stats, none, raw, buffer, line)
        _pulled(ends, count, t, how, dout, dw)
        if how.drops:
            _dropout(names, count, how, words, mask)
            _flat_times(dw, mask, count * heads)
        lo = 0
        for k in range(p, q):
            hi, at = lo + last[k] - first[k], place[k]
            for h in range(heads):
                up, down = _ZERO, _ZERO
                for e in range(lo, hi):
                    w = buffer[e, h]
                    g = math.sqrt(w) if how.align == ENTMAX else (_ONE if w > _ZERO else _ZERO)
                    up += g * dw[e, h]
                    down += g
                above[at, h], below[at, h] = up, down
            lo = hi
        p = q


@kernel
def row_dots(c, rows, dout, out, tau, dtau, how, stats):
    """stats (n, 2, H) of rows c rows to (c + 1) rows: tau; and <dout, out> - dtau, the mean of a softmax's gradient."""
    heads, wide = how.heads, out.shape[1]
    width, soft = wide // heads, how.align == SOFTMAX or how.align == TOPK
    for i in range(c * rows, min((c + 1) * rows, out.shape[0])):
        k, at = i * wide, 2 * i * heads
        line_copy(stats, at, tau, i * heads, tau, i * heads, heads, _ZERO)
        line_fill(stats, at + heads, stats, at, stats, at, heads, _ZERO)
        if soft:
            totals_product(stats, at + heads, dout, k, out, k, out, k, out, k, heads, width, _ZERO, _ONE)
            if dtau.shape[0]:  # d tau = sum p ds
                line_less(stats, at + heads, dtau, i * heads, dtau, i * heads, heads, _ZERO)


@kernel
def by_source(c, cuts, plan, graph, t, how, stats, index, dout, db, dv, dkey, dvalue, ds, dread):
    """Along the sources: dv and db (m + parts, ...), dkey and dvalue by edge id, ds (E, H) in the order of the targets,
    dread (chunks, H w).

    stats (n, 2, H): tau, and the mean that the gradient of a weight is compared with.
    For a narrow pair ds is the gradient of a + b, otherwise that of the score.
    """
    b, v, value, place = t.b, t.v, t.value, plan.place
    heads, deep, room = how.heads, b.shape[1], _room(cuts, c, plan)
    ends, words = np.empty((4, room), np.int64), np.empty((4, room), np.int32)
    raw, buffer = np.empty((room, heads), dout.dtype), np.empty((room, heads), dout.dtype)
    mask, dw = np.empty((room, heads), dout.dtype), np.empty((room, heads), dout.dtype)
    targets, names = ends[0], ends[3]
    dropped, line = np.empty((room, heads), dout.dtype), np.empty((1, deep), dout.dtype)
    line_fill(dread, c * deep, dread, 0, dread, 0, deep, _ZERO)
    p = cuts[c]
    while p < cuts[c + 1]:
        q, count = _listed(plan, p, cuts[c + 1], graph, how, ends)
        _again(ends, count, t, how, True, stats, index, raw, buffer, line)
        if how.drops:
            _dropout(names, count, how, words, mask)
            _flat_product(dropped, mask, buffer, count * heads)
        used = dropped if how.drops else buffer
        _clear(place, p, q, dv)
        _clear(place, p, q, db)
        _pull(plan, p, q, place, dv, v, dout, targets, count, used, dw, heads)
        if how.adds:
            _value_gradient(ends, count, value, dout, used, dw, dvalue, heads)
        if how.drops:
            _flat_times(dw, mask, count * heads)
        for e in range(count):
            at = (ends[0, e] * 2 + 1) * heads
            line_less(dw, e * heads, stats, at, stats, at, heads, _ZERO)
        _support(buffer, dw, count * heads, how)
        if how.narrow:
            _narrow_gradient(count, t, how, raw, buffer, dread, c)
        if how.align != UNIFORM:
            for e in range(count):
                line_copy(ds, ends[2, e] * heads, buffer, e * heads, buffer, 0, heads, _ZERO)
            _key_gradient(plan, p, q, ends, count, t, how, buffer, db, dkey, dread, c, line)
        p = q


@part
def _narrow_gradient(count, t, how, raw, ds, dread, c):
    """From the gradient of the scores to that of a + b, in place."""
    readout = t.readout
    heads, slope, scale = how.heads, how.slope, how.scale
    x, g = raw.reshape(raw.size), ds.reshape(ds.size)
    if how.reads:
        for e in range(count):
            for h in range(heads):
                dread[c, h] += ds[e, h] * (raw[e, h] if raw[e, h] > _ZERO else raw[e, h] * slope)
            line_times(ds, e * heads, readout, 0, readout, 0, heads, _ZERO)
    for k in range(count * heads):
        g[k] *= scale if x[k] > _ZERO else scale * slope


@part
def _key_gradient(plan, p, q, ends, count, t, how, ds, db, dkey, dread, c, line):
    """db of the sources of a batch, dkey by edge id, and dread."""
    a, b, readout, key = t.a, t.b, t.readout, t.key
    first, last, place, targets = plan.first, plan.last, plan.place, ends[0]
    heads, deep, hi = how.heads, b.shape[1], 0
    width, read = deep // heads, c * deep
    into, other = (dkey, line) if how.join else (db, b)
    if how.kind == DOT:
        flat = ds.reshape(ds.size)
        for k in range(count * heads):
            flat[k] *= how.scale
        if how.join != MUL:
            _add(plan, p, q, place, db, a, targets, count, ds, -1, heads)
            if how.join == 0:
                return
    for piece in range(p, q):
        lo, at = hi, place[piece] * deep
        hi = lo + last[piece] - first[piece]
        for e in range(lo, hi):
            i, j, x, g = ends[0, e] * deep, ends[1, e] * deep, ends[3, e] * deep, e * heads
            if how.narrow:
                if how.join == MUL:
                    line_add_product(db, at, ds, g, key, x, heads, _ONE)
                    line_product(dkey, x, ds, g, b, j, heads, _ZERO)
                    continue
                line_add(db, at, ds, g, ds, g, heads, _ZERO)
                if how.join == ADD:
                    line_copy(dkey, x, ds, g, ds, g, heads, _ZERO)
                continue
            if e + AHEAD < count:
                prefetch(a, ends[0, e + AHEAD])
            if how.kind == DOT:
                if how.join == ADD:
                    heads_scaled(dkey, x, a, i, a, i, ds, g, heads, width, _ZERO)
                else:
                    heads_add_product(db, at, a, i, key, x, ds, g, heads, width, _ZERO)
                    heads_set_product(dkey, x, a, i, b, j, ds, g, heads, width, _ZERO)
                continue
            if how.join == ADD:
                line_sum(line, 0, b, j, key, x, deep, _ZERO)
            elif how.join == MUL:
                line_product(line, 0, b, j, key, x, deep, _ZERO)
            if how.join:
                line_fill(dkey, x, dkey, x, dkey, x, deep, _ZERO)
            y, o = (0, x) if how.join else (j, at)
            if how.act == TANH:
                _bend(a, i, other, y, ds, e, how, width, into, o, dread, read, how.reads)
            else:
                heads_bend(into, o, dread, read, a, i, other, y, ds, g, heads, width, how.slope)
            if how.join == ADD:
                line_add(db, at, dkey, x, dkey, x, deep, _ZERO)
            elif how.join == MUL:
                line_add_product(db, at, dkey, x, key, x, deep, _ONE)
                line_times(dkey, x, b, j, b, j, deep, _ZERO)
            if how.join:
                line_times(dkey, x, readout, 0, readout, 0, deep, _ZERO)
        if how.kind == PAIR and not how.narrow:
            line_times(db, at, readout, 0, readout, 0, deep, _ZERO)


@small
def _bend(a, i, b, j, ds, e, how, width, into, at, dread, read, reads):
    """A pair with a tanh: into += ds tanh'(a + b), less the factor r; dread += ds tanh(a + b) where `reads`."""
    x, y, z, r = a.reshape(a.size), b.reshape(b.size), into.reshape(into.size), dread.reshape(dread.size)
    for h in range(how.heads):
        k, g = h * width, ds[e, h]
        for d in range(k, k + width):
            value = tanh(x[i + d] + y[j + d])
            z[at + d] += g * (_ONE - value * value)
            if reads:
                r[read + d] += g * value


@kernel
def by_target(c, cuts, plan, graph, t, how, ds, da):
    """Along the targets: da (n + parts, H w) from ds."""
    a, b, readout, key = t.a, t.b, t.readout, t.key
    row, first, last, place = plan.row, plan.first, plan.last, plan.place
    heads, deep, room = how.heads, a.shape[1], _room(cuts, c, plan)
    width = deep // heads
    if how.narrow:
        for p in range(cuts[c], cuts[c + 1]):
            at = place[p] * heads
            line_fill(da, at, da, at, da, at, heads, _ZERO)
            for e in range(first[p], last[p]):
                line_add(da, at, ds, e * heads, ds, 0, heads, _ZERO)
        return
    ends, line, nothing = np.empty((4, room), np.int64), np.empty((1, deep), ds.dtype), np.empty((1, 0), ds.dtype)
    sources, names, other = ends[1], ends[3], line if how.join else b
    p = cuts[c]
    while p < cuts[c + 1]:
        q, count = _listed(plan, p, cuts[c + 1], graph, how, ends)
        _clear(place, p, q, da)
        if how.kind == DOT and how.join != MUL:
            _add(plan, p, q, place, da, b, sources, count, ds, 0, heads)
            if how.join == ADD:
                _add(plan, p, q, place, da, key, names, count, ds, 0, heads)
        hi = 0
        for piece in range(p, q):
            lo, at, i = hi, place[piece] * deep, row[piece] * deep
            hi, mine = lo + last[piece] - first[piece], first[piece] - lo  # edge e of the batch is mine + e in ds
            if how.kind == DOT:
                if how.join == MUL:
                    for e in range(lo, hi):
                        j, x = ends[1, e] * deep, ends[3, e] * deep
                        heads_add_product(da, at, b, j, key, x, ds, (mine + e) * heads, heads, width, _ZERO)
                line_scaled(da, at, da, at, da, at, deep, how.scale)
                continue
            for e in range(lo, hi):
                if e + AHEAD < count:
                    prefetch(b, ends[1, e + AHEAD])
                j, x = ends[1, e] * deep, ends[3, e] * deep
                if how.join == ADD:
                    line_sum(line, 0, b, j, key, x, deep, _ZERO)
                elif how.join == MUL:
                    line_product(line, 0, b, j, key, x, deep, _ZERO)
                j = 0 if how.join else j
                if how.act == TANH:
                    _bend(a, i, other, j, ds, mine + e, how, width, da, at, nothing, 0, False)
                else:
                    heads_slopes(da, at, a, i, other, j, ds, (mine + e) * heads, heads, width, how.slope)
            line_times(da, at, readout, 0, readout, 0, deep, _ZERO)
        p = q


class _Notice(event.Listener):
    """Half a minute of silence looks like a fault: said once, where our kernels are compiled and not read from disk."""

    said = False

    def on_start(self, happened: Any) -> None:
        function = happened.data["dispatcher"].py_func
        if not self.said and function.__module__ == __name__:
            self.said = True
            print("regard: compiling the graph kernels for this processor; half a minute, once.", file=sys.stderr)

    def on_end(self, happened: Any) -> None:
        pass


event.register("numba:compile", _Notice())
