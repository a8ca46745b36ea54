"""Hand-written LLVM: vector instructions over stretches of tables, which numba's own loops do not become.

A line is a row of a table, all heads of a node or an edge. The compiler cannot know that two tables do not overlap, so
a loop over them stays scalar; these do not ask. One instruction handles all heads: a function that is handed tables
counts their references, inlined or not, which costs more than eight narrow heads.
Offsets count values from the start of a table. `vector_ops_naive.py` has each as a plain loop; a test compares both.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

PREFETCH_LINES = 32  # cache lines of a row that are prefetched; the processor follows the rest by itself
LANES = 8  # values of a vector
instruction: Any = intrinsic  # its first argument is numba's own


@instruction
def float_of_bits(typing: Any, bits: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), build


@instruction
def bits_of_float(typing: Any, number: Any) -> Any:
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
        most = ir.Constant(size, PREFETCH_LINES)
        lines = builder.select(builder.icmp_unsigned("<", lines, most), lines, most)
        with cgutils.for_range(builder, lines) as loop:
            line = builder.gep(first, [builder.mul(loop.index, ir.Constant(size, 64))])
            builder.call(call, [line, ir.Constant(i32, 0), ir.Constant(i32, 2), ir.Constant(i32, 1)])
        return context.get_dummy_value()

    return types.void(table, types.intp), build


_FLAGS = ("reassoc", "contract", "nsz", "arcp")


def _broadcast(builder: Any, number: Any, lanes: int) -> Any:
    """A number in all lanes."""
    if lanes == 1:
        return number
    kind = ir.VectorType(number.type, lanes)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), zeros)


def _vector_pointer(builder: Any, first: Any, place: Any, lanes: int) -> Any:
    """A pointer to `lanes` values."""
    pointer = builder.gep(first, [place])
    return pointer if lanes == 1 else builder.bitcast(pointer, ir.VectorType(first.type.pointee, lanes).as_pointer())


def _alignment(first: Any) -> int:
    return 8 if isinstance(first.type.pointee, ir.DoubleType) else 4


def _load(builder: Any, first: Any, place: Any, lanes: int) -> Any:
    return builder.load(_vector_pointer(builder, first, place, lanes), align=_alignment(first))


def _store(builder: Any, value: Any, first: Any, place: Any, lanes: int) -> None:
    builder.store(value, _vector_pointer(builder, first, place, lanes), align=_alignment(first))


def _for_each_vector(builder: Any, count: Any, body: Callable[[Any, int], None]) -> None:
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
        made = build(builder, *values, *(_broadcast(builder, number, lanes) for number in numbers))
        _store(builder, made, tables[0], where[0], lanes)

    _for_each_vector(builder, count, body)


def _line(build: Callable[..., Any]) -> Any:
    """An instruction that sets out[o : o + n] to build(builder, out, x, y, s) of x[p : p + n], y[q : q + n]."""

    @instruction
    def made(typing: Any, out: Any, o: Any, x: Any, p: Any, y: Any, q: Any, n: Any, s: Any) -> Any:
        i = types.intp
        return types.void(out, i, x, i, y, i, i, out.dtype), partial(_set_line, build)

    return made


def _line_by_head(build: Callable[..., Any]) -> Any:
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


def _zero_lanes(real: Any, lanes: int) -> Any:
    zero = ir.Constant(real, 0.0)
    return zero if lanes == 1 else ir.Constant(ir.VectorType(real, lanes), [zero] * lanes)


class _VectorSum:
    """A running sum, in a vector of each size that `_for_each_vector` uses."""

    def __init__(self, builder: Any, real: Any):
        self.builder = builder
        self.parts = {n: cgutils.alloca_once_value(builder, _zero_lanes(real, n)) for n in (LANES, 4, 1)}
        for lanes, place in self.parts.items():
            builder.store(_zero_lanes(real, lanes), place)  # each time, not once for the function

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


def _dot_by_head(build: Callable[..., Any]) -> Any:
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
                starts, total = (
                    [builder.add(args[k], shift) for k in (3, 5, 7, 9)],
                    _VectorSum(builder, into.type.pointee),
                )

                def body(place: Any, lanes: int) -> None:
                    where = [builder.add(start, place) for start in starts]
                    values = [_load(builder, t, w, lanes) for t, w in zip(tables, where, strict=True)]
                    total.add(build(builder, *values, _broadcast(builder, args[12], lanes)), lanes)

                _for_each_vector(builder, width, body)
                _store(builder, _times(builder, args[13], total.total()), into, builder.add(args[1], head.index), 1)
            return context.get_dummy_value()

        i = types.intp
        return types.void(out, i, x, i, y, i, z, i, u, i, i, i, out.dtype, out.dtype), code

    return made


def _four_places(builder: Any, first: Any, head: Any, heads: Any) -> list[Any]:
    """Places of a head's numbers of four edges, one after another from `first`."""
    start = builder.add(first, head)
    return [builder.add(start, builder.mul(heads, ir.Constant(start.type, k))) for k in range(4)]


