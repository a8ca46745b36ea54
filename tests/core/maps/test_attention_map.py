"""Reading a map: every read against the weights that the reference used, one by one."""

import itertools
from functools import cache

import pytest
import torch
from tests.core.mechanisms import ALIGNMENTS, built, inputs
from torch import Tensor
from torch.testing import assert_close

from regard import Attended, AttentionMap, Causal, Edges, Padding, Refused, Structure, attend

N, M = 5, 7  # odd, so that nothing is a whole number of cells


def structures() -> dict[str, Structure | None]:
    edges = torch.randint(0, 5, (2, 14), generator=torch.Generator().manual_seed(0))  # some stand twice, row 4 few
    return {"full": None, "causal and padded": Causal("end") & Padding(torch.tensor([7, 4])), "edges": Edges(edges)}


ALL = [
    (s, a, w)
    for s in ("scaled_dot", "additive_features")
    for a in ALIGNMENTS
    for w in structures()
    if not (a in ("monotonic", "stick_breaking") and w == "edges")  # an order of steps or keys, which edges have not
]
SOME = [("scaled_dot", a, w) for a in ("softmax", "entmax15", "topk", "local_predictive") for w in structures()]
SOME += [("additive_features", "softmax", w) for w in structures()] + [("location_aware", "softmax", "full")]


def run(score: str, align: str, where: str, v: Tensor, backend: str = "auto") -> Attended:
    q, k, _ = (x.detach() for x in inputs(N, M))
    return attend(q, k, v, built(score), built(align), structures()[where], sample=True, seed=3, backend=backend)


@cache
def used(score: str, align: str, where: str) -> Tensor:
    """The weights that the reference used: its outputs for values that are 1 on one key and 0 on the others."""
    columns = []
    for j in range(M):
        v = torch.zeros(2, 2, M, 4, dtype=torch.float64)
        v[:, :, j] = 1
        columns.append(run(score, align, where, v, "reference").out)
    weights = torch.stack(columns, -1)  # (b, h, n, 4, m): the four are equal unless they are features
    return weights.movedim(3, 2) if score == "additive_features" else weights[..., 0, :]


def read(score: str, align: str, where: str) -> AttentionMap:
    return run(score, align, where, inputs(N, M)[2].detach()).map


@pytest.mark.parametrize(("score", "align", "where"), ALL)
def test_the_weights_of_a_map_are_those_that_the_reference_used(score: str, align: str, where: str) -> None:
    amap, w = read(score, align, where), used(score, align, where)
    assert amap.shape == tuple(w.shape)
    assert (amap.heads, amap.n, amap.m) == (2, N, M)
    assert_close(amap.weights(), w)


@pytest.mark.parametrize(("score", "align", "where"), ALL)
def test_rows_and_columns_are_those_of_the_matrix(score: str, align: str, where: str) -> None:
    amap, w = read(score, align, where), used(score, align, where)
    for i in (0, 3, -1):
        assert_close(amap.row(i), w[..., i, :])
    for j in (0, 4, -2):
        assert_close(amap.column(j), w[..., j])


@pytest.mark.parametrize(("score", "align", "where"), ALL)
def test_tiles_of_slices_steps_and_lists_stitch_to_the_matrix(score: str, align: str, where: str) -> None:
    amap, w = read(score, align, where), used(score, align, where)
    rows = [amap.tile(slice(i, i + 2), slice(j, j + 3)) for i, j in itertools.product((0, 2, 4), (0, 3, 6))]
    stitched = torch.cat([torch.cat(rows[x : x + 3], -1) for x in (0, 3, 6)], -2)
    assert_close(stitched, w)
    assert_close(amap.tile(slice(None, None, 2), slice(4, None, -1)), w[..., ::2, [4, 3, 2, 1, 0]])
    assert_close(amap.tile([3, -1, 3], torch.tensor([6, 0])), w[..., [3, -1, 3], :][..., [6, 0]])
    assert amap.tile(slice(3, 1), slice(None)).shape == (*w.shape[:-2], 0, M)


