"""No queries, no keys, or neither: every score, alignment and structure gives empty or zero, and a map to read."""

from collections.abc import Callable
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.mechanisms import ALIGNMENTS, APART, FEATURE_WISE, SCORES, built, inputs
from torch import Tensor

from regard import AttentionMap, Causal, Edges, Mask, Padding, Refused, Segments, Structure, Window, attend

STRUCTURES: dict[str, Callable[[int, int], Structure | None]] = {
    "full": lambda n, m: None,
    "causal": lambda n, m: Causal("end"),
    "window": lambda n, m: Window(1, 1, align="end"),
    "padding": lambda n, m: Padding(torch.tensor([m // 2, m])),
    "mask": lambda n, m: Mask(keep=torch.ones(n, m, dtype=torch.bool)),
    "segments": lambda n, m: Segments(torch.zeros(n).long(), key_ids=torch.zeros(m).long()),
    "both": lambda n, m: Causal("end") & Padding(torch.tensor([m // 2, m])),
    "edges": lambda n, m: Edges(torch.zeros(2, 0).long()),
    "loops": lambda n, m: Edges(torch.zeros(2, 0).long(), self_loops=True),
}
READS: dict[str, Callable[[AttentionMap], object]] = {
    "weights": lambda amap: amap.weights(),
    "one head": lambda amap: amap[1, 0].weights(),
    "row": lambda amap: amap.row(0) if amap.n else None,
    "column": lambda amap: amap.column(0) if amap.m else None,
    "tile": lambda amap: amap.tile(slice(0, 2), []),
    "topk": lambda amap: amap.topk(0, 2) if amap.n else None,
    "strongest": lambda amap: amap.strongest(2),
    "entropy": lambda amap: amap.entropy(),
    "mass": lambda amap: amap.mass(),
    "find": lambda amap: amap.find(0.1),
    "pyramid": lambda amap: amap.pyramid(),
    "find by the pyramid": lambda amap: amap.find(0.1),
    "edges": lambda amap: amap.edges(),
    "loops": lambda amap: amap.loops,
    "weights with a gradient": lambda amap: amap.weights(grad=True),
    "difference": lambda amap: (amap - amap).weights(),
}
SIZES = ((0, 3), (3, 0), (0, 0))
PAIRS = [pair for pair in product([*SCORES, *FEATURE_WISE], ALIGNMENTS) if pair not in APART]


def check(score: str, align: str, over: str, n: int, m: int, backend: str) -> None:
    tensors: list[Tensor] = inputs(n=n, m=m)
    try:
        out, amap = attend(*tensors, built(score), built(align), STRUCTURES[over](n, m), backend=backend)
    except Refused:
        return
    assert out.shape == (2, 2, n, 4) and not out.any()
    for found in torch.autograd.grad(out.sum(), tensors, allow_unused=True):
        assert found is None or not found.any()
    assert tuple(amap.weights().shape) == amap.shape and not amap.weights().any()
    for read in READS.values():
        try:
            read(amap)
        except Refused:  # edges of a map that has none, a gradient of a graph's matrix
            continue


@settings(max_examples=250)
@given(
    st.sampled_from(PAIRS),
    st.sampled_from([*STRUCTURES]),
    st.sampled_from(SIZES),
    st.sampled_from(["auto", "reference", "chunked"]),
)
def test_nothing_to_attend_or_nobody_who_does(
    pair: tuple[str, str], over: str, size: tuple[int, int], how: str
) -> None:
    check(*pair, over, *size, how)


@pytest.mark.parametrize("align", ALIGNMENTS)
def test_every_alignment_over_every_structure(align: str) -> None:
    for score, over, size in product(("scaled_dot", "additive"), STRUCTURES, SIZES):
        check(score, align, over, *size, "auto")
