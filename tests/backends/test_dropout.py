"""Dropout with a seed is one mask, whoever runs it and in whatever order; without a seed torch's generator governs."""

import pytest
import torch
from tests.oracle import small_blocks

from regard import Causal, Dot, Edges, Full, Padding, Refused, ScaledDot, attend

GRAPH = Edges(torch.randint(0, 30, (2, 200), generator=torch.Generator().manual_seed(0)))


def tensors(n=30, m=30, heads=4, dtype=torch.float64):
    return [torch.randn(2, heads, size, d, dtype=dtype) for size, d in ((n, 4), (m, 4), (m, 3))]


def dropped(over, score="scaled_dot", seed=11, p=0.4, backend="reference", heads=4):
    """The weights after dropout, read out of the output by values that are one-hot in the keys."""
    torch.manual_seed(1)
    q, k, _ = tensors(heads=heads)
    one_hot = torch.eye(30, dtype=torch.float64).expand(2, heads, 30, 30)
    return attend(q, k, one_hot, score, over=over, dropout=p, seed=seed, backend=backend).out


@pytest.mark.parametrize(
    "over", [Full(), Causal() & Padding(torch.tensor([30, 17])), GRAPH], ids=["full", "and", "edges"]
)
def test_one_seed_is_one_mask_on_every_backend_and_in_every_tile(over):
    wanted = dropped(over)
    found = [dropped(over, backend="chunked")]
    for scores in (1, 40, 333):
        with small_blocks(scores=scores, pairs=24):
            found.append(dropped(over, backend="chunked"))
    for other in found:
        assert torch.equal(other == 0, wanted == 0)
        torch.testing.assert_close(other, wanted)


def test_features_of_a_pair_are_dropped_together():
    q, k, _ = tensors()
    out = attend(
        q,
        k,
        torch.eye(30, dtype=torch.float64)[None, None, :, :4].expand(2, 4, 30, 4),
        Dot(features=True),
        dropout=0.5,
        seed=2,
        backend="reference",
    )
    zero = out.map.weights(dropout=True) == 0
    assert torch.equal(zero, zero[:, :, :1].expand_as(zero)) and zero.any()


@pytest.mark.parametrize("over", [Full(), GRAPH], ids=["full", "edges"])
def test_a_share_p_is_dropped_and_the_rest_grows_to_make_up(over):
    plain, p = dropped(over, p=0.0), 0.4
    drop = dropped(over, p=p)
    met = plain > 0
    gone = (drop == 0)[met].double()
    assert (
        abs(gone.mean() - p) < 4 * (p * (1 - p) / gone.numel()) ** 0.5 if isinstance(over, Full) else gone.mean() > 0.2
    )
    kept = (drop > 0) & met
    if isinstance(over, Full):
        torch.testing.assert_close(drop[kept], plain[kept] / (1 - p))


def test_masks_differ_between_seeds_items_heads_and_rows():
    mask = dropped(Full()) == 0
    for other in (dropped(Full(), seed=12) == 0, mask.roll(1, 0), mask.roll(1, 1), mask.roll(1, 2), mask.roll(1, 3)):
        assert 0.3 < (mask != other).double().mean() < 0.65  # 2 p (1 - p) = 0.48 where they are independent


def test_the_draws_of_sampling_are_not_those_of_dropout():
    """One seed, two streams: otherwise the chosen key would be dropped more or less often than others."""
    q, k, v = (torch.randn(2, 4, 400, 4) for _ in range(3))
    v = torch.ones_like(v)
    out = attend(0 * q, k, v, align="hard", sample=True, dropout=0.5, seed=9, backend="reference").out[..., 0]
    share = (out == 0).double().mean()
    assert abs(share - 0.5) < 4 * (0.25 / out.numel()) ** 0.5


@pytest.mark.parametrize("backend", ["reference", "chunked"])
def test_without_a_seed_torchs_generator_governs(backend):
    q, k, v = tensors()

    def run():
        return attend(q, k, v, dropout=0.5, backend=backend).out

    torch.manual_seed(4)
    first, second = run(), run()
    torch.manual_seed(4)
    assert torch.equal(run(), first) and not torch.equal(first, second)


def test_a_seed_leaves_torchs_generator_alone():
    q, k, v = tensors()
    torch.manual_seed(4)
    wanted = torch.rand(3)
    torch.manual_seed(4)
    attend(q, k, v, dropout=0.5, seed=1, backend="chunked")
    assert torch.equal(torch.rand(3), wanted)


def test_a_seed_may_be_a_tensor():
    q, k, v = tensors()
    out = attend(q, k, v, dropout=0.5, seed=77, backend="chunked").out
    assert torch.equal(attend(q, k, v, dropout=0.5, seed=torch.tensor(77), backend="chunked").out, out)


def test_sdpa_refuses_a_seed_and_auto_goes_on():
    q, k, v = tensors()
    with pytest.raises(Refused, match="cannot take a seed"):
        attend(q, k, v, dropout=0.5, seed=1, backend="sdpa")
    torch.testing.assert_close(
        attend(q, k, v, dropout=0.5, seed=1).out, attend(q, k, v, dropout=0.5, seed=1, backend="reference").out
    )


def test_where_torchs_own_dropout_ran_the_map_after_it_is_refused():
    q, k, v = tensors()
    amap = attend(q, k, v, dropout=0.5, backend="sdpa").map
    with pytest.raises(Refused, match=r"torch's own dropout ran.*Pass seed="):
        amap.weights(dropout=True)
    torch.testing.assert_close(amap.weights().sum(-1), torch.ones(2, 4, 30, dtype=torch.float64))


@pytest.mark.parametrize("backend", ["reference", "chunked"])
@pytest.mark.parametrize("seed", [5, None])
@pytest.mark.parametrize("over", [Full(), Causal(), GRAPH], ids=["full", "causal", "edges"])
def test_the_map_after_dropout_times_the_values_is_the_output(over, seed, backend):
    q, k, v = tensors()
    out, amap = attend(q, k, v, over=over, dropout=0.5, seed=seed, backend=backend)
    torch.testing.assert_close(amap.weights(dropout=True) @ v, out)
    assert not torch.equal(amap.weights(dropout=True), amap.weights())


def test_edges_carry_their_own_mask_whatever_their_order():
    """The mask belongs to the edge's number: listing the same edges again after them leaves the first ones' draws."""
    q, k, v = tensors()
    index = GRAPH.edge_index
    one = attend(q, k, v, over=Edges(index), dropout=0.5, seed=3, backend="reference").map.edges(dropout=True) == 0
    longer = torch.cat([index, index[:, :40]], 1)
    two = attend(q, k, v, over=Edges(longer), dropout=0.5, seed=3, backend="chunked").map.edges(dropout=True) == 0
    assert torch.equal(one, two[..., :200])


def test_gradients_pass_through_the_kept_weights_alone():
    q, k, v = (x.requires_grad_() for x in tensors())
    out, amap = attend(q, k, v, ScaledDot(), dropout=0.5, seed=8, backend="chunked")
    pull = torch.randn_like(out)
    (found,) = torch.autograd.grad(out, v, pull)
    torch.testing.assert_close(found, amap.weights(dropout=True).transpose(-1, -2) @ pull)
