"""Launches of the dense kernels: sizes of tiles, and the gradients of what scores are made of."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from .ranges import Ranges
from .spans import keys_spans
from .triton_choose_kernel import choose_kernel
from .triton_dense import side_of
from .triton_dense_backward import pull_kernel
from .triton_dense_forward import known_kernel, softmax_kernel
from .triton_launch import INTERPRETED
from .triton_live import listed
from .triton_pairs import HELD
from .triton_tables import DOT, LOG2E, TANH, Tables, in_parts, padded
from .triton_threshold_launch import find_tau

SOFTMAX, SIGMOID, SPARSEMAX, ENTMAX15, ENTMAX = range(5)
AT_ONCE = 132 * 16  # warps that an H200 runs, where a thread has 128 registers
ROOMY = 1 << 30


@dataclass(eq=False)
class Call:
    """One call over g = batch x heads of queries: a (g, n, d), all contiguous.

    `group` heads of queries share one of keys: b (g / group, m, d), v (g / group, m, d_v).
    """

    a: Tensor
    b: Tensor
    v: Tensor
    readout: Tensor | None  # (g, d), of a pair
    key_bias: Tensor | None  # (g / group, m) fp32
    row_bias: Tensor | None  # (g, n) fp32
    ranges: Ranges
    heads: int
    core: int
    scale: float  # of a dot
    linear: float  # pairs: act(x) = linear x + bent |x|
    bent: float
    align: int
    alpha: float
    bias: float | None  # of a sigmoid
    low: Tensor | None  # (g, n) int32: the first key of each row, and the one after the last
    high: Tensor | None
    centre: Tensor | None  # (g, n) fp32: of a bell over the keys, 1 / (2 width^2) = narrow
    narrow: float
    seed: Tensor | None = None  # of dropout
    dropout: float = 0.0
    trains: bool = True  # whether a gradient will be asked for

    @property
    def group(self) -> int:
        return self.a.shape[0] // max(1, self.b.shape[0]) or 1

    @property
    def unit(self) -> float:
        """Scores of a softmax and a sigmoid are kept in base 2."""
        return LOG2E if self.align <= SIGMOID else 1.0

    @property
    def power(self) -> float:
        return 1 / (self.alpha - 1) if self.align > SIGMOID else 1.0


def sizes_of(call: Call, tables: Tables, backward: bool) -> dict[str, Any]:
    """What kernels are compiled for. fp32 is three parts of 8 bits, six products: as exact as fp32, on tensor cores."""
    d_v = call.v.shape[2]
    return {
        "CORE": call.core, "D": call.a.shape[2], "DP": tables.dp, "WIDTH": tables.width,
        **_tiles(call, "backward" if backward else "forward"),
        "OWNED": tables.own is not None, "BIASED": tables.keys is not None,
        "PADDED": call.ranges.lengths is not None, "KEPT": call.ranges.keep is not None,
        "SPANNED": call.low is not None,
        "PRECISION": "bf16x6" if call.v.dtype == torch.float32 else "ieee", "INTERPRETED": INTERPRETED,
    } | ({"DVW": d_v} if backward else {"DV": d_v}) | {"DVP": padded(d_v, call.v.dtype == torch.float32)}  # fmt: skip


# Rows and columns of a tile, warps, stages, registers of a thread (None: as many as it likes); measured on an H200.
# Tiles of sparse alignments are square, since both sides of the backward share the list of those that hold weights.
TILES: dict[tuple[str, str], tuple[int, int, int, int, int | None]] = {
    ("dot", "forward"): (128, 64, 8, 3, None),
    ("sigmoid", "forward"): (128, 64, 4, 4, None),  # of a dot
    ("dot", "backward"): (64, 64, 4, 3, None),
    ("dot", "sparse"): (64, 64, 4, 3, None),
    ("wide dot", "forward"): (64, 64, 4, 2, None),  # heads over 64, or fp32
    ("wide dot", "backward"): (64, 64, 4, 2, None),
    ("wide dot", "sparse"): (64, 64, 4, 2, None),
    ("pair", "forward"): (64, 128, 8, 2, 128),
    ("widest pair", "forward"): (64, 64, 8, 2, 128),  # values over 128
    ("pair", "backward"): (32, 64, 4, 2, 128),
    ("pair", "once"): (64, 64, 8, 2, 128),  # both sides of the backward in one walk
    ("pair", "sparse"): (64, 64, 8, 2, 128),
    ("fp32 pair", "forward"): (32, 64, 4, 2, 128),
    ("fp32 pair", "backward"): (32, 64, 4, 2, 128),
    ("fp32 pair", "once"): (64, 64, 8, 2, 128),
    ("fp32 pair", "sparse"): (64, 64, 8, 2, 128),
}


def _tiles(call: Call, turn: str) -> dict[str, int]:
    full, backward = call.v.dtype == torch.float32, turn != "forward"
    if side_of(call.a, call.v) == 32:
        rows, columns, warps, stages, registers = 32, 32, 4, 1, None
    else:
        wide = full or max(call.a.shape[2], call.v.shape[2]) > 64
        core = ("wide dot" if wide else "dot") if call.core == DOT else "fp32 pair" if full else "pair"
        turn = "sparse" if call.align > SIGMOID else turn
        if core == "pair" and turn == "forward" and call.v.shape[2] > 128:
            core = "widest pair"
        if core == "dot" and turn == "forward" and call.align == SIGMOID:
            core = "sigmoid"
        rows, columns, warps, stages, registers = TILES[core, turn]
    held = rows * padded(call.a.shape[2]) // (32 * HELD.value)  # more warps would share what a thread sums for itself
    if call.core != DOT and backward and held < warps:
        warps, registers = max(1, held), None
    made = {"BM": rows, "BN": columns, "num_warps": warps, "num_stages": stages}
    return made if registers is None else made | {"maxnreg": registers}


def _where(call: Call) -> tuple[tuple[int, ...], float, tuple[int, ...]]:
    """left and right; the scale; heads, how many share keys, and the strides of a key mask."""
    ranges, n, m = call.ranges, call.a.shape[1], call.b.shape[1]
    left, right = (max(-(1 << 30), min(x, n + m)) for x in (ranges.left, ranges.right))
    keep = ranges.keep
    keep_b = 0 if keep is None or keep.shape[0] == 1 else keep.stride(0)
    keep_h = 0 if keep is None or keep.shape[1] == 1 else keep.stride(1)
    return (left, right), call.scale * call.unit, (call.heads, call.group, keep_b, keep_h)


def forward(call: Call) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """out (g, n, d_v); tau (g, n) fp32; of sparse alignments which tiles hold weights; what the backward asks of rows.

    Of softmax that is tau in base 2, (1, g, n); in fp32, where its rounding would show, (2, g, n): the largest score
    and the reciprocal of the sum relative to it. Of a sparse alignment that trains it is (g, n, d_v), the mean of the
    values weighted by slopes.
    """
    a, align, (g, n, _) = call.a, call.align, call.a.shape
    out = call.v.new_empty((g, n, call.v.shape[2]))
    tau = torch.empty((g, n), dtype=torch.float32, device=a.device)
    live = torch.empty(live_shape(call), dtype=torch.int8, device=a.device)
    rows = torch.empty(rows_shape(call), dtype=torch.float32, device=a.device)
    if not (out.numel() and call.b.shape[1]):
        return out.zero_(), tau.fill_(float("inf")), live, rows.zero_()
    tables = Tables(call, False)
    sizes = sizes_of(call, tables, False)
    grid, vectors, marks, numbers = handed = given(call, tables, sizes)
    seed, dropped = noise_of(call), call.seed is not None
    if align == SOFTMAX:
        v = in_parts(call.v) if call.core != DOT and call.v.dtype == torch.float32 else call.v
        softmax_kernel[grid](
            *vectors, v, *marks, seed, or_other(call.centre, a), out, tau, rows, *numbers[:5], call.dropout,
            call.narrow * LOG2E, *numbers[5:], BELL=call.centre is not None, DROPPED=dropped,
            PLAIN=call.core == DOT and not (sizes["OWNED"] or sizes["BIASED"]) and call.scale > 0,
            NORMED=rows.shape[0] == 2, T=8 if sizes["BM"] * sizes["BN"] >= 1024 * sizes["num_warps"] else 4, **sizes,
        )  # fmt: skip
        return out, tau, live, rows
    lists = find_tau(call, sizes, handed, tau, live) if align > SIGMOID else (live, live)
    known_kernel[grid](
        *vectors, call.v, *marks, seed, out, tau, *lists, rows,
        *numbers[:5], call.dropout, -(call.bias or 0.0), *numbers[5:], call.power, ALIGN=align,
        COUNTED=call.bias is None, TRAINS=rows.numel() > 0, DROPPED=dropped, **sizes,
    )  # fmt: skip
    return out, tau, live, rows


def rows_shape(call: Call) -> tuple[int, ...]:
    if call.align == SOFTMAX:
        return 2 if call.v.dtype == torch.float32 else 1, *call.a.shape[:2]
    return (*call.a.shape[:2], call.v.shape[2]) if call.align > SIGMOID and call.trains else (0,)


def noise_of(call: Call) -> Tensor:
    """The seed of dropout's stream, where there is one."""
    return call.a if call.seed is None else call.seed + 1


