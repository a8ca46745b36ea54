"""Structures: each predicate against a double loop, its spans, and how structures join."""

import itertools
from collections.abc import Callable

import pytest
import torch
from tests.core.mechanisms import inputs
from tests.core.memory import Largest
from torch.testing import assert_close

from regard import Causal, Full, Mask, Padding, Segments, Structure, Window, attend
from regard.core.lowering.tiles import Tile
from regard.core.structures import PredictedWindow

Predicate = Callable[[int, int, int, int], bool]  # batch, head, query, key


def keep_of(structure: Structure, n: int, m: int) -> torch.Tensor:
    """(batch * heads, n, m) for two items of two heads."""
    fitted = structure.fit((2,), 2, n, m)
    keep = fitted.allowed(Tile.whole(2, 2, n, m, torch.device("cpu")))
    return torch.ones(4, n, m, dtype=torch.bool) if keep is None else keep.expand(4, n, m)


def looped(rule: Predicate, n: int, m: int) -> torch.Tensor:
    return (
        torch.tensor([[[rule(g // 2, g % 2, i, j) for j in range(m)] for i in range(n)] for g in range(4)])
        .reshape(4, n, m)
        .bool()
    )


def shift(align: str | None, n: int, m: int) -> int:
    return m - n if align == "end" else 0


def window(left: int, right: int, step: int, align: str | None, n: int, m: int) -> Predicate:
    near = {step * x for x in range(-left, right + 1)}
    return lambda b, h, i, j: j - i - shift(align, n, m) in near


def grid(left: int, right: int, step: int, width: int) -> Predicate:
    near = {step * x for x in range(-left, right + 1)}
    return lambda b, h, i, j: j // width - i // width in near and j % width - i % width in near


SIZES = [(5, 5), (3, 7), (7, 3), (1, 4), (4, 1), (2, 9)]
CASES: list[tuple[Structure, int, int, Predicate]] = [(Full(), 3, 4, lambda b, h, i, j: True)]
for _n, _m in SIZES:
    for _align in ("start", "end") if _n != _m else (None, "start", "end"):
        _s = shift(_align, _n, _m)
        CASES.append((Causal(_align), _n, _m, lambda b, h, i, j, s=_s: j <= i + s))
        for _left, _right, _step in [(0, 0, 1), (1, 2, 1), (2, 0, 2), (1, 1, 3), (9, 9, 1)]:
            CASES.append(
                (Window(_left, _right, _step, align=_align), _n, _m, window(_left, _right, _step, _align, _n, _m))
            )
for _left, _right, _step in [(0, 0, 1), (1, 1, 1), (0, 1, 2), (1, 0, 2), (5, 5, 1)]:
    CASES.append((Window(_left, _right, _step, grid=(3, 4)), 12, 12, grid(_left, _right, _step, 4)))
    CASES.append((Window(_left, _right, _step, grid=(1, 7)), 7, 7, grid(_left, _right, _step, 7)))
CASES.append((Padding(torch.tensor([4, 0])), 3, 4, lambda b, h, i, j: j < (4, 0)[b]))
CASES.append((Padding(torch.tensor(2)), 3, 4, lambda b, h, i, j: j < 2))
_ids = torch.tensor([[0, 0, 1, 1, 4], [2, 1, 1, 2, 0]])
CASES.append((Segments(_ids[0]), 5, 5, lambda b, h, i, j: bool(_ids[0, i] == _ids[0, j])))
CASES.append((Segments(_ids), 5, 5, lambda b, h, i, j: bool(_ids[b, i] == _ids[b, j])))
CASES.append((Segments(_ids[1, :3], key_ids=_ids[0]), 3, 5, lambda b, h, i, j: bool(_ids[1, i] == _ids[0, j])))
CASES.append((Segments(_ids[1, :3], key_ids=_ids[1]), 3, 5, lambda b, h, i, j: bool(_ids[1, i] == _ids[1, j])))
CASES.append((Segments(_ids[0], count=6), 6, 5, lambda b, h, i, j: i == int(_ids[0, j])))
CASES.append((Segments(_ids, count=5), 5, 5, lambda b, h, i, j: i == int(_ids[b, j])))
_keep = torch.rand(2, 2, 3, 4, generator=torch.Generator().manual_seed(0)) > 0.5
CASES.append((Mask(keep=_keep), 3, 4, lambda b, h, i, j: bool(_keep[b, h, i, j])))
CASES.append((Mask(keep=_keep[:, :1]), 3, 4, lambda b, h, i, j: bool(_keep[b, 0, i, j])))
CASES.append((Mask(keep=_keep[0]), 3, 4, lambda b, h, i, j: bool(_keep[0, h, i, j])))
CASES.append((Mask(keep=_keep[0, 0]), 3, 4, lambda b, h, i, j: bool(_keep[0, 0, i, j])))
CASES.append((Mask(keep=_keep[0, 0, 0]), 3, 4, lambda b, h, i, j: bool(_keep[0, 0, 0, j])))
CASES.append((Mask(keep=_keep[:, :1, :1]), 3, 4, lambda b, h, i, j: bool(_keep[b, 0, 0, j])))
CASES.append((Mask(keep=_keep[..., :1]), 3, 4, lambda b, h, i, j: bool(_keep[b, h, i, 0])))
CASES.append((Causal() & Padding(torch.tensor([3, 5])), 5, 5, lambda b, h, i, j: j <= i and j < (3, 5)[b]))
CASES.append(
    (Window(2, 0) & Segments(_ids), 5, 5, lambda b, h, i, j: 0 <= i - j <= 2 and bool(_ids[b, i] == _ids[b, j]))
)
for _left, _right in ((4, -1), (-1, 4), (3, -3)):  # not itself; exactly one place
    CASES.append((Window(_left, _right), 5, 5, lambda b, h, i, j, lo=-_left, hi=_right: lo <= j - i <= hi))
CASES.append(
    (
        Causal("end") & Window(1, 1, align="end") & Padding(torch.tensor([1, 7])),
        3,
        7,
        lambda b, h, i, j: j <= i + 4 and abs(j - i - 4) <= 1 and j < (1, 7)[b],
    )
)
NAMED = pytest.mark.parametrize(("structure", "n", "m", "rule"), CASES, ids=[f"{s} {n}x{m}" for s, n, m, _ in CASES])


@NAMED
def test_a_predicate_equals_its_sentence_pair_by_pair(structure: Structure, n: int, m: int, rule: Predicate) -> None:
    expected = looped(rule, n, m)
    assert (keep_of(structure, n, m) == expected).all()
    q, k, v = inputs(n, m)
    weights = attend(q, k, v, over=structure).map.weights()
    assert ((weights > 0) == expected.unflatten(0, (2, 2))).all()


@NAMED
def test_a_span_never_leaves_an_allowed_column_out(structure: Structure, n: int, m: int, rule: Predicate) -> None:
    fitted, keep = structure.fit((2,), 2, n, m), looped(rule, n, m)
    for g, h in itertools.combinations(range(5), 2):
        for first, last in itertools.combinations(range(n + 1), 2):
            start, stop = fitted.span(2, slice(g, h), slice(first, last), n, m)
            assert 0 <= start <= stop <= m
            block = keep[g:h, first:last].clone()
            block[..., start:stop] = False
            assert not block.any()


def test_a_window_that_the_query_places_has_spans_that_hold() -> None:
    centre = torch.tensor([[0.0, 3.7, 8.99], [2.5, 2.5, 2.5]])
    around = PredictedWindow(centre, 2, 1)
    keep = around.allowed(Tile.dense(1, 3, 10, torch.device("cpu"), slice(0, 2), slice(0, 3), slice(0, 10)))
    assert_close(keep, (torch.arange(10) - centre.floor()[..., None]).abs() <= 2)
    for g, first in itertools.product(range(2), range(3)):
        start, stop = around.span(1, slice(g, g + 1), slice(first, first + 1), 3, 10)
        assert not keep[g, first, :start].any()
        assert not keep[g, first, stop:].any()


def test_spans_of_windows_and_causality_are_as_narrow_as_they_can_be() -> None:
    assert Causal().span(1, slice(0, 1), slice(2, 4), 9, 9) == (0, 4)
    assert Window(2, 1).span(1, slice(0, 1), slice(4, 6), 9, 9) == (2, 7)
    assert Window(1, 1, grid=(4, 5)).span(1, slice(0, 1), slice(5, 10), 20, 20) == (0, 15)
    packed = Segments(torch.tensor([0, 0, 1, 1, 1, 2])).fit((1,), 1, 6, 6)
    assert packed.span(1, slice(0, 1), slice(2, 5), 6, 6) == (2, 5)


def test_one_query_at_the_end_sees_every_key_and_at_the_start_the_first() -> None:
    q, k, v = inputs(n=1)
    assert_close(attend(q, k, v, over=Causal("end")).out, attend(q, k, v).out)
    assert_close(attend(q, k, v, over=Causal("start")).out, v[:, :, :1])


def test_packed_sequences_equal_separate_ones() -> None:
    q, k, v = inputs(n=9, m=9)
    ids = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2])
    packed = attend(q, k, v, over=Segments(ids) & Causal()).out
    for part in (slice(0, 3), slice(3, 5), slice(5, 9)):
        assert_close(packed[:, :, part], attend(q[:, :, part], k[:, :, part], v[:, :, part], over=Causal()).out)


def test_packed_cross_attention_equals_separate_pairs() -> None:
    q, k, v = inputs(n=4, m=7)
    packed = attend(q, k, v, over=Segments(torch.tensor([0, 0, 1, 1]), key_ids=torch.tensor([1, 1, 1, 0, 0, 1, 0]))).out
    for rows, cols in (([0, 1], [3, 4, 6]), ([2, 3], [0, 1, 2, 5])):
        assert_close(packed[:, :, rows], attend(q[:, :, rows], k[:, :, cols], v[:, :, cols]).out)


def test_pooling_takes_unsorted_ids_and_leaves_empty_segments_zero() -> None:
    q, k, v = inputs(n=4, m=7)
    ids = torch.tensor([2, 0, 2, 3, 0, 0, 2])  # nobody in segment 1
    pooled = attend(q, k, v, over=Segments(ids, count=4)).out
    for c in range(4):
        members = (ids == c).nonzero()[:, 0]
        expected = attend(q[:, :, c : c + 1], k[:, :, members], v[:, :, members]).out[:, :, 0]
        assert_close(pooled[:, :, c], expected)
    assert (pooled[:, :, 1] == 0).all()


def test_a_batch_of_many_axes_takes_lengths_ids_and_masks_of_the_same_axes() -> None:
    q, k, v = (x.detach().unflatten(0, (3, 2)) for x in inputs(n=5, m=5, batch=6))
    lengths = torch.tensor([[5, 1], [2, 3], [4, 5]])
    ids = torch.randint(0, 2, (3, 2, 5), generator=torch.Generator().manual_seed(0))
    keep = torch.rand(3, 1, 1, 5, 5, generator=torch.Generator().manual_seed(1)) > 0.3
    for whole, part in (
        (Padding(lengths), lambda a, b: Padding(lengths[a, b : b + 1])),
        (Segments(ids), lambda a, b: Segments(ids[a, b])),
        (Mask(keep=keep), lambda a, b: Mask(keep=keep[a, 0])),
        (Causal() & Padding(lengths), lambda a, b: Causal() & Padding(lengths[a, b : b + 1])),
    ):
        out = attend(q, k, v, over=whole).out
        for a, b in itertools.product(range(3), range(2)):
            alone = attend(*(x[a, b][None] for x in (q, k, v)), over=part(a, b)).out[0]
            assert_close(out[a, b], alone)


def test_joining_is_intersection_in_any_order_and_full_is_its_unit() -> None:
    q, k, v = inputs(n=5, m=5)
    a, b, c = Causal(), Padding(torch.tensor([3, 5])), Mask(keep=torch.rand(5, 5, generator=torch.Generator()) > 0.3)
    first = attend(q, k, v, over=a & b & c).out
    for other in (c & (b & a), (a & c) & b, Full() & a & b & c & Full()):
        assert_close(attend(q, k, v, over=other).out, first)
    assert isinstance(Full() & Full(), Full)
    assert (a & Full()) is a


def test_a_structure_prints_what_it_allows() -> None:
    assert str(Causal("end")) == "Causal(align=end)"
    assert (
        str(Window(2, 0) & Padding(torch.tensor([3, 5])))
        == "Window(left=2, right=0, dilation=1) & Padding(lengths=(2,))"
    )


WIDE = [Causal(), Window(3, 3), Window(1, 1, grid=(64, 64)), Segments(torch.arange(4096) // 64)]


@pytest.mark.parametrize("over", WIDE, ids=str)
def test_no_tensor_of_all_pairs_is_made(over: Structure) -> None:
    q, k, v = (x.detach().float() for x in inputs(n=4096, m=4096, batch=1, heads=1))
    with Largest() as largest:
        attend(q, k, v, "additive", "sparsemax", over=over)
    assert 0 < largest.elements < 4096 * 4096 // 4
