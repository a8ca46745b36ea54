"""Multi-head layers since 2017, beside twins that write every score and weight."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard import Causal, Full, Padding
from regard.nn import (
    Attention,
    Cache,
    DifferentialAttention,
    GatedAttention,
    GatedDeltaNet,
    GatedLinearAttention,
    LatentAttention,
    Retention,
    TalkingHeadsAttention,
)

DIM, HEADS, N = 24, 3, 9
OVER = [Full(), Causal(), Padding(torch.tensor([9, 4]))]


@pytest.fixture(autouse=True)
def doubles():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def heads(x, count):
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def softmax(s, over):
    keep = torch.ones(2, 1, N, N, dtype=torch.bool)
    if isinstance(over, Causal):
        keep = keep.tril()
    if isinstance(over, Padding):
        keep = keep & (torch.arange(N) < over.lengths[:, None])[:, None, None]
    return s.masked_fill(~keep, float("-inf")).softmax(-1)


@pytest.mark.parametrize("over", OVER, ids=str)
def test_differential_attention_is_a_difference_of_two_softmaxes(over):
    layer, x = DifferentialAttention(DIM, HEADS, depth=2), torch.randn(2, N, DIM)
    q, k, v = heads(layer.q_proj(x), 2 * HEADS), heads(layer.k_proj(x), 2 * HEADS), heads(layer.v_proj(x), HEADS)
    w = softmax(q @ k.mT / 4**0.5, over).unflatten(1, (HEADS, 2))  # a head's two stand side by side
    weights = w[:, :, 0] - layer.share.double() * w[:, :, 1]
    y = weights @ v
    y = y / (y.square().mean(-1, keepdim=True) + 1e-5).sqrt() * (1 - layer.start)
    out, amap = layer(x, over)
    assert_close(out, layer.out_proj(y.transpose(1, 2).flatten(2)))
    assert_close(amap.weights(), weights.detach())
    assert_close(amap[1, 2].tile([4, 0], [3]), weights.detach()[1, 2][[4, 0]][:, [3]])
    assert amap.signed


@pytest.mark.parametrize("over", OVER, ids=str)
def test_talking_heads_mix_scores_and_weights(over):
    layer, x = TalkingHeadsAttention(DIM, HEADS), torch.randn(2, N, DIM)
    q, k, v = (heads(proj(x), HEADS) for proj in (layer.q_proj, layer.k_proj, layer.v_proj))
    s = torch.einsum("hg,bgnm->bhnm", layer.before, q @ k.mT / 8**0.5)
    weights = torch.einsum("hg,bgnm->bhnm", layer.after, softmax(s, over))
    out, amap = layer(x, over)
    assert_close(out, layer.out_proj((weights @ v).transpose(1, 2).flatten(2)))
    assert_close(amap.weights(), weights.detach())
    assert_close(amap[0, 1].row(3), weights.detach()[0, 1, 3])


def test_talking_heads_without_mixing_are_multi_head_attention():
    layer, plain = TalkingHeadsAttention(DIM, HEADS), Attention(DIM, HEADS)
    plain.load_state_dict({name: x for name, x in layer.state_dict().items() if name not in ("before", "after")})
    with torch.no_grad():
        layer.before.copy_(torch.eye(HEADS))
        layer.after.copy_(torch.eye(HEADS))
    x = torch.randn(2, N, DIM)
    assert_close(layer(x).out, plain(x).out)


@pytest.mark.parametrize("gate", ["each", "head"])
def test_an_open_gate_is_plain_attention_and_a_shut_one_is_nothing(gate):
    layer, plain, x = (
        GatedAttention(DIM, HEADS, gate=gate, kv_heads=1),
        Attention(DIM, HEADS, kv_heads=1),
        torch.randn(2, N, DIM),
    )
    plain.load_state_dict({name: p for name, p in layer.state_dict().items() if not name.startswith("gate")})
    nn.init.zeros_(layer.gate_proj.weight)
    for bias, share in ((50.0, 1.0), (0.0, 0.5), (-800.0, 0.0)):
        nn.init.constant_(layer.gate_proj.bias, bias)
        wanted = share * (plain(x, over=Causal()).out - plain.out_proj.bias) + plain.out_proj.bias
        assert_close(layer(x, over=Causal()).out, wanted)


def test_the_absorbed_form_and_decoding_give_the_same_as_the_whole():
    layer, x, cache = LatentAttention(DIM, HEADS, latent=10, rope=4), torch.randn(2, N, DIM), Cache()
    whole, absorbed = (layer(x, over=Causal(), absorbed=way) for way in (False, True))
    assert_close(absorbed.out, whole.out)
    assert_close(absorbed.map.weights(), whole.map.weights())
    steps = [layer(x[:, t : t + 1], over=Causal(align="end"), cache=cache).out for t in range(N)]
    assert_close(torch.cat(steps, 1), whole.out)
    assert cache.keys.shape[-1] + cache.values.shape[-1] == 14


def test_latent_attention_is_its_formula():
    layer, x = LatentAttention(DIM, HEADS, latent=10, rope=4), torch.randn(2, N, DIM)
    c = layer.norm(layer.compress(x))
    k = torch.einsum("bnl,hdl->bhnd", c, layer.expand_keys)
    v = torch.einsum("bnl,hdl->bhnd", c, layer.expand_values)
    turned = layer.rotary(layer.k_rope(x))[:, None]
    s = heads(layer.q_proj(x), HEADS) @ k.mT + layer.rotary(heads(layer.q_rope(x), HEADS)) @ turned.mT
    w = softmax(s / 12**0.5, Causal())
    assert_close(layer(x, over=Causal()).out, layer.out_proj((w @ v).transpose(1, 2).flatten(2)))


@pytest.mark.parametrize(
    "kind", [Retention, GatedLinearAttention, GatedDeltaNet, lambda d, h: GatedDeltaNet(d, h, gate=False)]
)
def test_a_recurrent_layer_runs_token_by_token_and_trains(kind):
    layer, x = kind(DIM, HEADS), torch.randn(2, N, DIM)
    whole, state, steps = layer(x), None, []
    for t in range(N):
        start = {"start": t} if isinstance(layer, Retention) else {}
        found = layer(x[:, t : t + 1], state, **start)
        state, steps = found.state, [*steps, found.out]
    assert_close(torch.cat(steps, 1), whole.out)
    assert whole.map.shape == (2, HEADS, N, N)
    whole.out.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize(
    "kind",
    [
        DifferentialAttention,
        pytest.param(TalkingHeadsAttention, marks=pytest.mark.slow),
        Retention,
        pytest.param(GatedLinearAttention, marks=pytest.mark.slow),
    ],
)
def test_a_layer_compiles_to_the_same_numbers(kind):
    layer, x = kind(DIM, HEADS), torch.randn(2, N, DIM)
    compiled = torch.compile(lambda x: layer(x).out, backend="aot_eager")
    assert_close(compiled(x), layer(x).out)


@pytest.mark.parametrize(
    "kind", [DifferentialAttention, TalkingHeadsAttention, LatentAttention, Retention, GatedDeltaNet]
)
def test_a_wrong_width_says_what_the_layer_was_built_for(kind):
    with pytest.raises(ValueError, match="was built for width 24, but x is"):
        kind(DIM, HEADS)(torch.randn(2, N, DIM + 1))
