"""A call of the dense kernels: what they are compiled for, the sizes of their tiles, and what all of them are given."""

from math import log
from typing import Any

import torch
from torch import Tensor

from regard.core.lowering.kernel_forms import EXPONENTIAL, SIGMOID

from ..common.pair_scores import HELD
from ..common.pair_tables import DOT, PairTables, least_width, padded
from ..runtime.device_support import A100_TILES_KIB, H100_TILES_KIB, shared_memory_kib
from ..runtime.launch_replay import record_op
from ..runtime.triton_private import INTERPRETED
from .arguments import DenseArguments
from .tile_sizes import side_of

AT_ONCE = 132 * 16  # warps that an H200 runs, where a thread has 128 registers
TABLE_BYTES = 1 << 30
SMALL = 8.0  # what a sigmoid takes from scores that weights are small: as of 3,000 keys
NARROW = 2048  # tiles of fewer rows look at fewer keys that a window leaves out


def sizes_of(call: DenseArguments, tables: PairTables, turn: str) -> dict[str, Any]:
    """What kernels are compiled for: forward, backward (of queries), keys (theirs), once (both in one walk).

    fp32 is three parts of 8 bits, six products on tensor cores: as exact as fp32 but for what those cut off.
    """
    d, d_v, full = call.a.shape[2], call.v.shape[2], call.v.dtype == torch.float32
    return {
        "CORE": call.core,
        "D": d,
        "DP": tables.dp,
        "WIDTH": tables.width,
        **_tiles(call, turn),
        "OWNED": tables.own is not None,
        "BIASED": tables.biased,
        "PADDED": call.ranges.lengths is not None,
        "KEPT": call.ranges.keep is not None,
        "SPANNED": call.low is not None,
        "PRECISION": "bf16x6" if full else "ieee",
        "INTERPRETED": INTERPRETED,
        "DV" if turn == "forward" else "DVW": d_v,
        "DVP": padded(d_v, least_width(call.core, call.v.dtype, d, d_v)),
    }


# Rows and columns of a tile, warps, stages, registers of a thread (None: as many as it likes); measured on an H200.
# Tiles of sparse alignments are square, since both sides of the backward share the list of those that hold weights.
TILES: dict[tuple[str, str], tuple[int, int, int, int, int | None]] = {
    ("dot", "forward"): (128, 64, 8, 3, None),
    ("dot", "backward"): (64, 64, 4, 3, None),
    ("dot", "keys"): (64, 128, 4, 2, 255),
    ("biased dot", "forward"): (128, 64, 8, 3, 128),  # of a softmax: more registers would leave one block alone
    ("biased dot", "backward"): (128, 64, 8, 3, 128),
    ("biased dot", "keys"): (64, 128, 4, 2, 255),
    ("narrow dot", "forward"): (64, 64, 4, 3, 128),  # of a softmax over windows up to NARROW
    ("narrow dot", "backward"): (64, 64, 4, 3, None),
    ("narrow dot", "keys"): (64, 64, 4, 3, None),
    ("sigmoid", "forward"): (128, 64, 4, 3, None),  # of a dot
    ("small sigmoid", "forward"): (128, 64, 8, 3, 128),  # whose weights are
    ("sigmoid", "backward"): (128, 64, 8, 3, 128),
    ("sigmoid", "keys"): (64, 128, 4, 2, 255),
    ("dot", "sparse"): (64, 64, 4, 3, None),
    ("wide dot", "forward"): (128, 64, 8, 3, None),  # heads over 64
    ("wide dot", "backward"): (128, 32, 8, 3, 128),
    ("wide dot", "keys"): (64, 64, 4, 2, None),
    ("wide sigmoid", "forward"): (128, 32, 8, 3, 128),
    ("wide sigmoid", "backward"): (128, 32, 8, 3, 128),
    ("wide sigmoid", "keys"): (64, 32, 4, 4, None),
    ("huge dot", "forward"): (128, 32, 8, 3, None),  # heads over 128
    ("huge dot", "backward"): (128, 32, 8, 3, None),
    ("huge dot", "keys"): (64, 64, 8, 2, None),
    ("widest dot", "forward"): (64, 64, 4, 2, None),  # wide for the shared memory that there is
    ("widest dot", "backward"): (64, 64, 4, 2, None),
    ("widest dot", "keys"): (64, 64, 4, 2, None),
    ("wide dot", "sparse"): (64, 64, 4, 2, None),
    ("modified dot", "forward"): (128, 64, 8, 3, None),  # whose scores have modifiers: compiled, not yet measured
    ("modified dot", "backward"): (64, 64, 4, 3, None),
    ("modified dot", "keys"): (64, 64, 8, 2, None),
    ("wide modified dot", "forward"): (128, 64, 8, 2, None),
    ("wide modified dot", "backward"): (64, 64, 8, 2, None),
    ("wide modified dot", "keys"): (64, 64, 8, 2, None),
    ("fp32 dot", "forward"): (64, 64, 4, 2, None),
    ("fp32 dot", "backward"): (64, 64, 4, 2, None),
    ("fp32 dot", "keys"): (64, 64, 4, 2, None),
    ("fp32 dot", "sparse"): (64, 64, 4, 2, None),
    ("pair", "forward"): (64, 128, 8, 2, 128),
    ("widest pair", "forward"): (64, 64, 8, 2, 128),  # values over 128
    ("pair", "backward"): (32, 64, 4, 2, 128),
    ("pair", "once"): (32, 64, 4, 2, 128),  # both sides of the backward in one walk
    ("pair", "sparse"): (64, 64, 8, 2, 128),
    ("fp32 pair", "forward"): (32, 64, 4, 2, 128),
    ("fp32 pair", "backward"): (32, 64, 4, 2, 128),
    ("fp32 pair", "once"): (32, 64, 4, 2, 128),
    ("fp32 pair", "sparse"): (64, 64, 8, 2, 128),
}


