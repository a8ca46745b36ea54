"""Biases that the caller gives, pair by pair or edge by edge, and scores that are cut."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard import Causal, Clamp, EdgeBias, Edges, PairBias, ScaledDot, attend

GRAPH = torch.tensor([[2, 0, 1, 4, 2, 3, 0, 4], [0, 1, 1, 1, 3, 3, 3, 4]])


def tensors(*more: tuple[int, ...]) -> list[Tensor]:
    make = torch.Generator().manual_seed(0)
    shapes = [(2, 3, 5, 4)] * 3 + list(more)
    return [torch.randn(shape, generator=make, dtype=torch.float64).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("shape", [(2, 3, 5, 5), (3, 5, 5), (1, 1, 5, 5), (2, 1, 1, 5), (5, 5)])
@pytest.mark.parametrize("over", [None, Causal()])
def test_a_pair_bias_is_added_to_the_scores_and_gets_its_gradient(shape: tuple[int, ...], over: Causal | None) -> None:
    q, k, v, bias = leaves = tensors(shape)
    s = q @ k.transpose(-1, -2) / 2 + bias
    if over is not None:
        s = s.masked_fill(torch.ones(5, 5).triu(1) > 0, float("-inf"))
    expected = s.softmax(-1) @ v
    mix = torch.linspace(-1, 1, expected.numel(), dtype=v.dtype).view_as(expected)
    wanted = torch.autograd.grad((expected * mix).sum(), leaves)
    for backend in ("reference", "chunked", "auto"):
        out = attend(q, k, v, ScaledDot() | PairBias(bias), over=over, backend=backend).out
        assert_close(out, expected)
        for a, b in zip(torch.autograd.grad((out * mix).sum(), leaves), wanted, strict=True):
            assert_close(a, b)


@pytest.mark.parametrize("heads", [1, 3])
def test_an_edge_bias_is_a_pair_bias_where_no_edge_repeats(heads: int) -> None:
    q, k, v, bias = leaves = tensors((heads, 8))
    dense = torch.full((heads, 5, 5), 0.0, dtype=v.dtype).index_put(
        (torch.arange(heads)[:, None], GRAPH[1].expand(heads, 8), GRAPH[0].expand(heads, 8)), bias
    )
    found = []
    for modifier in (EdgeBias(bias), PairBias(dense)):
        for backend in ("reference", "chunked"):
            out, amap = attend(q, k, v, ScaledDot() | modifier, over=Edges(GRAPH), backend=backend)
            found.append([out, amap.edges(), *torch.autograd.grad(out.sin().sum(), leaves, retain_graph=True)])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert_close(a, b)


def test_the_logarithm_of_weights_gives_the_weights_back() -> None:
    q, _, v = tensors()
    weights = torch.tensor([1.0, 0.5, 0.5, 0.0, 0.25, 0.25, 0.5, 1.0], dtype=v.dtype)
    nothing = q[..., :0]
    amap = attend(nothing, nothing, v, "dot", over=Edges(GRAPH)).map
    assert_close(amap.edges()[0, 0, 1], torch.tensor(1 / 3, dtype=v.dtype))
    out, amap = attend(nothing, nothing, v, ScaledDot() | EdgeBias(weights.log()), over=Edges(GRAPH))
    assert_close(amap.edges()[0, 0], weights)
    out.sum().backward()
    assert v.grad is not None and v.grad.isfinite().all()


def test_an_edge_bias_belongs_to_edges_and_a_pair_bias_to_its_sizes() -> None:
    q, k, v = tensors()[:3]
    with pytest.raises(ValueError, match=r"EdgeBias needs edges.*over=Edges"):
        attend(q, k, v, ScaledDot() | EdgeBias(torch.zeros(8)))
    with pytest.raises(ValueError, match=r"PairBias\(bias\) has shape \(1, 1, 4, 5\), but there are 5 queries"):
        attend(q, k, v, ScaledDot() | PairBias(torch.zeros(4, 5)))


def test_a_clamp_cuts_scores_and_their_gradient() -> None:
    q, k, v = leaves = tensors()[:3]
    expected = (q @ k.transpose(-1, -2) / 2).clamp(-0.5, 0.5).softmax(-1) @ v
    wanted = torch.autograd.grad(expected.sin().sum(), leaves)
    for backend in ("reference", "chunked"):
        out = attend(q, k, v, ScaledDot() | Clamp(0.5), backend=backend).out
        assert_close(out, expected)
        for a, b in zip(torch.autograd.grad(out.sin().sum(), leaves), wanted, strict=True):
            assert_close(a, b)
