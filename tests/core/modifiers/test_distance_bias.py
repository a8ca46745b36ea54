"""Biases by distance: T5's buckets, Kerple's kernels, FIRE's network."""

import pytest
import torch
from torch.testing import assert_close

from regard import FIRE, ALiBi, Causal, Dot, Kerple, ScaledDot, T5Bias, attend


def scores_of(modifier, n, m, heads=1):
    """What is added to a score of nothing, (heads, n, m)."""
    return (Dot() | modifier)(torch.zeros(heads, n, 1), torch.zeros(heads, m, 1)).detach()


@pytest.mark.parametrize("both_sides", [True, False])
def test_t5_buckets_are_those_of_transformers(both_sides):
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5", reason="the peer is transformers")
    n, modifier = 300, T5Bias(1, 32, 128, both_sides)
    with torch.no_grad():
        modifier.table.copy_(torch.arange(32.0)[None])
    away = torch.arange(n) - torch.arange(n)[:, None]
    wanted = t5.T5Attention._relative_position_bucket(away, bidirectional=both_sides, num_buckets=32, max_distance=128)
    assert_close(scores_of(modifier, n, n)[0], wanted.float())


def test_kerple_with_a_power_of_one_is_alibi():
    slopes = torch.tensor([0.5, 0.25])
    kerple = Kerple(2, "power", align="start")
    with torch.no_grad():
        kerple.raw.copy_(torch.stack([torch.log(torch.expm1(slopes)), torch.zeros(2)]))
    assert_close(scores_of(kerple, 4, 9, 2), scores_of(ALiBi(slopes=slopes, align="start"), 4, 9, 2))


def test_kerples_logarithm_is_the_formula():
    kerple, far = Kerple(1, align="end"), (torch.arange(3)[:, None] + 2 - torch.arange(5)).abs()
    wanted = -kerple.scale.detach() * torch.log1p(kerple.second.detach() * far)
    assert_close(scores_of(kerple, 3, 5)[0], wanted)


def test_fire_reads_the_distance_relative_to_how_far_a_query_can_look():
    fire, n = FIRE(2, hidden=4, start=3.0), 8
    c, least = fire.raw.exp().detach()
    i, j = torch.arange(n)[:, None], torch.arange(n)
    place = torch.log1p(c * (i - j).abs()) / torch.log1p(c * torch.maximum(i.float(), least))
    hidden = torch.relu(place[..., None] * fire.weight_in + fire.bias_in)
    assert_close(scores_of(fire, n, n, 2), (hidden @ fire.weight_out.T + fire.bias_out).movedim(-1, 0).detach())
    assert place.tril().max() <= 1


@pytest.mark.parametrize(
    "make", [lambda: T5Bias(3, 8, 20), lambda: Kerple(3), lambda: Kerple(3, "power"), lambda: FIRE(3, 5)]
)
@pytest.mark.parametrize("align", ["softmax", "sigmoid", "entmax15"])
def test_gradients_of_chunked_are_those_of_the_definition(make, align):
    torch.manual_seed(0)
    modifier = make().double()
    with torch.no_grad():
        for parameter in modifier.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    leaves = [torch.randn(2, 3, 7, 4, dtype=torch.float64).requires_grad_() for _ in range(3)]
    found = []
    for backend in ("reference", "chunked"):
        out = attend(*leaves, ScaledDot() | modifier, align, Causal(), backend=backend).out
        found.append([out, *torch.autograd.grad(out.sin().sum(), [*leaves, *modifier.parameters()])])
    for a, b in zip(*found, strict=True):
        assert_close(a, b)


def test_wrong_sizes_are_said_with_what_would_do():
    with pytest.raises(ValueError, match="expected an even number"):
        T5Bias(1, 7)
    with pytest.raises(ValueError, match="expected reach above 8"):
        T5Bias(1, 32, 8)
    with pytest.raises(ValueError, match='expected "log" or "power"'):
        Kerple(1, "linear")
