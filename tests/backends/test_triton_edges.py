"""The edge kernels under Triton's interpreter, on a CPU at small sizes: the reference's numbers, hubs cut or not."""

import pytest
import torch

pytest.importorskip("triton", reason="the interpreter comes with the package triton, which is not installed")

from regard import GAT, Edges, GATv2, ScaledDot, attend
from regard.backends import triton_edges, triton_edges_launch, triton_edges_work
from regard.core.plan import make_plan

SCORES = {"gat": GAT, "gatv2": GATv2, "dot": lambda d, heads: ScaledDot()}


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch):
    """Rows of more than four edges are cut, so that merging is exercised."""
    monkeypatch.setattr(triton_edges_work, "PIECE", 4)
    monkeypatch.setattr(triton_edges_launch, "PROGRAMS", 3)


def outcome(score, index, n, m, heads, d, backend, dtype=torch.float32, **options):
    torch.manual_seed(1)
    score = SCORES[score](d, heads).to(dtype)
    q, k, v = (torch.randn(1, heads, size, d, dtype=torch.float64).to(dtype).requires_grad_() for size in (n, m, m))
    weight = torch.randn(1, heads, n, d, dtype=torch.float64)
    over = Edges(index, (n, m))
    if backend == "kernels":
        out = triton_edges.TritonEdges().run(make_plan(q, k, v, score, over=over, **options)).out
    else:
        out = attend(q, k, v, score, over=over, backend=backend, **options).out
    leaves = [q, k, v, *score.parameters()]
    grads = torch.autograd.grad((out.double() * weight).sum(), leaves, allow_unused=True)
    return [out, *(torch.zeros_like(x) if g is None else g for x, g in zip(leaves, grads, strict=True))]


GRAPHS = {
    "directed, repeats, isolated": (torch.tensor([[0, 3, 3, 2, 1, 1, 0], [0, 0, 0, 2, 2, 2, 4]]), 5, 4),
    "one hub each way": (torch.tensor([[0] * 11 + [*range(11)], [*range(11)] + [3] * 11]), 11, 11),
    "no edges": (torch.zeros(2, 0, dtype=torch.long), 3, 2),
    "one edge": (torch.tensor([[1], [2]]), 3, 2),
}  # fmt: skip


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("heads, d", [(2, 4), (3, 5), (1, 1)])
def test_kernels_give_the_references_output_and_gradients(score, graph, heads, d):
    index, n, m = GRAPHS[graph]
    truth = outcome(score, index, n, m, heads, d, "reference", torch.float64)
    for mine, true in zip(outcome(score, index, n, m, heads, d, "kernels"), truth, strict=True):
        torch.testing.assert_close(mine.double(), true, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("score", SCORES)
def test_dropout_drops_the_same_edges_as_the_reference(score):
    index, n, m = GRAPHS["one hub each way"]
    options = {"dropout": 0.4, "seed": 7}
    truth = outcome(score, index, n, m, 5, 3, "reference", torch.float64, **options)
    for mine, true in zip(outcome(score, index, n, m, 5, 3, "kernels", **options), truth, strict=True):
        torch.testing.assert_close(mine.double(), true, rtol=1e-4, atol=1e-5)


def test_keys_that_are_the_values_get_both_gradients():
    index, n, m = GRAPHS["one hub each way"]
    torch.manual_seed(0)
    q, x = (torch.randn(1, 2, size, 4, requires_grad=True) for size in (n, m))
    mine = triton_edges.TritonEdges().run(make_plan(q, x, x, "gatv2", over=Edges(index, (n, m)))).out
    theirs = attend(q, x, x, "gatv2", over=Edges(index, (n, m)), backend="reference").out
    for a, b in zip(*(torch.autograd.grad(out.square().sum(), (q, x)) for out in (mine, theirs)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("edges", [0, 1, 3, 4, 5, 9, 40])
def test_the_work_list_covers_every_edge_once_and_cuts_rows_in_order(edges):
    torch.manual_seed(edges)
    degree = torch.bincount(torch.randint(0, 6, (edges,)).square() // 6, minlength=6)
    start = torch.cat([torch.zeros(1, dtype=torch.long), degree.cumsum(0)])
    work = triton_edges_work.Work.of(start, edges)
    seen = []
    for row, first, last, slot, pieces in work.items.tolist():
        if row >= 0:
            assert start[row] <= first <= last <= start[row + 1] and last - first <= 4
            assert (slot >= 0) == (degree[row] > 4) == (pieces > 1)
            seen += [(row, e) for e in range(first, last)]
    assert sorted(seen) == [(row, e) for row in range(6) for e in range(start[row], start[row + 1])]
    hubs = {row: rest for row, *rest in work.hubs.tolist() if row >= 0}
    assert set(hubs) == {row for row in range(6) if degree[row] > 4}
    for row, _, _, slot, pieces in work.items.tolist():
        if slot >= 0:
            first, last, first_slot, _ = hubs[row]
            assert (first, last) == (start[row], start[row + 1])
            assert first_slot <= slot < first_slot + pieces <= work.slots
