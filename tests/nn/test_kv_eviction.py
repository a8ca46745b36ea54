"""Eviction by column mass: keys that received most are kept, and so is the output."""

import pytest
import torch
from torch.testing import assert_close

from regard import Causal, ScaledDot
from regard.nn import Attention, Cache

END = Causal(align="end")


def decoded(keep, rotary=None, steps=24, start=16):
    """Outputs of the last steps, what each step's evicted keys would have had at most, and the layer's largest value.

    keep(received, length): which keys stay, (B, kv_heads, kept); None: all of them.
    """
    torch.manual_seed(0)
    layer = Attention(32, heads=4, kv_heads=2, rotary=rotary).eval()
    torch.nn.init.normal_(layer.q_proj.bias, std=8.0)  # queries have something in common, as those of trained layers
    tokens = torch.randn(2, steps, 32)
    cache, outs = Cache(), []
    with torch.no_grad():
        amap = layer(tokens[:, :start], over=END, cache=cache).map
        received = amap.mass().unflatten(1, (2, 2)).sum(2)  # (B, kv_heads, m): a group shares its keys
        if keep is not None:
            cache.keep(keep(received, start))
        for t in range(start, steps):
            outs.append(layer(tokens[:, t : t + 1], over=END, cache=cache).out)
    return torch.cat(outs, 1), cache


def top(count):
    return lambda received, length: received.topk(count, -1).indices.sort(-1).values


def bottom(count):
    return lambda received, length: received.topk(count, -1, largest=False).indices.sort(-1).values


def test_all_keys_kept_change_nothing_also_with_rotary_positions():
    for rotary in (None, True):
        assert_close(decoded(top(16), rotary)[0], decoded(None, rotary)[0])


def test_positions_of_later_steps_are_those_without_eviction():
    _, cache = decoded(top(6), rotary=True)
    assert cache.length == 6 + 8 and cache.position == 24 and cache.copy().position == 24
    cache.reset()
    assert cache.position == 0


def test_keeping_the_keys_that_received_most_keeps_the_output_and_keeping_the_others_does_not():
    whole = decoded(None)[0]
    error = [(decoded(choose(8))[0] - whole).norm() / whole.norm() for choose in (top, bottom)]
    assert error[0] < 0.1 and error[0] < error[1] / 5


def test_the_output_moves_by_no_more_than_the_weight_of_what_was_evicted():
    """|y - y'| <= 2 e max |v_j|, where e is the weight that the step gave to keys that are gone."""
    torch.manual_seed(0)
    layer = Attention(32, heads=4, score=ScaledDot(scale=1.5), bias=False).eval()
    layer.out_proj.weight.data = torch.eye(32)
    tokens, cache = torch.randn(2, 20, 32), Cache()
    with torch.no_grad():
        kept = layer(tokens[:, :19], over=END, cache=cache).map.mass().topk(8, -1).indices.sort(-1).values
        whole, amap = layer(tokens[:, 19:], over=END, cache=cache.copy())
        longest = layer.v_proj(tokens).unflatten(-1, (4, 8)).norm(dim=-1).amax(1)  # (B, H)
        cache.keep(kept)
        part = layer(tokens[:, 19:], over=END, cache=cache).out
    gone = 1 - amap.weights()[..., :19].gather(-1, kept[:, :, None]).sum(-1)[..., 0] - amap.weights()[..., 0, 19]
    moved = (whole - part)[:, 0].unflatten(-1, (4, 8)).norm(dim=-1)
    assert (moved <= 2 * gone * longest + 1e-5).all() and gone.max() > 0.01


@pytest.mark.parametrize(
    "index, says",
    [
        (torch.tensor([0.0]), "expected whole numbers"),
        (torch.tensor([16]), "holds 16 steps, expected 0 to 15"),
        (torch.zeros(3, 1, dtype=torch.long), r"\(2, 2\) \+ \(kept,\)"),
    ],
)
def test_an_invalid_index_of_kept_keys_is_an_error(index, says):
    layer, cache = Attention(32, heads=4, kv_heads=2), Cache()
    with pytest.raises(ValueError, match="not empty"):
        cache.keep(torch.tensor([0]))
    layer(torch.randn(2, 16, 32), over=END, cache=cache)
    with pytest.raises(ValueError, match=says):
        cache.keep(index)
