"""Constants of one kernel call and the tables that it reads, as numba takes them."""

from typing import Any, NamedTuple

import numpy as np

PAIR, DOT = 0, 1
LEAKY, TANH = 0, 1
SOFTMAX, SPARSEMAX, ENTMAX, SIGMOID, UNIFORM, TOPK = 0, 1, 2, 3, 4, 5
ALIGNMENTS = {
    "softmax": SOFTMAX,
    "sparsemax": SPARSEMAX,
    "entmax": ENTMAX,
    "sigmoid": SIGMOID,
    "uniform": UNIFORM,
    "topk": TOPK,
}
ADD, MUL = 1, 2  # how an edge's key joins that of its source
BATCH = 256  # edges that are handled together, whole rows of them
PREFETCH_AHEAD = 8  # edges between a prefetch and its use
NEWTON_STEPS = 24  # to a threshold, as in core.alignments.sparse
f32 = np.float32
ZERO, HALF, ONE, TWO = f32(0), f32(0.5), f32(1), f32(2)  # typed: a literal would make fp32 sums fp64


class KernelConfig(NamedTuple):
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
    apart: bool  # whether a row's largest score and the rest of its tau are kept apart: their sum is rounded
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
    """Pieces of work, see `cut_into_pieces`."""

    row: Any
    first: Any
    last: Any
    place: Any