@pytest.mark.parametrize(("score", "align", "where"), SOME)
def test_topk_names_the_largest_weights_of_a_row(score: str, align: str, where: str) -> None:
    amap, w = read(score, align, where), used(score, align, where)
    values, keys = amap.topk(2, 3)
    assert_close(values, w[..., 2, :].sort(-1, descending=True).values[..., :3])
    assert_close(w[..., 2, :].gather(-1, keys), values)
    assert amap.topk(0, 100)[0].shape[-1] == M


@pytest.mark.parametrize("cell", [None, 1, 2, 3])
@pytest.mark.parametrize(("score", "align", "where"), SOME)
def test_find_equals_looking_at_every_weight_with_a_pyramid_and_without(
    score: str, align: str, where: str, cell: int | None
) -> None:
    amap, w = read(score, align, where), used(score, align, where)
    if cell is not None:
        amap.pyramid(cell)
    for threshold in (0.0, 0.05, 0.2, 0.5, 0.99, 2.0):
        found = amap.find(threshold)
        assert_close(found.where, (w > threshold).nonzero())
        assert_close(found.weight, w[w > threshold])


@pytest.mark.parametrize(("score", "align", "where"), SOME)
def test_entropy_and_mass_are_those_of_rows_and_columns(score: str, align: str, where: str) -> None:
    amap, w = read(score, align, where), used(score, align, where)
    assert_close(amap.mass(), w.sum(-2))
    expected = -(w * w.clamp_min(1e-300).log()).sum(-1)
    over = structures()[where]
    if isinstance(over, Edges):  # an edge that stands twice is two edges
        w = amap.edges()
        expected = torch.zeros_like(expected).index_add(-1, over.edge_index[1], -(w * w.clamp_min(1e-300).log()))
    assert_close(amap.entropy(), expected)