def _kind(call: DenseArguments, turn: str) -> tuple[str, str]:
    """Whose tiles a call has."""
    sparse, width = call.align > SIGMOID, max(call.a.shape[2], call.v.shape[2])
    turn = "sparse" if sparse else turn
    if call.v.dtype == torch.float32:
        return "fp32 dot" if call.core == DOT else "fp32 pair", turn
    if call.core != DOT:
        return "widest pair" if turn == "forward" and call.v.shape[2] > 128 else "pair", turn
    if sparse:
        return "wide dot" if width > 64 else "dot", turn
    beside = (call.key_bias, call.row_bias, call.seed, call.centre, call.low)  # which want shared memory too
    full = any(x is not None for x in beside) if turn == "backward" else turn == "keys" and call.group > 1
    if width > 128 and shared_memory_kib(call.a.device) >= H100_TILES_KIB and not full and not call.modifiers:
        return "huge dot", turn
    if width > 128 or (width > 64 and shared_memory_kib(call.a.device) < A100_TILES_KIB):
        return "widest dot", turn
    if call.modifiers:
        return "wide modified dot" if width > 64 else "modified dot", turn
    if call.align == SIGMOID:
        if width > 64:
            return "wide sigmoid", turn
        return "small sigmoid" if turn == "forward" and _small(call) else "sigmoid", turn
    if width > 64:
        return "wide dot", turn
    if call.ranges.left + call.ranges.right < NARROW:
        return "narrow dot", turn
    return "dot" if call.key_bias is None else "biased dot", turn


def _small(call: DenseArguments) -> bool:
    """Whether most weights of a sigmoid are known to be small: of many keys, or by its bias."""
    if call.align != SIGMOID or call.core != DOT or call.v.dtype != torch.bfloat16 or call.seed is not None:
        return False
    seen = min(call.b.shape[1], call.ranges.left + call.ranges.right + 1)
    return (log(max(1, seen)) if call.bias is None else -call.bias) >= SMALL


def small_weights_at_a_time(call: DenseArguments, sizes: dict[str, Any]) -> int:
    """How many of a sigmoid's small weights a thread has at a time, 16 or 32; 0 where they are not, or fewer."""
    each = sizes["BLOCK_M"] * sizes["BLOCK_N"] // (32 * sizes["num_warps"])
    return min(32, each) if each >= 16 and _small(call) else 0


