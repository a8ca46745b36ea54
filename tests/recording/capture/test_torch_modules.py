"""Recording torch's own modules, and attention that people write by hand; what cannot be read is named."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.functional import scaled_dot_product_attention as aliased
from torch.testing import assert_close

from regard import record


def only(rec):
    assert len(rec.maps) == 1, list(rec.maps)
    return next(iter(rec.maps.values()))


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("mask", ["none", "causal", "padding", "both"])
def test_multihead_attention(need_weights, mask):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(16, 4, batch_first=True)  # in training mode: no fast path, no dropout
    x = torch.randn(2, 6, 16)
    options = {}
    if mask in ("causal", "both"):
        options["attn_mask"] = nn.Transformer.generate_square_subsequent_mask(6).isinf()
    if mask in ("padding", "both"):
        options["key_padding_mask"] = torch.arange(6) >= torch.tensor([[6], [4]])
    bare, _ = layer(x, x, x, need_weights=need_weights, **options)
    with record(layer) as rec:
        out, _ = layer(x, x, x, need_weights=need_weights, **options)
    assert torch.equal(out, bare)
    _, expected = layer(x, x, x, average_attn_weights=False, **options)
    assert_close(only(rec).weights(), expected.detach(), atol=1e-6, rtol=0)
    assert not rec.missed


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
def test_the_fast_path_of_an_encoder_stays_and_is_recorded(padded, norm_first):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True, norm_first=norm_first)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first).eval()
    x = torch.randn(2, 6, 16)
    options = {"src_key_padding_mask": torch.arange(6) >= torch.tensor([[6], [4]])} if padded else {}
    with torch.no_grad():
        bare = encoder(x, **options)
        with record(encoder) as rec:
            out = encoder(x, **options)
        first = encoder.layers[0]
        state = first.norm1(x) if norm_first else x
        _, expected = first.self_attn.train()(
            state, state, state, average_attn_weights=False, key_padding_mask=options.get("src_key_padding_mask")
        )
    assert torch.equal(out, bare)
    assert list(rec.maps) == ["layers.0.self_attn", "layers.1.self_attn"] and not rec.missed
    rows = slice(None) if not padded else slice(0, 4)
    assert_close(rec.maps["layers.0.self_attn"].weights()[:, :, rows], expected[:, :, rows], atol=1e-6, rtol=0)


def test_a_whole_transformer():
    torch.manual_seed(0)
    model = nn.Transformer(16, 4, 2, 2, 32, batch_first=True).eval()
    source, target = torch.randn(2, 7, 16), torch.randn(2, 5, 16)
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    bare = model(source, target, tgt_mask=causal, tgt_is_causal=True)
    with record(model) as rec:
        out = model(source, target, tgt_mask=causal, tgt_is_causal=True)
    assert torch.equal(out, bare) and not rec.missed
    shapes = {name: amap.shape[2:] for name, amap in rec.maps.items()}
    assert shapes == {
        **{f"encoder.layers.{i}.self_attn": (7, 7) for i in (0, 1)},
        **{f"decoder.layers.{i}.self_attn": (5, 5) for i in (0, 1)},
        **{f"decoder.layers.{i}.multihead_attn": (5, 7) for i in (0, 1)},
    }
    w = rec.maps["decoder.layers.0.self_attn"].weights()
    assert (w.triu(1) == 0).all()


class ByHand(nn.Module):
    """Attention in many spellings."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def forward(self, q, k, v):
        if self.how == "alias":
            return aliased(q, k, v)
        if self.how == "torch.ops":
            return torch.ops.aten.scaled_dot_product_attention(q, k, v)
        if self.how == "kernel":
            return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0]
        s = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if self.how == "timm":  # as in timm's vision transformers without the fused kernel
            w = nn.Dropout(0.0)(s.softmax(dim=-1))
            return w @ v
        if self.how == "einsum":
            return torch.einsum("bhij,bhjd->bhid", torch.softmax(s, -1), v)
        if self.how == "einsum, keys first":
            w = F.softmax(s.transpose(-1, -2), dim=-2)
            return torch.einsum("bhji,bhjd->bhid", w, v)
        if self.how == "bmm":
            w = F.softmax(s, -1, dtype=torch.float32).to(v.dtype).flatten(0, 1)
            return torch.bmm(w, v.flatten(0, 1)).view_as(q)
        if self.how == "turned":
            return (v.mT @ torch.softmax(s, -1).mT).mT
        if self.how == "product and sum":
            w = torch.softmax(s[:, 0, 0], -1)  # (B, m), as in a reader of sequences
            return (w.unsqueeze(-1) * v[:, 0]).sum(1)
        if self.how == "masked after":
            w = torch.softmax(s, -1).masked_fill(s > 100, 0.0)
            return torch.matmul(w, v)
        raise ValueError(self.how)


