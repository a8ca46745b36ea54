"""Each key takes a share of what nearer keys have left."""

import pytest
import torch
from torch.testing import assert_close

from regard import Causal, Edges, Refused, ScaledDot, Sink, StickBreaking, Window, attend
from regard.core.maps import lazy


def naive(s, keep):
    """Breaking a stick of length one, key by key from the last."""
    weights = torch.zeros_like(s)
    for index in torch.cartesian_prod(*(torch.arange(size) for size in s.shape[:-1])):
        row, left = tuple(index.tolist()), 1.0
        for j in range(s.shape[-1] - 1, -1, -1):
            if keep[row[-1], j]:
                weights[(*row, j)] = left * torch.sigmoid(s[(*row, j)])
                left = left * (1 - torch.sigmoid(s[(*row, j)]))
    return weights


@pytest.mark.parametrize("backend", ["reference", "chunked"])
@pytest.mark.parametrize("over", [Causal(), Window(7, -1), Window(2, 0)], ids=["causal", "strictly before", "window"])
def test_weights_are_those_of_a_stick_broken_key_by_key(over, backend):
    q, k, v = torch.randn(3, 2, 3, 7, 4, dtype=torch.float64)
    distance = torch.arange(7)[:, None] - torch.arange(7)
    keep = (distance >= (1 if over == Window(7, -1) or getattr(over, "right", 0) < 0 else 0)) & (
        distance <= getattr(over, "left", 7)
    )
    expected = naive(q @ k.mT / 2, keep)
    out, amap = attend(q, k, v, align="stick_breaking", over=over, backend=backend)
    assert_close(amap.weights(), expected)
    assert_close(out, expected @ v)


def test_what_no_key_took_is_the_product_of_what_each_left():
    s = torch.randn(3, 5, dtype=torch.float64)
    assert_close(1 - StickBreaking()(s).sum(-1), (1 - torch.sigmoid(s)).prod(-1))
    amap = attend(s, torch.eye(5).double(), torch.eye(5).double(), score="dot", align="stick_breaking").map
    assert_close(amap.tau, (1 - torch.sigmoid(s)).prod(-1).log())


def test_a_tile_of_a_map_is_computed_from_whole_rows(monkeypatch):
    monkeypatch.setattr(lazy, "BAND", 20)  # a row or two at a time
    q, k, v = torch.randn(3, 2, 9, 4)
    amap = attend(q, k, v, align="stick_breaking", over=Causal(), backend="chunked").map
    whole = amap.weights()
    assert_close(amap.column(3), whole[..., 3])
    assert_close(amap[1].tile([8, 0, 5], [2, 7]), whole[1][[8, 0, 5]][:, [2, 7]])


def test_large_scores_break_the_stick_without_nan():
    s = torch.tensor([[1e4, -1e4, 1e4, -1e4]], requires_grad=True)
    weights = StickBreaking()(s)
    assert weights.tolist() == [[0.0, 0.0, 1.0, 0.0]]
    assert torch.autograd.grad(weights.sum(), s)[0].isfinite().all()


def test_edges_and_sinks_have_no_order_of_keys():
    q = torch.randn(1, 1, 4, 2)
    with pytest.raises(Refused, match="needs ordered keys, which edges do not"):
        attend(q, q, q, align="stick_breaking", over=Edges(torch.tensor([[0, 1], [1, 2]])))
    with pytest.raises(Refused, match="a sink has no position among them"):
        attend(q, q, q, ScaledDot() | Sink(1), "stick_breaking")