def _tiles(call: DenseArguments, turn: str) -> dict[str, int]:
    rows, columns, warps, stages, registers = TILES[_kind(call, turn)]
    side = side_of(call.a, call.v, call.core)
    if side < 64:
        rows, columns, warps, stages = side, side, 4, 1 if call.v.dtype == torch.float32 else 2
        registers = 255  # said, since else the assembler takes 32 of them
    held = rows * padded(call.a.shape[2]) // (32 * HELD.value)  # more warps would share what a thread sums for itself
    if call.core != DOT and turn != "forward" and held < warps:
        warps, registers = max(1, held), None
    made = {"BLOCK_M": rows, "BLOCK_N": columns, "num_warps": warps, "num_stages": stages}
    return made if registers is None else made | {"maxnreg": registers}


def bounds_and_strides(call: DenseArguments) -> tuple[tuple[int, ...], float, tuple[int, ...]]:
    """left and right; the scale; heads, how many share keys, and the strides of a key mask."""
    left, right, keep_b, keep_h = call.ranges.numbers(call.a.shape[1], call.b.shape[1])
    return (left, right), call.scale * call.unit, (call.heads, call.group, keep_b, keep_h)


def rows_shape(call: DenseArguments) -> tuple[int, ...]:
    if call.align == EXPONENTIAL:
        return 2 if call.v.dtype == torch.float32 else 1, *call.a.shape[:2]
    return (*call.a.shape[:2], call.v.shape[2]) if call.align > SIGMOID and call.trains else (0,)


def noise_of(call: DenseArguments) -> Tensor:
    """The seed of dropout's stream, where there is one."""
    return call.a if call.seed is None else record_op(torch.add, call.seed, 1)


def forward_arguments(call: DenseArguments, tables: PairTables, sizes: dict[str, Any]) -> tuple[Any, ...]:
    """Grid, vectors, marks and numbers of a forward kernel."""
    a, (g, n, _), m = call.a, call.a.shape, call.b.shape[1]
    (left, right), scale, strides = bounds_and_strides(call)
    bounds = (tables.own, tables.bias, call.ranges.lengths, call.ranges.keep, call.low, call.high)
    marks = (tables.readout, tables.modes, *(or_other(x, a) for x in bounds))
    numbers = (n, m, left, right, scale, *strides, *tables.strides)
    return (-(-n // sizes["BLOCK_M"]), g), (a, call.b, *tables.across), marks, numbers


def tiles_count(call: DenseArguments) -> int:
    """Of a sparse alignment, whether each holds weights is kept: of all heads in one row, since an axis that is now and
    then 1 long would be compiled for anew."""
    if call.align <= SIGMOID:
        return 0
    side = side_of(call.a, call.v, call.core)
    return call.a.shape[0] * -(-call.a.shape[1] // side) * -(-call.b.shape[1] // side)


def single_walk(call: DenseArguments, tables: PairTables) -> tuple[int, int, int]:
    """How pairs' gradients are handed to both sides in one walk: programs of a head of keys that run at a time, each as
    often as there are parts of the queries, and how long a part is. 0: each side walks by itself.

    Each program has a table for the queries of its part, of all its heads. Where tables for all blocks of keys are
    small, they run at a time and there is one part; else as many as a GPU runs, launched again for the blocks left.
    """
    summed = call.linear != 0 or call.row_bias is not None  # over keys: by the queries' side alone, unless it is 0
    if call.core == DOT or (summed and call.align == SIGMOID) or call.centre is not None:
        return 0, 1, 0
    tiles, places = _tiles(call, "once"), tables.strides[0]
    row, blocks = 4 * call.a.shape[0] * tables.dp, -(-call.b.shape[1] // tiles["BLOCK_M"])
    if blocks * row * places <= TABLE_BYTES // 16:
        return blocks, 1, places
    at_once, parts = max(1, AT_ONCE // tiles["num_warps"] // call.b.shape[0]), 1
    if call.align <= SIGMOID:  # lists of the tiles that hold weights are of all queries
        parts = min(-(-at_once * row * places // (3 * TABLE_BYTES // 8)), places // tiles["BLOCK_N"])
    reach = -(-places // (parts * tiles["BLOCK_N"])) * tiles["BLOCK_N"]
    parts = -(-places // reach)
    launches = -(-blocks // max(1, at_once // parts))
    programs = -(-blocks // launches)
    return (programs, parts, reach) if programs * parts * row * reach <= TABLE_BYTES else (0, 1, 0)


def or_other(x: Tensor | None, other: Tensor) -> Tensor:
    """A kernel wants a pointer even where it reads nothing."""
    return other if x is None else x
