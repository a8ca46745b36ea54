"""Calls of the edge kernels that are done again, with their gradients: as on a GPU, by the interpreter."""

import pytest
import torch

pytest.importorskip("triton")

from tests.backends.addressed import addressed

from regard import GAT, Edges, GATv2, ScaledDot, Sigmoid, TopK, attend
from regard.backends.triton.edges import csr_schedule, replayed_calls
from regard.backends.triton.edges.backend import TritonEdges
from regard.core.plan import make_plan

NODES, HEADS, WIDTH = 8, 4, 4
SCORES = {"gat": lambda: GAT(WIDTH, HEADS), "gatv2": lambda: GATv2(WIDTH, HEADS), "dot": ScaledDot}
ALIGNS = {"softmax": lambda: "softmax", "entmax": lambda: "entmax15", "sigmoid": Sigmoid, "topk": lambda: TopK(2)}


def graph(seed):
    """Twelve edges; the first four lead to one node, which is cut."""
    index = torch.randint(NODES, (2, 12), generator=torch.Generator().manual_seed(seed))
    index[1, :4] = seed
    return Edges(index, (NODES, NODES))


def both(by_kernels, over, score, align, parts, pull):
    """out, and the gradients of q, k, v and of the score's parameters."""
    if by_kernels:
        out = TritonEdges().run(make_plan(*parts, score, align, over)).out[0]
    else:
        out = attend(*parts, score, align, over, backend="reference").out
    return [out, *torch.autograd.grad(out, (*parts, *score.parameters()), pull)]


CASES = ["gat softmax", "gatv2 softmax", "dot softmax", "dot entmax", "gatv2 sigmoid", "gat topk"]


@pytest.mark.parametrize("case", CASES)
def test_calls_and_gradients_that_are_done_again_are_those_of_their_own_tensors_and_graph(case, monkeypatch):
    name, align = case.split()
    if align == "softmax":
        monkeypatch.setattr(csr_schedule, "PIECE", 3)
    run, back = addressed(monkeypatch, replayed_calls)
    graphs, score = [graph(0), graph(1)], SCORES[name]()
    for turn in range(4):
        parts = [torch.randn(HEADS, NODES, WIDTH).requires_grad_() for _ in range(3)]
        pull = torch.randn(HEADS, NODES, WIDTH)
        mine, true = (both(x, graphs[turn % 2], score, ALIGNS[align](), parts, pull) for x in (True, False))
        for x, y in zip(mine, true, strict=True):
            torch.testing.assert_close(x, y, rtol=2e-5, atol=2e-5)
    for each in (run, back):
        assert [tape.complete for tape in each.tapes.values()] == [True]


def test_noise_of_a_call_that_is_done_again_is_its_own(monkeypatch):
    addressed(monkeypatch, replayed_calls)
    over, score = graph(0), ScaledDot()
    parts = [torch.randn(HEADS, NODES, WIDTH) for _ in range(3)]
    for seed in (3, 3, 3, 4, 5):
        out = TritonEdges().run(make_plan(*parts, score, "softmax", over, dropout=0.5, seed=seed)).out[0]
        true = attend(*parts, score, "softmax", over, dropout=0.5, seed=seed, backend="reference").out
        torch.testing.assert_close(out, true, rtol=2e-5, atol=2e-5)