@instruction
def heads_add_four_scaled(
    typing: Any, out: Any, o: Any, x: Any, p: Any, q: Any, r: Any, s: Any, weights: Any, w: Any, heads: Any, n: Any
) -> Any:
    """out[o : o + n] += weights[w] x[p : p + n] + weights[w + heads] x[q : q + n] + ..., for each head in turn."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        into, table, numbers = (_data(context, builder, signature.args[k], args[k]) for k in (0, 2, 7))
        heads, width = args[9:]
        with cgutils.for_range(builder, heads) as head:
            shift = builder.mul(head.index, width)
            out, *starts = (builder.add(args[k], shift) for k in (1, 3, 4, 5, 6))
            four = [_load(builder, numbers, at, 1) for at in _four_places(builder, args[8], head.index, heads)]

            def body(place: Any, lanes: int) -> None:
                where = builder.add(out, place)
                total = _load(builder, into, where, lanes)
                for start, weight in zip(starts, four, strict=True):
                    value = _load(builder, table, builder.add(start, place), lanes)
                    total = _plus(builder, total, _times(builder, value, _broadcast(builder, weight, lanes)))
                _store(builder, total, into, where, lanes)

            _for_each_vector(builder, width, body)
        return context.get_dummy_value()

    i = types.intp
    return types.void(out, i, x, i, i, i, i, weights, i, i, i), code


@instruction
def heads_add_four_scaled_and_dots(
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
    """`heads_add_four_scaled`, and dots[w] = <y[k : k + n], x[p : p + n]> and so on, so that each row is read once."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        tables = (_data(context, builder, signature.args[k], args[k]) for k in (0, 2, 4, 9, 11))
        into, line, table, numbers, found = tables
        heads, width = args[12:]
        with cgutils.for_range(builder, heads) as head:
            shift = builder.mul(head.index, width)
            out, mine, *starts = (builder.add(args[k], shift) for k in (1, 3, 5, 6, 7, 8))
            places = _four_places(builder, args[10], head.index, heads)
            four = [_load(builder, numbers, at, 1) for at in places]
            sums = [_VectorSum(builder, into.type.pointee) for _ in range(4)]

            def body(place: Any, lanes: int) -> None:
                where = builder.add(out, place)
                total = _load(builder, into, where, lanes)
                one = _load(builder, line, builder.add(mine, place), lanes)
                for start, weight, dot in zip(starts, four, sums, strict=True):
                    value = _load(builder, table, builder.add(start, place), lanes)
                    total = _plus(builder, total, _times(builder, value, _broadcast(builder, weight, lanes)))
                    dot.add(_times(builder, value, one), lanes)
                _store(builder, total, into, where, lanes)

            _for_each_vector(builder, width, body)
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


def _leaky_relu(b: Any, x: Any, s: Any) -> Any:
    """LeakyReLU"""
    return b.select(b.fcmp_ordered(">", x, _zero(x)), x, _times(b, x, s))


