"""Every backend gives what the reference gives: the oracle, sampled by default and whole with -m exhaustive."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import Phase, example, given, settings
from tests.oracle import ALIGNMENTS, DTYPES, SCORES, SMALL_BLOCKS, Case, disagreements, every_case, plans, small_blocks

from regard import Edges, attend

FOUND_IS_SMALL = (Phase.explicit, Phase.generate)  # a case is seven words: making it simpler would take minutes


@pytest.mark.parametrize("dtype", DTYPES, ids=str)  # the same cases in each; a third each, so that workers share them
@settings(max_examples=150, phases=FOUND_IS_SMALL)
@given(case=plans())
@example(case=Case(score="scaled dot | sink", align="top-99", over="edges", size="m=1"))  # more edges than keys
@example(case=Case(score="additive | soft cap | relative bias | sink", align="top-3", size="m=0"))
@example(case=Case(score="own", size="odd", heads="4 on 2"))
@example(case=Case(score="own | soft cap | sink", align="hard, drawn", over="segments to pool"))  # empty rows
@example(case=Case(score="gaussian | own | sink", align="local predictive", over="padding", size="odd, n=m"))
@example(case=Case(score="location", align="sigmoid", over="edges with loops", size="n<m"))  # places, not slots
@example(case=Case(score="gat", align="uniform", over="edges", dropout=0.3))
@example(case=Case(over="segments by item", size="n=0"))
def test_every_backend_agrees_with_the_reference(case, dtype):
    assert disagreements(case, (dtype,)) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize(("score", "align"), list(product(SCORES, ALIGNMENTS)))
def test_every_backend_agrees_with_the_reference_everywhere(score, align):
    broken = {case: lines for case in every_case(score, align) if (lines := disagreements(case))}
    assert broken == {}


def test_a_wrong_backend_is_noticed(monkeypatch):
    """The oracle itself: a weight that is off by one part in a thousand breaks the rule in all three precisions."""
    case = Case(score="additive", align="sparsemax", over="causal & padding", size="odd, n=m")
    assert disagreements(case) == []
    from regard.core.lowering import blockwise as evaluate

    right = evaluate.average
    monkeypatch.setattr(evaluate, "average", lambda *args: right(*args) * 1.001)
    assert any("output out of chunked in torch.float64" in line for line in disagreements(case))
    assert any("output out of chunked in torch.float32" in line for line in disagreements(case))
    monkeypatch.setattr(evaluate, "average", lambda *args: right(*args) * 1.05)
    assert any("output out of chunked in torch.bfloat16" in line for line in disagreements(case))


def test_hardly_a_row_goes_without_a_say():
    """Rows near a jump are left out of the comparison: none in fp64, hardly any in fp32, a part in bf16."""
    for align in ("hard", "top-3", "straight-through", "sparsemax", "relu"):
        long, short = Case(align=align, size="odd"), Case(align=align)
        assert long.decided(torch.float64).all()
        assert long.decided(torch.float32).double().mean() > 0.99
        assert short.decided(torch.bfloat16).double().mean() > 0.2
    assert Case().decided(torch.bfloat16).all()


@pytest.mark.parametrize("way", ["reference", "chunked", SMALL_BLOCKS, "sdpa", "linear"])
def test_nothing_is_read_before_it_is_written(way):
    """Fresh memory is filled with NaN: the same numbers come out, bit for bit."""
    cases = [Case(), Case(score="linear kernel"), Case(score="linear kernel", over="causal & padding", size="odd, n=m")]
    cases += [
        Case(score, align, over, "odd, n=m", dropout=dropout)
        for score, align, over, dropout in (
            ("additive | soft cap | relative bias | sink", "top-3", "causal & padding", 0.0),
            ("dot by feature | alibi | sink", "hard, drawn", "edges", 0.3),
            ("gaussian | own | sink", "entmax, learned", "mask by head", 0.0),
            ("trilinear", "local predictive", "edges with loops", 0.3),
            ("query-free by feature", "relu", "segments", 0.0),
        )
    ]
    ran = 0
    for case in cases:
        if way not in ("reference", *case.ways(torch.float32)):
            continue
        say = torch.ones(1, 1, 1, 1)
        plain = case.outcome(torch.float32, way, say)
        with _Poisoned():
            poisoned = case.outcome(torch.float32, way, say)
        for (_, one), (_, other) in zip(plain.kinds(), poisoned.kinds(), strict=True):
            for name in one:
                assert torch.equal(one[name], other[name]), (case, name)
        ran += 1
    assert ran


class _Poisoned:
    def __enter__(self) -> None:
        torch.use_deterministic_algorithms(True)
        assert torch.utils.deterministic.fill_uninitialized_memory
        assert torch.empty(8).isnan().all()

    def __exit__(self, *_: object) -> None:
        torch.use_deterministic_algorithms(False)


@settings(max_examples=60, phases=FOUND_IS_SMALL)
@given(plans())
def test_the_map_holds_the_weights_of_the_definition(case):
    """Values that are one-hot in the keys read the weights out of the reference; the lazy map has the same."""
    inputs = case.inputs(torch.float64)
    if isinstance(inputs.over, Edges):  # an edge's own value would be read with its weight
        inputs = inputs._replace(over=replace(inputs.over, value=None))
    result = attend(*inputs, backend="reference", **case.options)
    weights = result.map.weights(dropout=True)
    m = inputs.k.shape[-2]
    for j in range(m):
        one_hot = torch.zeros_like(inputs.v)
        one_hot[..., j, :] = 1.0
        read = attend(*inputs._replace(v=one_hot), backend="reference", **case.options).out  # (..., n, d_v or F)
        mine = weights[..., j].movedim(-2, -1) if weights.ndim == 5 else weights[..., j, None]
        torch.testing.assert_close(mine.expand_as(read), read.detach(), rtol=0, atol=1e-12)
    with small_blocks():
        in_blocks = attend(*inputs, backend="reference", **case.options).map.weights(dropout=True)
    torch.testing.assert_close(in_blocks, weights, rtol=0, atol=1e-12)
