"""regard.nn.MultiheadAttention takes what torch's takes and returns what it returns, for any alignment."""

import inspect

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import regard
from regard import ALiBi, Causal, ScaledDot, Window
from regard.alignments import Entmax

DIM, HEADS, BATCH, N, M = 12, 3, 2, 5, 7
KINDS = {
    "plain": {},
    "no bias": {"bias": False},
    "other widths": {"kdim": 8, "vdim": 6},
    "learned key and value": {"add_bias_kv": True},
    "zero key": {"add_zero_attn": True},
    "both": {"add_bias_kv": True, "add_zero_attn": True},
}


def pair(**options):
    options = {"batch_first": True, "dtype": torch.float64, **options}
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(DIM, HEADS, **options)
    for name, p in theirs.named_parameters():
        if "bias" in name:
            nn.init.normal_(p, std=0.3)
    ours = regard.nn.MultiheadAttention(DIM, HEADS, **options)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def inputs(kdim=DIM, vdim=DIM, **_):
    draw = torch.Generator().manual_seed(1)
    return tuple(
        torch.randn(BATCH, size, width, generator=draw, dtype=torch.float64)
        for size, width in ((N, DIM), (M, kdim), (M, vdim))
    )


def masks():
    draw = torch.Generator().manual_seed(2)
    padding = torch.zeros(BATCH, M, dtype=torch.bool)
    padding[0, 4:] = True
    closed = torch.rand(N, M, generator=draw) > 0.7
    closed[:, 0] = False
    added = torch.randn(BATCH * HEADS, N, M, generator=draw, dtype=torch.float64)
    ends = added.clone()
    ends[:, :, 5:] = float("-inf")
    float_padding = torch.zeros(BATCH, M, dtype=torch.float64).masked_fill(padding, float("-inf"))
    return [
        {},
        {"key_padding_mask": padding},
        {"attn_mask": closed},
        {"attn_mask": added},
        {"attn_mask": ends},
        {"key_padding_mask": float_padding, "attn_mask": added},
        {"key_padding_mask": padding, "attn_mask": closed},
    ]


def test_the_arguments_are_those_of_torch():
    theirs, ours = (inspect.signature(x).parameters for x in (nn.MultiheadAttention, regard.nn.MultiheadAttention))
    assert list(ours)[: len(theirs)] == list(theirs)
    assert all(ours[name].default == theirs[name].default for name in theirs)
    assert (
        inspect.signature(nn.MultiheadAttention.forward).parameters.keys()
        == inspect.signature(regard.nn.MultiheadAttention.forward).parameters.keys()
    )


@pytest.mark.parametrize("mask", range(len(masks())))
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_weights_and_gradients_are_those_of_torch(kind, mask):
    theirs, ours = pair(**KINDS[kind])
    assert list(theirs.state_dict()) == list(ours.state_dict())
    given, mask = inputs(**KINDS[kind]), masks()[mask]
    for whole in ({}, {"average_attn_weights": False}, {"need_weights": False}):
        for found, expected in zip(ours(*given, **mask, **whole), theirs(*given, **mask, **whole), strict=True):
            assert (found is None) == (expected is None)
            if expected is not None:
                assert_close(found, expected)
    for module in (theirs, ours):
        out, weights = module(*given, **mask)
        (out.square().sum() + weights.square().sum()).backward()
    for (name, p), other in zip(theirs.named_parameters(), ours.parameters(), strict=True):
        assert_close(other.grad, p.grad, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("shape", ["length first", "without a batch"])
def test_every_layout_of_torch_is_read(shape):
    theirs, ours = pair(batch_first=False)
    query, key, value = inputs()
    given = (
        (query.mT.permute(2, 0, 1), key.mT.permute(2, 0, 1), value.mT.permute(2, 0, 1))
        if shape == "length first"
        else (query[0], key[0], value[0])
    )
    for found, expected in zip(ours(*given), theirs(*given), strict=True):
        assert_close(found, expected)


def test_a_causal_hint_alone_is_enough_and_a_false_one_is_an_error():
    theirs, ours = pair()
    x = inputs()[0]
    causal = torch.ones(N, N, dtype=torch.bool).triu(1)
    expected, _ = theirs(x, x, x, attn_mask=causal)
    assert_close(ours(x, x, x, is_causal=True)[0], expected)
    assert_close(ours(x, x, x, attn_mask=causal, is_causal=True)[0], expected)
    added = nn.Transformer.generate_square_subsequent_mask(N, dtype=torch.float64)
    assert_close(ours(x, x, x, attn_mask=added, is_causal=True)[0], expected)
    with pytest.raises(ValueError, match="but it is not"):
        ours(x, x, x, attn_mask=causal.roll(1, 0), is_causal=True)


def test_a_row_without_keys_gives_the_bias_of_the_output_and_no_nan():
    _, ours = pair()
    given = inputs()
    closed = torch.zeros(N, M, dtype=torch.bool)
    closed[2] = True
    out, weights = ours(*given, attn_mask=closed)
    assert_close(out[:, 2], ours.out_proj.bias.expand(BATCH, -1))
    assert not weights[:, 2].any() and out.isfinite().all()


@pytest.mark.parametrize("align", ["entmax15", "sigmoid", "sparsemax"])
def test_any_alignment_meets_the_masks_as_a_structure_would(align):
    _, ours = pair()
    ours.attend_by(align=align, over=Window(3, 3))
    x = inputs()[0]
    causal = torch.ones(N, N, dtype=torch.bool).triu(1)
    by_mask = ours(x, x, x, attn_mask=causal)
    added = nn.Transformer.generate_square_subsequent_mask(N, dtype=torch.float64)
    for found, expected in zip(ours(x, x, x, attn_mask=added), by_mask, strict=True):
        assert_close(found, expected)
    q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in _projected(ours, x))
    expected = regard.attend(q, k, v, align=align, over=Causal() & Window(3, 3)).out
    assert_close(by_mask[0], ours.out_proj(expected.transpose(1, 2).flatten(-2)))


