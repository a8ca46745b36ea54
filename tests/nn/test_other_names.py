"""nn.Attention by the names that other libraries have for its arguments."""

import pytest
import torch

from regard import Causal
from regard.nn import Attention


def test_sizes_by_other_names_build_the_same_layer():
    torch.manual_seed(0)
    ours = Attention(16, heads=4, kv_heads=2, key_dim=8, d_k=6, d_v=6)
    torch.manual_seed(0)
    theirs = Attention(embed_dim=16, num_heads=4, num_kv_heads=2, kdim=8, head_dim=6)
    same = zip(ours.state_dict().items(), theirs.state_dict().items(), strict=True)
    assert all(a == b and torch.equal(x, y) for (a, x), (b, y) in same)
    assert theirs.sizes["dim"] == 16
    for names in ({"d_model": 16, "nhead": 4}, {"dim": 16, "n_head": 4}, {"dim": 16, "heads": 4, "dim_head": 4}):
        layer = Attention(**names)
        assert (layer.dim, layer.heads, layer.d_k, layer.d_v) == (16, 4, 4, 4)
    for name in ("attn_drop", "attention_dropout", "attn_dropout", "dropout_p"):
        assert Attention(16, 4, **{name: 0.3}).dropout == 0.3


def test_what_is_so_already_may_be_said():
    Attention(16, 4, batch_first=True, add_zero_attn=False, add_bias_kv=False, is_causal=False, rope=False)
    layer, x = Attention(16, 4), torch.randn(2, 5, 16)
    said = layer(x, x, x, attn_mask=None, key_padding_mask=None, need_weights=False, past_key_values=None)
    assert torch.equal(said.out, layer(x).out)


def test_a_call_may_say_is_causal():
    layer, x = Attention(16, heads=4), torch.randn(2, 5, 16)
    assert torch.equal(layer(x, is_causal=True).out, layer(x, over=Causal()).out)
    assert torch.equal(layer(x, over="causal").out, layer(x, over=Causal()).out)


@pytest.mark.parametrize(
    "given, says",
    [
        ({"num_heads": 4, "heads": 4}, "these are one argument"),
        ({"batch_first": False}, "as with batch_first=True"),
        ({"flash": True}, r'attention\(x, backend="sdpa"\)'),
        ({"proj_drop": 0.1}, "put an nn.Dropout behind the layer"),
        ({"num_groups": 2}, "write kv_heads="),
        ({"block_size": 1024}, "a layer takes any length"),
        ({"drpout": 0.1}, "did you mean dropout"),
        ({"causal": True}, r'say it at the call: attention\(x, over="causal"\)'),
        ({"rope_theta": 1e4}, "write rotary=10000.0"),
    ],
)
def test_arguments_that_a_layer_has_not_are_answered(given, says):
    with pytest.raises(TypeError, match=says):
        Attention(**({"dim": 16, "heads": 4} | given))


@pytest.mark.parametrize(
    "given, says",
    [
        ({"attn_mask": torch.ones(5, 5)}, r"over=Mask\(keep=~attn_mask\) where it means masked out"),
        ({"key_padding_mask": torch.zeros(2, 5)}, r"over=Padding\(lengths\)"),
        ({"need_weights": True}, r"out, amap = attention\(x\)"),
        ({"scale": 2.0}, r"score=ScaledDot\(scale=...\)"),
        ({"past_key_values": ()}, r"cache=Cache\(\)"),
        ({"use_cache": True}, r"cache=Cache\(\)"),
        ({"position_ids": torch.arange(5)}, "write positions="),
        ({"hidden_states": torch.randn(2, 5, 16)}, r"write attention\(x\)"),
        ({"memory": torch.randn(2, 5, 16)}, r"write attention\(query, memory\)"),
        ({"softcap": 50.0}, r"score=SoftCap\(50.0\)"),
        ({"lengths": torch.tensor([5, 3])}, r"over=Padding\(lengths\)"),
        ({"cahce": None}, "did you mean cache"),
    ],
)
def test_arguments_that_a_call_has_not_are_answered(given, says):
    with pytest.raises(TypeError, match=says):
        Attention(16, heads=4)(torch.randn(2, 5, 16), **given)
