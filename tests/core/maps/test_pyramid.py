"""Pyramids: mass, peak and count of every cell of every level, exactly, without a matrix of all pairs."""

import math

import pytest
import torch
from tests.core.mechanisms import ALIGNMENTS, SIMPLEX, built, inputs
from tests.core.memory import Largest
from torch import Tensor
from torch.testing import assert_close

from regard import AttentionMap, Causal, Edges, Padding, Structure, Window, attend
from regard.core.maps.pyramid import default_cell

N, M = 11, 13
OVERS: dict[str, Structure | None] = {
    "full": None,
    "causal": Causal("end"),
    "padded window": Window(2, 3, align="start") & Padding(torch.tensor([13, 6])),
    "edges": Edges(torch.randint(0, 11, (2, 40), generator=torch.Generator().manual_seed(0))),
}


def pooled(x: Tensor, side: int, how: str) -> Tensor:
    """Cell by cell, in Python."""
    r, c = math.ceil(x.shape[-2] / side), math.ceil(x.shape[-1] / side)
    cells = [[x[..., i * side : (i + 1) * side, j * side : (j + 1) * side] for j in range(c)] for i in range(r)]
    reduce = (lambda t: t.sum((-1, -2))) if how == "sum" else (lambda t: t.amax((-1, -2)))
    return torch.stack([torch.stack([reduce(cell) for cell in row], -1) for row in cells], -2)


def allowed(over: Structure | None) -> Tensor:
    """How many pairs stand at each place, from uniform weights: count times weight times row count."""
    if isinstance(over, Edges):
        count = torch.zeros(N, M, dtype=torch.long)
        for source, target in over.edge_index.T.tolist():
            count[target, source] += 1
        return count.expand(2, 2, N, M)
    q, k, v = (x.detach() for x in inputs(N, M))
    return (attend(q, k, v, align="uniform", over=over).map.weights() > 0).long()


@pytest.mark.parametrize("cell", [1, 2, 3, 8, 16])
@pytest.mark.parametrize("over", OVERS)
@pytest.mark.parametrize(("score", "align"), [("scaled_dot", "softmax"), ("additive_features", "entmax15")])
def test_every_cell_of_every_level_is_the_pool_of_the_matrix(score: str, align: str, over: str, cell: int) -> None:
    q, k, v = (x.detach() for x in inputs(N, M))
    amap = attend(q, k, v, built(score), built(align), OVERS[over]).map
    w, count = amap.weights(), allowed(OVERS[over])
    levels = amap.pyramid(cell).levels
    assert [level.size for level in levels] == [cell * 2**x for x in range(len(levels))]
    assert levels[-1].mass.shape[-2:] == (1, 1)
    for level in levels:
        assert_close(level.mass, pooled(w, level.size, "sum"))
        assert_close(level.peak, pooled(w, level.size, "max"))
        assert_close(level.count, pooled(count, level.size, "sum"))


@pytest.mark.parametrize("align", [a for a in ALIGNMENTS if a != "monotonic"])
def test_any_alignment_with_a_row_state_has_a_pyramid(align: str) -> None:
    q, k, v = (x.detach() for x in inputs(N, M))
    amap = attend(q, k, v, align=built(align), over=Causal("end"), sample=True, seed=0).map
    top = amap.pyramid(2).levels[-1]
    assert_close(top.mass[..., 0, 0], amap.weights().sum((-1, -2)))
    assert_close(top.peak[..., 0, 0], amap.weights().amax((-1, -2)))


@pytest.mark.parametrize("align", SIMPLEX)
def test_the_mass_of_a_band_of_rows_is_the_number_of_its_rows_that_see_a_key(align: str) -> None:
    q, k, v = (x.detach() for x in inputs(N, M))
    over = Padding(torch.tensor([13, 0]))
    amap = attend(q, k, v, align=built(align), over=over).map
    rows = torch.tensor([4.0, 4.0, 3.0], dtype=torch.float64)
    mass = amap.pyramid(4)[0].mass.sum(-1)
    assert_close(mass[0], rows.expand(2, 3))
    assert (mass[1] == 0).all()


def test_cells_above_the_diagonal_have_no_count_no_mass_and_no_peak() -> None:
    q, k, v = (x.detach() for x in inputs(16, 16))
    level = attend(q, k, v, over=Causal()).map.pyramid(4)[0]
    above = torch.ones(4, 4, dtype=torch.bool).triu(1)
    for part in (level.count, level.mass, level.peak):
        assert (part[..., above] == 0).all()
        assert (part[..., ~above] > 0).all()
    assert (level.count.diagonal(dim1=-2, dim2=-1) == 10).all()  # half a cell and its diagonal


