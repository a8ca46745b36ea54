"""timm's models run any plan by nn.replace, and give their own outputs with softmax."""

import pytest
import torch

import regard
from regard import nn

timm = pytest.importorskip("timm", reason="timm is not installed (make test-integrations)")

SMALL = {
    "vit_tiny_patch16_224": {"img_size": 32, "patch_size": 8, "embed_dim": 24, "depth": 2, "num_heads": 3},
    "swin_tiny_patch4_window7_224": {
        "img_size": 32,
        "window_size": 4,
        "embed_dim": 12,
        "depths": (2, 2),
        "num_heads": (2, 3),
    },
    "beit_base_patch16_224": {"img_size": 32, "patch_size": 8, "embed_dim": 24, "depth": 2, "num_heads": 3},
    "eva02_tiny_patch14_224": {"img_size": 28, "patch_size": 7, "embed_dim": 24, "depth": 2, "num_heads": 3},
}


def small(name, seed=0):
    torch.manual_seed(seed)
    model = timm.create_model(name, num_classes=5, **SMALL[name]).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.1)  # heads and position tables begin at zero
    return model, torch.randn(2, 3, SMALL[name]["img_size"], SMALL[name]["img_size"])


@pytest.mark.parametrize("name", SMALL)
def test_softmax_gives_the_models_own_outputs_and_gradients_and_entmax_others(name):
    model, x = small(name)
    names = [key for key, _ in model.named_parameters()]
    expected = model(x)
    wanted = torch.autograd.grad(expected.square().sum(), model.parameters(), allow_unused=True)
    with nn.replace(model) as change:
        assert len(change.names) >= 2 and [key for key, _ in model.named_parameters()] == names
        found = model(x)
        torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5 * expected.abs().max().item())
        grads = torch.autograd.grad(found.square().sum(), model.parameters(), allow_unused=True)
    for ours, theirs in zip(grads, wanted, strict=True):
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4 * theirs.abs().max().item() + 1e-7)
    with nn.replace(model, align="entmax15"), regard.record(model) as rec:
        assert not torch.allclose(model(x), expected, atol=1e-4 * expected.abs().max().item())
    assert len(rec.maps) == len(change.names)
    assert torch.equal(model(x), expected)


def test_fused_attn_is_switched_on_and_back():
    model, x = small("vit_tiny_patch16_224")
    for block in model.blocks:
        block.attn.fused_attn = False
    expected = model(x)
    with nn.replace(model) as change:
        torch.testing.assert_close(model(x), expected, rtol=1e-4, atol=1e-4)
        assert all(block.attn.fused_attn for block in model.blocks)
    assert change.names == ("blocks.0.attn", "blocks.1.attn")
    assert not any(block.attn.fused_attn for block in model.blocks)


@pytest.mark.parametrize("name", ["levit_128s", "swinv2_cr_tiny_ns_224", "resnet10t"])
def test_what_computes_attention_by_itself_or_has_none_is_refused(name):
    model = timm.create_model(name)
    with pytest.raises(ValueError, match=r"computes attention in its own code|has no attention for replace"):
        nn.replace(model, align="entmax15")
