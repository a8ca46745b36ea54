"""Keys of low rank, keys of another layer, scores of several tokens: beside twins that write every weight."""

import pytest
import torch
from torch import nn as torch_nn
from torch.nn.functional import conv2d, pad
from torch.testing import assert_close

from regard import Causal, Padding, attend
from regard.nn import Cache, CrossLayerAttention, MultiTokenAttention, TensorProductAttention

DIM, HEADS, N = 24, 4, 11


@pytest.fixture(autouse=True)
def doubles():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def heads(x, count):
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def decoded(layer, x, over):
    cache = Cache()
    steps = [layer(x[:, t : t + 1], over=over, cache=cache) for t in range(N)]
    return torch.cat([step.out for step in steps], 1), steps[-1].map, cache


def test_tensor_products_are_sums_of_outer_products_and_only_factors_are_cached():
    layer, x = TensorProductAttention(DIM, HEADS, rank=2, rank_q=3), torch.randn(2, N, DIM)

    def made(key, rank):
        a = layer.over_heads[key](x).unflatten(-1, (rank, HEADS))
        b = layer.over_width[key](x).unflatten(-1, (rank, 6))
        out = torch.zeros(2, HEADS, N, 6)
        for t in range(N):
            for r in range(rank):
                turned = b[:, t, r] if key == "v" else layer.rotary(b[:, t, r].unsqueeze(-2), t).squeeze(-2)
                out[:, :, t] += a[:, t, r, :, None] * turned[:, None] / rank
        return out

    q, k, v = made("q", 3), made("k", 2), made("v", 2)
    s = (q @ k.mT / 6**0.5).masked_fill(torch.ones(N, N, dtype=torch.bool).triu(1), float("-inf"))
    wanted = layer.out_proj((s.softmax(-1) @ v).transpose(1, 2).flatten(2))
    whole = layer(x, Causal())
    assert_close(whole.out, wanted)
    assert_close(whole.map.weights(), s.softmax(-1).detach())
    out, _, cache = decoded(layer, x, Causal(align="end"))
    assert_close(out, wanted)
    assert cache.keys.shape[-1] + cache.values.shape[-1] == 2 * 2 * (HEADS + 6)


def test_a_layer_reads_the_keys_of_the_layer_below():
    below, above = CrossLayerAttention(DIM, HEADS, kv_heads=2), CrossLayerAttention(DIM, HEADS, kv_heads=2, own=False)
    x, y = torch.randn(2, 2, N, DIM)
    first = below(x, Causal())
    k, v = first.state.chunk(2, -1)
    assert k.shape == (2, 2, N, 6)
    q = above.rotary(heads(above.q_proj(y), HEADS))
    wanted = attend(q, k, v, over=Causal())
    found = above(y, Causal(), state=first.state)
    assert_close(found.out, above.out_proj(wanted.out.transpose(1, 2).flatten(2)))
    assert_close(found.map.weights(), wanted.map.weights())
    cache, steps = Cache(), []
    for t in range(N):
        step = below(x[:, t : t + 1], Causal(align="end"), cache=cache)
        steps.append(above(y[:, t : t + 1], Causal(align="end"), state=step.state).out)
    assert_close(torch.cat(steps, 1), found.out)
    found.out.square().sum().backward()
    assert below.kv_proj.weight.grad.abs().sum() > 0  # the keys learn from the layer above
    with pytest.raises(ValueError, match="no state= and has no keys"):
        above(y, Causal())


def test_multi_token_attention_convolves_scores_and_mixes_heads():
    layer, x = MultiTokenAttention(DIM, HEADS, query=3, key=4, group=2), torch.randn(2, N, DIM)
    torch_nn.init.normal_(layer.score.kernel)
    torch_nn.init.normal_(layer.mix)
    q, k, v = (heads(proj(x), HEADS) for proj in (layer.q_proj, layer.k_proj, layer.v_proj))
    matrix = (layer.rotary(q) @ layer.rotary(k).mT / 6**0.5).tril()
    s = conv2d(pad(matrix, (2, 1, 2, 0)), layer.score.kernel.flip(-1, -2)[:, None], groups=HEADS)
    w = s.masked_fill(torch.ones(N, N, dtype=torch.bool).triu(1), float("-inf")).softmax(-1)
    mixed = torch.einsum("hg,bgnm->bhnm", torch.block_diag(*layer.mix), w)
    y = mixed @ v
    y = y / (y.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    wanted = layer.out_proj(y.transpose(1, 2).flatten(2))
    whole = layer(x)
    assert_close(whole.out, wanted)
    assert_close(whole.map.weights(), mixed.detach())
    out, last, _ = decoded(layer, x, None)
    assert_close(out, wanted)
    assert_close(last.weights()[..., 0, :], mixed.detach()[..., -1, :])
    lengths = torch.tensor([N, 4])
    assert_close(layer(x, Padding(lengths)).out[1, :4], layer(x[1:, :4]).out[0])


def test_a_new_multi_token_layer_weighs_as_softmax_does():
    layer, x = MultiTokenAttention(DIM, HEADS), torch.randn(2, N, DIM)
    q, k, v = (heads(proj(x), HEADS) for proj in (layer.q_proj, layer.k_proj, layer.v_proj))
    wanted = attend(layer.rotary(q), layer.rotary(k), v, over=Causal()).map
    assert_close(layer(x).map.weights(), wanted.weights())