def _leaky_relu_slope(b: Any, x: Any, s: Any, u: Any) -> Any:
    """s LeakyReLU'(x)"""
    return b.select(b.fcmp_ordered(">", x, _zero(x)), s, _times(b, s, u))


# One line; s is a number.
line_sum = _line(lambda b, out, x, y, s: _plus(b, x, y))  # out = x + y
line_product = _line(lambda b, out, x, y, s: _times(b, x, y))  # out = x * y
line_add = _line(lambda b, out, x, y, s: _plus(b, out, x))  # out += x
line_subtract = _line(lambda b, out, x, y, s: b.fsub(out, x, flags=_FLAGS))  # out -= x
line_multiply = _line(lambda b, out, x, y, s: _times(b, out, x))  # out *= x
line_copy = _line(lambda b, out, x, y, s: x)  # out = x
line_fill = _line(lambda b, out, x, y, s: s)  # out = s
line_scaled = _line(lambda b, out, x, y, s: _times(b, x, s))  # out = s x
line_add_product = _line(lambda b, out, x, y, s: _plus(b, out, _times(b, _times(b, x, y), s)))  # out += s x y
# out = max(out, x), NaN where either is
line_maximum = _line(
    lambda b, out, x, y, s: b.select(b.or_(b.fcmp_ordered("<=", x, out), b.fcmp_unordered("uno", out, out)), out, x)
)

# All heads of a line: s is a weight of each head, u a number.
heads_scaled = _line_by_head(lambda b, out, x, y, s, u: _times(b, x, s))  # out = s x
heads_add_scaled = _line_by_head(lambda b, out, x, y, s, u: _plus(b, out, _times(b, x, s)))  # out += s x
heads_set_product = _line_by_head(lambda b, out, x, y, s, u: _times(b, _times(b, x, y), s))  # out = s x y
# out += s x y
heads_add_product = _line_by_head(lambda b, out, x, y, s, u: _plus(b, out, _times(b, _times(b, x, y), s)))
# out += s LeakyReLU'(x + y), of slope u
heads_add_leaky_gradient = _line_by_head(
    lambda b, out, x, y, s, u: _plus(b, out, _leaky_relu_slope(b, _plus(b, x, y), s, u))
)

# One number a head: scale times a sum over the head's width; s is the slope of a leaky ReLU.
heads_dot = _dot_by_head(lambda b, x, y, z, u, s: _times(b, x, y))  # <x, y>
heads_dot_sum = _dot_by_head(lambda b, x, y, z, u, s: _times(b, x, _plus(b, y, u)))  # <x, y + u>
heads_dot_product = _dot_by_head(lambda b, x, y, z, u, s: _times(b, x, _times(b, y, u)))  # <x, y u>
# <z, LeakyReLU(x + y)>
heads_leaky_dot = _dot_by_head(lambda b, x, y, z, u, s: _times(b, z, _leaky_relu(b, _plus(b, x, y), s)))
# <z, LeakyReLU(x + y + u)>
heads_leaky_dot_sum = _dot_by_head(
    lambda b, x, y, z, u, s: _times(b, z, _leaky_relu(b, _plus(b, x, _plus(b, y, u)), s))
)
# <z, LeakyReLU(x + y u)>
heads_leaky_dot_product = _dot_by_head(
    lambda b, x, y, z, u, s: _times(b, z, _leaky_relu(b, _plus(b, x, _times(b, y, u)), s))
)


@instruction
def heads_add_leaky_gradients(
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
                weight, bent = (_broadcast(builder, x, lanes) for x in (number, args[12]))
                made = (
                    _leaky_relu_slope(builder, total, weight, bent),
                    _times(builder, weight, _leaky_relu(builder, total, bent)),
                )
                for table, at, more in zip((into, reads), where, made, strict=False):
                    _store(builder, _plus(builder, _load(builder, table, at, lanes), more), table, at, lanes)

            _for_each_vector(builder, width, body)
        return context.get_dummy_value()

    i = types.intp
    return types.void(out, i, read, i, x, i, y, i, weights, i, i, i, out.dtype), code