def given(call: Call, tables: Tables, sizes: dict[str, Any]) -> tuple[Any, ...]:
    """Grid, vectors, marks and numbers of a forward kernel."""
    a, (g, n, _), m = call.a, call.a.shape, call.b.shape[1]
    (left, right), scale, strides = _where(call)
    bounds = (tables.own, tables.keys, call.ranges.lengths, call.ranges.keep, call.low, call.high)
    marks = (tables.readout, tables.modes, *(or_other(x, a) for x in bounds))
    numbers = (n, m, left, right, scale, *strides, *tables.strides)
    return (-(-n // sizes["BM"]), g), (a, call.b, *tables.across), marks, numbers


def choose(call: Call, seed: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """The key of each row (g, n) int32, log sum exp of its scores and their entropy, (g, n) fp32."""
    tables, (g, n, _) = Tables(call, False), call.a.shape
    index = torch.full((g, n), -1, dtype=torch.int32, device=call.a.device)
    tau, entropy = (torch.full((g, n), x, device=index.device) for x in (float("inf"), 0.0))
    if index.numel():
        sizes = sizes_of(call, tables, False)
        sizes = {name: size for name, size in sizes.items() if name not in ("DV", "DVP")}
        grid, vectors, marks, numbers = given(call, tables, sizes)
        choose_kernel[grid](
            *vectors, *marks, or_other(seed, call.a), index, tau, entropy, *numbers, SAMPLED=seed is not None, **sizes
        )
    return index, tau / LOG2E, entropy / LOG2E


def live_shape(call: Call) -> tuple[int, ...]:
    if call.align <= SIGMOID:
        return (0,)
    side = side_of(call.a, call.v)
    return call.a.shape[0], -(-call.a.shape[1] // side), -(-call.b.shape[1] // side)


def backward(
    call: Call, out: Tensor, tau: Tensor, live: Tensor, rows: Tensor, dout: Tensor, chosen: Tensor | None = None
) -> list[Tensor | None]:
    """Gradients of a, b, v, readout, key_bias, row_bias and centre; None where there is nothing to receive one.

    chosen (g, n): of a drawn key, what its row takes out of -log p times dout, the gradient of the entropy.
    """
    a, b, v, dout = call.a, call.b, call.v, dout.contiguous()
    (g, n, d), m = a.shape, b.shape[1]
    if not (out.numel() and m):
        parts = (a, b, v, call.readout, call.key_bias, call.row_bias, call.centre)
        return [None if x is None else torch.zeros_like(x) for x in parts]
    tables = Tables(call, True)
    sizes = sizes_of(call, tables, True)
    programs = programs_once(call, tables) if chosen is None else 0
    if programs:
        sizes = {name: size for name, size in sizes.items() if name != "maxnreg"} | _tiles(call, "once")
    together = call.core != DOT and call.group > 1  # summed in memory, head by head
    summed = call.core != DOT or call.key_bias is not None or call.row_bias is not None
    da, dv = torch.empty_like(a), torch.empty_like(v)
    db = torch.empty_like(b, dtype=torch.float32 if together else b.dtype)
    # A normalised row's ds sum to 0, and are not summed: what fp32 leaves of the sum is error alone.
    zero = call.align != SIGMOID and chosen is None
    by_row = by_key = moved = reads = scratch = tau  # kernels want a pointer even where they write nothing
    delta, read = chosen, call.core != DOT
    if summed:
        by_row, by_key = torch.zeros_like(tau) if zero else torch.empty_like(tau), tau.new_empty((g, m))
    if call.centre is not None:
        moved = torch.empty_like(tau)
    if delta is None:
        delta = torch.empty_like(tau)
    if read:
        reads = tau.new_empty((g, -(-(m if programs else n) // sizes["BM"]), tables.dp))
    readout = call.readout.float().contiguous() if read and call.readout is not None else a
    normed = call.align == SOFTMAX and chosen is None and rows.shape[0] == 2
    t, norm = (rows[0], rows[-1]) if call.align == SOFTMAX and chosen is None else (tau, tau)
    mean = rows if call.align > SIGMOID else out
    if not mean.numel():  # the forward was told that nothing trains
        mean = forward(replace(call, trains=True))[3]
    totals = others = tau
    if programs:
        totals = tau.new_zeros((programs, g, tables.strides[0], tables.dp))
        others = tau.new_empty((programs, b.shape[0], sizes["BM"] // HELD.value, sizes["BN"], tables.dp))
        if call.align != SIGMOID:
            delta = (dout.float() * mean).sum(-1)
    (left, right), scale, strides = _where(call)
    bend, linear = {DOT: (call.scale, 0.0), TANH: (4.0, 0.0)}.get(call.core, (call.bent, call.linear))
    own, keys, seed = tables.own, tables.keys, noise_of(call)
    most = programs or -(-max(n, m) // sizes["BM"])
    if read:
        scratch = tau.new_empty((g, most, sizes["BM"], sizes["BN"]))
    lengths, keep = or_other(call.ranges.lengths, a), or_other(call.ranges.keep, a)
    spans = ((call.low, call.high),) * 2
    if call.low is not None and call.high is not None:
        spans = (call.low, call.high), keys_spans(call.low, call.high, m)
    values = (dout, v)
    if call.core != DOT and v.dtype == torch.float32:
        values = in_parts(dout), in_parts(v)
    for side in (1,) if programs else (0, 1):
        x, y = (a, b)[side], (b, a)[side]
        both = [pair if side == 0 else pair[::-1] for pair in (tables.across, tables.along, values)]
        lines = tables.strides if side == 0 else tables.strides[::-1]
        sizes |= {"OWNED": (own, keys)[side] is not None, "BIASED": (keys, own)[side] is not None}
        lists = listed(call, live, (left, right), side == 1)
        blocks = -(-x.shape[1] // sizes["BM"])
        for first in range(0, blocks, most):
            pull_kernel[min(most, blocks - first), x.shape[0]](
                x, y, *both[0], *both[1], tables.readout, readout, tables.modes,
                or_other((own, keys)[side], a), or_other((keys, own)[side], a), *both[2], t, delta, norm, mean, *lists,
                lengths, keep, *(or_other(x, a) for x in spans[side]), seed, or_other(call.centre, a), scratch, others,
                totals, (da, db)[side], dv, (by_row, by_key)[side], reads, moved, first, n, m, left, right, scale,
                call.narrow * LOG2E, call.dropout, bend, linear, *strides, *lines, call.power,
                BELL=call.centre is not None, CHOSEN=chosen is not None, ALIGN=call.align, KEYS=side == 1,
                READ=read and (side == 0 or programs > 0), BOTH=programs > 0, GROUPED=call.group > 1,
                DROPPED=call.seed is not None, NORMED=normed, SUMMED=summed and (side == 1 or not zero),
                **sizes,
            )  # fmt: skip
    if programs:
        da = (totals.sum(0)[:, :n, :d] * (bend * readout)[:, None]).to(a.dtype)
    shared = by_key.view(b.shape[0], call.group, m) if summed else by_key  # of each head that shares a key
    dreadout = None
    if read:
        assert call.readout is not None
        total = reads.sum(1)[:, :d]
        if call.core == TANH:
            dreadout = 2 * total
        else:
            sums = torch.einsum("kmd,khm->khd", b.float(), shared).flatten(0, 1)
            if not (zero or programs):
                sums += torch.einsum("gnd,gn->gd", a.float(), by_row)
            dreadout = call.bent * total + call.linear * sums
        dreadout = dreadout.to(call.readout.dtype)
    dkeys = None if call.key_bias is None else by_key if call.group == 1 else shared.sum(1)
    dcentre = None if call.centre is None else 2 * call.narrow * moved
    return [da, db.to(b.dtype), dv, dreadout, dkeys, None if call.row_bias is None else by_row, dcentre]


def programs_once(call: Call, tables: Tables) -> int:
    """Programs of a head of keys that hand pairs' gradients to both sides in one walk; 0: each side walks by itself.

    Each has a table for all queries of its heads, ROOMY bytes in all at most. Where a quarter of that is enough there
    is one for each block of keys; else as many as run at once, launched again for the blocks that are left.
    """
    summed = call.linear != 0 or call.row_bias is not None  # over keys: by the queries' side alone, unless it is 0
    if call.core == DOT or (summed and call.align == SIGMOID) or call.centre is not None:
        return 0
    tiles = _tiles(call, "once")
    table = 4 * call.a.shape[0] * tables.strides[0] * tables.dp
    programs = blocks = -(-call.b.shape[1] // tiles["BM"])
    if 4 * blocks * table > ROOMY:
        launches = -(-blocks // max(1, AT_ONCE // tiles["num_warps"] // call.b.shape[0]))
        programs = -(-blocks // launches)
    return programs if programs * table <= ROOMY else 0


def or_other(x: Tensor | None, other: Tensor) -> Tensor:
    """A kernel wants a pointer even where it reads nothing."""
    return other if x is None else x
