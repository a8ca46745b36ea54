"""Positions that queries count, beside the loop that counts them."""

import pytest
import torch
from torch.testing import assert_close

from regard import Causal, ConvolvedDot, CoPE, Edges, Padding, Refused, ScaledDot, attend, nn


def twin(q, k, table, ahead=0):
    """One number after the other."""
    n, m = q.shape[-2], k.shape[-2]
    s = q @ k.mT / q.shape[-1] ** 0.5
    out = s.clone()
    for i in range(n):
        for j in range(m):
            place = s[i, j : i + ahead + 1].sigmoid().sum() if j <= i + ahead else torch.zeros(())
            place = float(place.clamp_max(len(table) - 1))
            low = min(int(place), len(table) - 2)
            e = table[low] + (place - low) * (table[low + 1] - table[low])
            out[i, j] = s[i, j] + q[i] @ e
    return out


@pytest.mark.parametrize(("n", "m"), [(9, 9), (3, 9)])
def test_scores_are_those_of_the_loop(n, m):
    torch.manual_seed(0)
    q, k = torch.randn(n, 4).double(), torch.randn(m, 4).double()
    score = CoPE(4, positions=4).double()
    torch.nn.init.normal_(score.positions)
    assert_close(score(q[None], k[None])[0], twin(q, k, score.positions[0].detach(), m - n))
    found = attend(q[None], k[None], k[None], score, over=Causal(align="end"), backend="chunked").map
    keep = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    wanted = twin(q, k, score.positions[0].detach(), m - n).masked_fill(~keep, float("-inf")).softmax(-1)
    assert_close(found.weights()[0], wanted)
    assert_close(found.tile([n - 1, 0], [5, 2])[0], wanted[[n - 1, 0]][:, [5, 2]])


def test_without_learned_positions_it_is_the_scaled_dot_product():
    q, k = torch.randn(2, 1, 6, 4)
    assert_close(CoPE(4)(q, k), ScaledDot()(q, k))


def test_decoding_with_a_cache_is_the_whole():
    torch.manual_seed(0)
    layer, x, cache = nn.Attention(8, 2, score=CoPE(4, 2, positions=6)), torch.randn(1, 7, 8), nn.Cache()
    torch.nn.init.normal_(layer.score.positions)
    steps = [layer(x[:, t : t + 1], over=Causal(align="end"), cache=cache).out for t in range(7)]
    assert_close(torch.cat(steps, 1), layer(x, over=Causal()).out)


def test_edges_have_no_order_of_keys():
    q = torch.randn(1, 4, 4)
    with pytest.raises(Refused, match="CoPE needs ordered keys, which edges do not"):
        attend(q, q, q, CoPE(4), over=Edges(torch.tensor([[0, 1], [1, 2]])))


@pytest.mark.parametrize(
    "make", [lambda: CoPE(4, 2, positions=5), lambda: ConvolvedDot(2, 3, 4)], ids=["cope", "convolved"]
)
def test_gradients_in_blocks_are_those_of_the_definition(make):
    torch.manual_seed(0)
    score, (q, k, v) = make().double(), torch.randn(3, 1, 2, 150, 4, dtype=torch.float64)
    for p in score.parameters():
        torch.nn.init.normal_(p)
    leaves, found = [x.requires_grad_() for x in (q, k, v, *score.parameters())], []
    for backend in ("reference", "chunked"):
        out = attend(q, k, v, score, over=Causal(), backend=backend).out
        found.append(torch.autograd.grad(out.sin().sum(), leaves))
    for a, b in zip(*found, strict=True):
        assert_close(a, b)


def test_a_compiled_call_gives_the_same_numbers_for_every_length():
    score = CoPE(4, 2, positions=5)
    torch.nn.init.normal_(score.positions)
    compiled = torch.compile(
        lambda q: attend(q, q, q, score, over=Causal()).out, fullgraph=True, dynamic=True, backend="aot_eager"
    )
    for n in (5, 9, 14):
        q = torch.randn(1, 2, n, 4)
        assert_close(compiled(q), attend(q, q, q, score, over=Causal()).out)


@pytest.mark.parametrize("make", [lambda: CoPE(4, 2, 5), lambda: ConvolvedDot(2, 3, 4)], ids=["cope", "convolved"])
def test_padding_after_a_causal_text_changes_nothing_and_an_empty_row_is_zero(make):
    torch.manual_seed(0)
    score, (q, k, v) = make(), torch.randn(3, 2, 2, 9, 4)
    for p in score.parameters():
        torch.nn.init.normal_(p)
    over = Causal() & Padding(torch.tensor([5, 0]))
    found = attend(q, k, v, score, over=over)
    alone = attend(q[:1, :, :5], k[:1, :, :5], v[:1, :, :5], score, over=Causal())
    assert_close(found.out[:1, :, :5], alone.out)
    assert not found.out[1].any() and not found.map.weights()[1].any()