def _projected(module, x):
    return torch.nn.functional.linear(x, module.in_proj_weight, module.in_proj_bias).chunk(3, -1)


def test_what_an_alignment_learns_is_a_parameter_beside_torchs():
    made = regard.nn.MultiheadAttention(DIM, HEADS, align=Entmax(1.5, learned=True, heads=HEADS), batch_first=True)
    extra = set(made.state_dict()) - set(nn.MultiheadAttention(DIM, HEADS).state_dict())
    assert extra and all(name.startswith("align.") for name in extra)
    x = torch.randn(BATCH, N, DIM)
    made(x, x, x)[0].square().sum().backward()
    assert all(p.grad is not None for p in made.align.parameters())


def test_in_an_encoder_layer_the_fast_path_does_not_pass_it_by():
    layer = nn.TransformerEncoderLayer(DIM, HEADS, 16, batch_first=True, dropout=0.0).eval()
    x = torch.randn(BATCH, N, DIM)
    with torch.no_grad():
        softmax = layer(x)
        own = regard.nn.MultiheadAttention(DIM, HEADS, batch_first=True, align="entmax15")
        own.load_state_dict(layer.self_attn.state_dict())
        layer.self_attn = own.eval()
        found = layer(x)
    assert_close(found, layer(x))  # with gradients nothing is fast
    assert not torch.allclose(found, softmax)
    layer.self_attn.attend_by()
    with torch.no_grad():
        assert_close(layer(x), softmax)


def test_an_encoder_with_nested_tensors_is_an_error():
    layer = nn.TransformerEncoderLayer(DIM, 2, 16, batch_first=True, dropout=0.0)
    encoder = nn.TransformerEncoder(layer, 1).eval()
    encoder.layers[0].self_attn = regard.nn.MultiheadAttention(DIM, 2, batch_first=True).eval()
    padding = torch.zeros(BATCH, N, dtype=torch.bool)
    padding[0, 3:] = True
    with torch.no_grad(), pytest.raises(ValueError, match="use_nested_tensor = False"):
        encoder(torch.randn(BATCH, N, DIM), src_key_padding_mask=padding)


def test_recording_sees_its_weights():
    ours = pair()[1]
    ours.attend_by(ScaledDot() | ALiBi(HEADS), "entmax15")
    x = inputs()[0]
    with regard.record(ours) as rec:
        _, weights = ours(x, x, x, average_attn_weights=False)
    (amap,) = rec.maps.values()
    assert_close(amap.weights(), weights.detach())


def test_wrong_inputs_are_errors():
    _, ours = pair()
    query, key, value = inputs()
    with pytest.raises(ValueError, match="expected \\(batch, length, width\\)"):
        ours(query[None], key, value)
    with pytest.raises(ValueError, match="key has width 3"):
        ours(query, key[..., :3], value)
    with pytest.raises(ValueError, match="expected \\(batch, m\\)"):
        ours(query, key, value, key_padding_mask=torch.zeros(N, M, dtype=torch.bool))
    with pytest.raises(ValueError, match="attn_mask is"):
        ours(query, key, value, attn_mask=torch.zeros(M, N, dtype=torch.bool))
    with pytest.raises(TypeError, match="True = masked out"):
        ours(query, key, value, attn_mask=torch.zeros(N, M, dtype=torch.int64))
