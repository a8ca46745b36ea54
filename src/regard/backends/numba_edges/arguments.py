"""The arguments of the operators of edges-cpu, each described once; numba is not imported here."""

from typing import NamedTuple

from torch import Tensor


class EdgeCpuArguments(NamedTuple):
    """Of `regard::edges_cpu`, in the order of its schema."""

    a: Tensor  # (g, n, w), g = batch x heads
    b: Tensor  # (g, m, w)
    v: Tensor  # (g, m, d_v)
    readout: Tensor | None  # (g, w), of a pair
    key: Tensor | None  # (g, E, w) by edge id: what an edge adds to its key or multiplies it with
    value: Tensor | None  # (g, E, d_v) by edge id: what it adds to its value; the last that receives a gradient
    edges: list[Tensor]  # start, source, edge and, for gradients, the same by source: start, target, slot
    seed: Tensor | None  # of dropout
    heads: int
    top: int  # keys of a row, of top-k
    way: str  # a word each: dot or the activation, the alignment, how an edge's key joins that of its source
    numbers: list[float]  # slope; scale of a dot, or a readout alike everywhere; bias of the sigmoid; dropout


DIFFERENTIABLE = 6  # a to value