def test_permuting_the_heads_permutes_the_pyramids() -> None:
    q, k, v = (x.detach() for x in inputs(N, M))
    one, two = (attend(*(x.flip(1) if flip else x for x in (q, k, v))).map.pyramid(4) for flip in (False, True))
    for a, b in zip(one.levels, two.levels, strict=True):
        assert_close(a.mass.flip(1), b.mass)


def test_one_head_has_the_pyramid_that_it_has_among_the_others() -> None:
    q, k, v = (x.detach() for x in inputs(N, M))
    amap = attend(q, k, v).map
    for a, b in zip(amap.pyramid(4).levels, amap[1, 0].pyramid(4).levels, strict=True):
        assert_close(a.mass[1, 0], b.mass)
        assert_close(a.peak[1, 0], b.peak)


@pytest.mark.parametrize("over", ["full", "causal", "edges"])
def test_find_on_a_pyramid_looks_only_where_a_peak_is_high_enough(over: str, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (5 * x.detach() for x in inputs(N, M))
    amap = attend(q, k, v, over=OVERS[over]).map
    w = amap.weights()
    amap.pyramid(2)
    looked, band = [], type(amap).band

    def watched(self: AttentionMap, rows: slice, cols: slice) -> Tensor:
        looked.append((rows, cols))
        return band(self, rows, cols)

    monkeypatch.setattr(type(amap), "band", watched)
    found = amap.find(0.9)
    assert_close(found.where, (w > 0.9).nonzero())
    assert 0 < sum((r.stop - r.start) * (c.stop - c.start) for r, c in looked) < N * M


def test_pyramid_without_a_cell_picks_one_that_keeps_it_small_and_is_kept() -> None:
    assert default_cell(100, 100) == 8
    assert default_cell(16384, 16384) == 16
    assert default_cell(131072, 131072) == 128
    q, k, v = (x.detach() for x in inputs(N, M))
    amap = attend(q, k, v).map
    assert amap.pyramid() is amap.pyramid()
    assert amap.pyramid(2) is not amap.pyramid(4)
    assert amap.pyramid(4).bytes == sum(
        x.nbytes for level in amap.pyramid(4).levels for x in (level.mass, level.peak, level.count)
    )


@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_a_pyramid_of_4096_tokens_never_makes_a_tensor_of_all_pairs(score: str) -> None:
    q, k, v = (x.detach().float() for x in inputs(4096, 4096, batch=1, heads=1))
    amap = attend(q, k, v, score, over=Window(64, 64) if score == "additive" else None, backend="chunked").map
    with Largest() as largest:
        pyramid = amap.pyramid()
    assert 0 < largest.elements <= 4096 * 4096 // 4
    assert_close(pyramid.levels[-1].mass.item(), 4096.0, rtol=1e-5, atol=0)


def test_stored_maps_have_pyramids_too() -> None:
    q, k, v = (x.detach() for x in inputs(N, M))
    for over in ("full", "padded window"):
        amap = attend(q, k, v, align="monotonic", over=OVERS[over]).map
        assert_close(amap.pyramid(3)[0].mass, pooled(amap.weights(), 3, "sum"))
        assert_close(amap.pyramid(3)[0].count, pooled(allowed(OVERS[over]), 3, "sum"))


@pytest.mark.parametrize(
    "over",
    [Causal("end"), Window(3, 0), Window(2, 5), Causal() & Padding(torch.tensor([9, 37]))],
    ids=["causal", "back", "signed", "padded"],
)
def test_columns_that_rows_cannot_reach_are_not_computed(over, monkeypatch):
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 37, 4), torch.randn(2, 1, 37, 4)
    amap = attend(q, k, k, over=over).map
    monkeypatch.setattr("regard.core.maps.attention_map.BAND", 1)  # a band is one row of cells
    seen, band = [], amap.band
    monkeypatch.setattr(amap, "band", lambda rows, cols: seen.append((rows, cols)) or band(rows, cols))
    level = amap.pyramid(4)[0]
    monkeypatch.undo()
    w = torch.nn.functional.pad(amap.weights(), (0, 3, 0, 3)).unflatten(-1, (-1, 4)).unflatten(-3, (-1, 4))
    torch.testing.assert_close(level.mass, w.sum((-1, -3)))
    torch.testing.assert_close(level.peak, w.amax((-1, -3)))
    assert sum((r.stop - r.start) * (c.stop - c.start) for r, c in seen) < 37 * 37
