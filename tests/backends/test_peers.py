"""The same numbers as others: torch's fused attention and its multi-head module, the entmax package, FlexAttention."""

import entmax
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard import (
    ALiBi,
    Causal,
    Entmax,
    Mask,
    Padding,
    ScaledDot,
    SoftCap,
    Sparsemax,
    Window,
    attend,
)

BACKENDS = ["reference", "chunked"]


def tensors(*sizes, dtype=torch.float64):
    return [torch.randn(*size, dtype=dtype, requires_grad=True) for size in sizes]


def with_gradients(out, inputs, pull):
    return (out.detach(), *torch.autograd.grad(out, inputs, pull))


@pytest.mark.parametrize("backend", [*BACKENDS, "sdpa"])
@pytest.mark.parametrize("kind", ["full", "causal", "mask", "scale", "grouped"])
def test_scaled_dot_product_attention_is_torchs(kind, backend):
    heads = 2 if kind == "grouped" else 4
    q, k, v = tensors((2, 4, 7, 8), (2, heads, 7, 8), (2, heads, 7, 8))
    keep = torch.rand(2, 1, 7, 7) < 0.7
    keep[..., 0] = True
    score, over, peer = {
        "full": (ScaledDot(), None, {}),
        "causal": (ScaledDot(), Causal(), {"is_causal": True}),
        "mask": (ScaledDot(), Mask(keep=keep), {"attn_mask": keep}),
        "scale": (ScaledDot(scale=0.7), None, {"scale": 0.7}),
        "grouped": (ScaledDot(), None, {"enable_gqa": True}),
    }[kind]
    pull = torch.randn(2, 4, 7, 8, dtype=torch.float64)
    ours = with_gradients(attend(q, k, v, score, over=over, backend=backend).out, [q, k, v], pull)
    theirs = with_gradients(F.scaled_dot_product_attention(q, k, v, **peer), [q, k, v], pull)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", [*BACKENDS, "sdpa"])
def test_multi_head_attention_is_projections_around_attend(backend):
    """nn.MultiheadAttention with its own weights, padding and a causal mask: outputs and weights."""
    peer = nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    x = torch.randn(2, 6, 12, dtype=torch.float64)
    lengths = torch.tensor([6, 4])
    closed = torch.arange(6) >= lengths[:, None]  # in their masks True means *drop*
    ahead = torch.ones(6, 6, dtype=torch.bool).triu(1)
    theirs, weights = peer(x, x, x, key_padding_mask=closed, attn_mask=ahead, average_attn_weights=False)
    q, k, v = (
        y.unflatten(-1, (3, 4)).transpose(1, 2)
        for y in F.linear(x, peer.in_proj_weight, peer.in_proj_bias).chunk(3, -1)
    )
    over = Causal() & Padding(lengths) if backend != "sdpa" else Mask(keep=~(ahead | closed[:, None, None, :]))
    out, amap = attend(q, k, v, over=over, backend=backend)
    torch.testing.assert_close(peer.out_proj(out.transpose(1, 2).flatten(-2)), theirs, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(amap.weights(), weights, rtol=1e-12, atol=1e-12)


def weights_of(s, align, backend):
    """Keys and values that are the identity: the score of a pair is an entry of s, the output is its weight."""
    one = torch.eye(s.shape[-1], dtype=s.dtype)
    return attend(
        s, one.expand(*s.shape[:-2], -1, -1), one.expand(*s.shape[:-2], -1, -1), "dot", align, backend=backend
    ).out


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("align", "peer"),
    [
        (Sparsemax(), lambda s: entmax.sparsemax(s, -1)),
        (Entmax(1.5), lambda s: entmax.entmax15(s, -1)),
        (Entmax(2.0), lambda s: entmax.entmax_bisect(s, 2.0, -1)),
        (Entmax(1.25), lambda s: entmax.entmax_bisect(s, 1.25, -1)),
        (Entmax(3.0), lambda s: entmax.entmax_bisect(s, 3.0, -1)),
    ],
    ids=["sparsemax", "entmax15", "bisect 2", "bisect 1.25", "bisect 3"],
)
def test_sparse_weights_and_gradients_are_those_of_the_entmax_package(align, peer, backend):
    (s,) = tensors((2, 3, 5, 9))
    pull = torch.randn(2, 3, 5, 9, dtype=torch.float64)
    ours, theirs = (with_gradients(w, [s], pull) for w in (weights_of(s, align, backend), peer(s)))
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)  # their bisection stops after 50 halvings
    assert torch.equal(ours[0] == 0, theirs[0] == 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_learned_alpha_has_the_gradient_of_the_entmax_package(backend):
    (s,) = tensors((2, 3, 5, 9))
    align = Entmax(1.5, learned=True, heads=3).double()
    with torch.no_grad():
        align.raw += torch.tensor([-1.0, 0.0, 1.5], dtype=torch.float64)
    pull = torch.randn(2, 3, 5, 9, dtype=torch.float64)
    ours = with_gradients(weights_of(s, align, backend), [s, align.raw], pull)
    alpha = 1 + torch.sigmoid(align.raw)
    theirs = with_gradients(
        entmax.entmax_bisect(s, alpha[None, :, None, None].expand(2, 3, 5, 1), -1), [s, align.raw], pull
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_flex_attention_is_attend_with_modifiers():
    """Forward alone (FlexAttention has no backward on a CPU): soft cap, ALiBi, grouped queries and a causal window."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v = torch.randn(2, 4, 150, 16), torch.randn(2, 2, 150, 16), torch.randn(2, 2, 150, 16)
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])

    def score_mod(s, b, h, i, j):
        return 2.0 * torch.tanh(s / 2.0) - slopes[h] * (i - j).abs()

    def mask_mod(b, h, i, j):
        return (j <= i) & (i - j <= 20)

    blocks = create_block_mask(mask_mod, None, None, 150, 150, device="cpu")
    theirs = torch.compile(flex_attention)(q, k, v, score_mod=score_mod, block_mask=blocks, enable_gqa=True)
    score = ScaledDot() | SoftCap(2.0) | ALiBi(slopes=slopes)
    for backend in BACKENDS:
        ours = attend(q, k, v, score, over=Causal() & Window(20, 0), backend=backend).out
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)  # fp32, two orders of summation