@pytest.mark.parametrize(
    "how",
    [
        "alias",
        "torch.ops",
        "kernel",
        "timm",
        "einsum",
        "einsum, keys first",
        "bmm",
        "turned",
        "product and sum",
        "masked after",
    ],
)
def test_every_spelling_is_read(how):
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4)
    model = ByHand(how)
    bare = model(q, k, v)
    with record(model) as rec:
        out = model(q, k, v)
    assert torch.equal(out, bare) and not rec.missed
    expected = (q @ k.mT / 2).softmax(-1)
    found = only(rec).weights()
    if how == "product and sum":
        assert_close(found.reshape(2, 5), expected[:, 0, 0], atol=1e-6, rtol=0)
    else:
        assert_close(found.reshape(expected.shape), expected, atol=1e-6, rtol=0)


class Scaled(nn.Module):
    def forward(self, q, k, v, function):
        return function(q, k, v, scale=0.9)


@pytest.mark.parametrize(
    "function",
    [F.scaled_dot_product_attention, torch.ops.aten.scaled_dot_product_attention],
    ids=["torch", "torch.ops"],
)
def test_a_scale_of_the_models_own_is_that_of_the_map(function):
    q, k, v = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 4), torch.randn(2, 3, 7, 4)
    model = Scaled()
    with record(model) as rec:
        model(q, k, v, function)
    assert_close(only(rec).weights(), (0.9 * q @ k.mT).softmax(-1), atol=1e-6, rtol=0)


class Exponentials(nn.Module):
    def forward(self, q, k, v):
        e = (q @ k.mT).exp()
        return (e / e.sum(-1, keepdim=True)) @ v


class Gated(nn.Module):
    def forward(self, q, k, v):
        return torch.sigmoid(q @ k.mT) @ v


@pytest.mark.parametrize(
    "model, truth", [(Exponentials(), lambda s: s.softmax(-1)), (Gated(), torch.sigmoid)], ids=["exp", "sigmoid"]
)
def test_weights_that_no_softmax_made_are_maps(model, truth):
    q, k, v = (torch.randn(2, 3, 5, 4) for _ in range(3))
    with record(model) as rec:
        model(q, k, v)
    assert not rec.missed
    assert_close(only(rec).weights(), truth(q @ k.mT), atol=1e-6, rtol=1e-5)


class Running(nn.Module):
    def forward(self, q, k, v):
        w = (q @ k.mT).softmax(-1)
        return (w.unsqueeze(-1) * v.unsqueeze(-3)).cumsum(-2)[..., -1, :]


def test_what_cannot_be_read_is_named():
    q, k, v = (torch.randn(2, 3, 5, 4) for _ in range(3))
    model = Running()
    with record(model) as rec:
        model(q, k, v)
    assert not rec.maps
    (missed,) = rec.missed
    assert (missed.site, missed.operator) == ("Running", "Tensor.cumsum")
    assert "running sum" in missed.reason and missed.file.endswith("test_torch_modules.py") and missed.line > 0


def test_a_classifier_is_no_attention():
    model = nn.Sequential(nn.Linear(4, 8), nn.Sigmoid(), nn.Linear(8, 3), nn.Softmax(-1), nn.Linear(3, 2))
    with record(model) as rec:
        model(torch.randn(2, 6, 4))
    assert not rec.maps and not rec.missed


def test_a_model_of_nothing_and_a_wrong_argument():
    with record(nn.Linear(2, 2)) as rec:
        aliased(*(torch.randn(1, 1, 3, 2) for _ in range(3)))  # not the model's
    assert not rec.maps
    with pytest.raises(ValueError, match="keep='all'"):
        record(keep="all")
    with pytest.raises(TypeError, match=r"expected a torch.nn.Module"):
        record("bert")


def test_gradients_of_weights_without_a_slow_path():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 5, 4, requires_grad=True) for _ in range(3))
    pull = torch.randn(2, 3, 5, 4)
    with record(grad=True) as rec:
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    (out * pull).sum().backward()
    expected = (pull @ v.detach().mT).tril()
    assert_close(rec.gradients["function"].weights(), expected, atol=1e-6, rtol=0)
    with record(grad=True) as rec:
        F.scaled_dot_product_attention(q, k, v)
    with pytest.raises(RuntimeError, match="backward"):
        rec.gradients["function"].weights()


def test_sinks_that_transformers_applies_after_flex_attention():
    from torch.nn.attention.flex_attention import flex_attention

    q, k, v = (torch.randn(1, 2, 16, 16) for _ in range(3))
    sinks = torch.randn(2)

    def flex_attention_forward(query, key, value, s_aux):
        return flex_attention(query, key, value)

    with record() as rec:
        flex_attention_forward(q, k, v, sinks)
    scores = torch.cat([q @ k.mT / 4, sinks.view(1, 2, 1, 1).expand(1, 2, 16, 1)], -1)
    assert_close(only(rec).weights(), scores.softmax(-1)[..., :-1], atol=1e-6, rtol=0)