@pytest.mark.parametrize(("score", "align", "where"), SOME)
def test_reads_in_small_bands_are_the_same(score: str, align: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read(score, align, where)
    expected = whole.entropy(), whole.mass(), whole.find(0.1).where
    monkeypatch.setattr("regard.core.maps.attention_map.BAND", 1)
    amap = read(score, align, where)
    assert_close((amap.entropy(), amap.mass(), amap.find(0.1).where), expected)
    assert len(list(amap.bands())) == N


@pytest.mark.parametrize(("score", "align", "where"), SOME)
def test_groups_sum_columns_and_average_rows(score: str, align: str, where: str) -> None:
    amap, w = read(score, align, where), used(score, align, where)
    rows, cols = [(0, 2), (2, 3), (3, 5)], [(0, 3), (3, 4), (4, 7)]
    grouped = amap.group(rows, cols)
    expected = torch.stack([torch.stack([w[..., a:b, c:d].sum(-1).mean(-1) for c, d in cols], -1) for a, b in rows], -2)
    assert_close(grouped.weights(), expected)
    assert_close(grouped.weights().sum(-1), torch.stack([w[..., a:b, :].sum(-1).mean(-1) for a, b in rows], -1))
    assert_close(grouped[1, 0].row(2), expected[1, 0, ..., 2, :])


@pytest.mark.parametrize(("score", "align", "where"), SOME)
def test_an_index_selects_items_and_heads(score: str, align: str, where: str) -> None:
    amap, w = read(score, align, where), used(score, align, where)
    for b, h in itertools.product((0, 1, -1), (0, 1)):
        one = amap[b, h]
        assert one.shape == tuple(w.shape[2:])
        assert_close(one.weights(), w[b, h])
        assert_close(one.row(1), w[b, h, ..., 1, :])
        assert_close(one.mass(), w[b, h].sum(-2))
    assert_close(amap[1].weights(), w[1])
    assert_close(amap[1][1].column(3), w[1, 1, ..., 3])


def test_leading_axes_of_a_map_are_those_of_the_query() -> None:
    q, k, v = (x.detach() for x in inputs(batch=6))
    for shape, index in (((6, 2), (5, 1)), ((3, 2, 2), (2, 1, 0)), ((2,), (1,)), ((), ())):
        a, b, c = (
            (x if len(shape) == 2 else x.unflatten(0, (3, 2)) if len(shape) == 3 else x[0] if shape else x[0, 0])
            for x in (q, k, v)
        )
        amap = attend(a, b, c).map
        assert amap.shape == (*shape, 3, 5)
        assert_close(amap[index].weights() if index else amap.weights(), torch.softmax(a @ b.mT / 2, -1)[index])


@pytest.mark.parametrize("score", ["scaled_dot", "additive_features"])
def test_weights_on_edges_and_loops_are_entries_of_the_matrix(score: str) -> None:
    q, k, v = (x.detach() for x in inputs(5, 5))
    index = torch.tensor([[0, 1, 4, 3, 3], [1, 0, 2, 3, 1]])
    amap = attend(q, k, v, built(score), over=Edges(index, self_loops=True)).map
    w = amap.weights()
    assert_close(amap.edges(), w[..., index[1], index[0]])
    own = torch.tensor([True, True, True, False, True])  # node 3 brought its loop
    assert_close(amap.loops, w.diagonal(dim1=-2, dim2=-1) * own)
    assert_close(amap[0, 1].edges(), amap.edges()[0, 1])
    assert_close(amap[0, 1].loops, amap.loops[0, 1])


@pytest.mark.parametrize("align", ["softmax", "entmax15", "topk", "relu", "gumbel_straight"])
@pytest.mark.parametrize("backend", ["reference", "chunked"])
def test_a_row_state_is_enough_to_have_every_weight_again(align: str, backend: str) -> None:
    q, k, v = (x.detach() for x in inputs(N, M))
    amap = attend(q, k, v, align=built(align), sample=True, seed=0, backend=backend).map
    state = amap.state
    assert state.tau.shape == (4, N)
    assert (state.index is not None) == (align in ("topk", "gumbel_straight"))
    assert (state.scale is not None) == (align == "relu")
    assert_close(amap.weights() @ v, attend(q, k, v, align=built(align), sample=True, seed=0, backend=backend).out)


def test_maps_of_half_precision_are_read_in_fp32() -> None:
    q, k, v = (x.detach().bfloat16() for x in inputs())
    weights = attend(q, k, v, over=Padding(torch.tensor([5, 2]))).map.weights()
    assert weights.dtype == torch.float32
    assert_close(weights[0], torch.softmax(q[0].float() @ k[0].float().mT / 2, -1))


def test_maps_without_rows_or_columns_are_empty() -> None:
    q, k, v = (x.detach() for x in inputs())
    for n, m in ((0, 5), (3, 0), (0, 0)):
        amap = attend(q[:, :, :n], k[:, :, :m], v[:, :, :m]).map
        assert amap.weights().shape == (2, 2, n, m)
        assert amap.entropy().shape == (2, 2, n)
        assert amap.mass().shape == (2, 2, m)
        assert_close(amap.mass(), torch.zeros(2, 2, m, dtype=torch.float64))
        assert amap.entropy().dtype == torch.float64
        assert amap.find(0.0).where.shape == (0, 4)
        assert len(amap.pyramid()) == 0


def test_a_group_without_spans_is_refused_in_a_sentence() -> None:
    amap = attend(*(torch.randn(1, 3, 4) for _ in range(3))).map
    with pytest.raises(ValueError, match=r"group\(rows=\[\]\) has no span"):
        amap.group([])
    with pytest.raises(ValueError, match=r"group\(cols=\[\]\) has no span"):
        amap.group([(0, 3)], [])


def test_a_map_of_stored_weights_says_why_it_has_no_tau() -> None:
    amap = attend(*(torch.randn(1, 3, 4) for _ in range(3))).map
    with pytest.raises(Refused, match="This StoredMap has no tau"):
        _ = amap.group([(0, 3)]).tau
