"""replace() runs any plan inside modules of torch and of one's own, and undo() puts the model back."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

import regard
from regard import Causal, Cosine, ScaledDot
from regard.alignments import Entmax
from regard.nn import replace

WIDTH, HEADS = 16, 2


class Sdpa(nn.Module):
    """What a user writes: projections around torch's function."""

    def __init__(self, scale=None):
        super().__init__()
        self.qkv, self.proj, self.scale = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), scale

    def forward(self, x, mask=None, is_causal=False):
        q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal, scale=self.scale)
        return self.proj(y.transpose(1, 2).flatten(-2))


class OwnCode(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = SdpaFree(), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.second(self.first(x))


class SdpaFree(nn.Module):
    def forward(self, x):
        return x


class AttentionByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return (q @ k.mT).softmax(-1) @ v


class SometimesAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.asks = True

    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x) if self.asks else x


def seq2seq():
    torch.manual_seed(0)
    model = nn.Transformer(WIDTH, HEADS, 1, 1, 32, batch_first=True, dropout=0.0)
    for p in model.parameters():
        if p.dim() > 1:
            p.data.mul_(2)
    return model.eval()


def sentences():
    padding = torch.zeros(2, 6, dtype=torch.bool)
    padding[0, 4:] = True
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    given = {"tgt_mask": mask, "src_key_padding_mask": padding, "memory_key_padding_mask": padding}
    return (torch.randn(2, 6, WIDTH), torch.randn(2, 5, WIDTH)), given


def test_a_transformer_gives_what_it_gave_and_then_something_else_and_then_what_it_gave():
    model, (given, masks) = seq2seq(), sentences()
    keys, expected = list(model.state_dict()), model(*given, **masks)
    with torch.no_grad():
        fast = model(*given, **masks)  # by torch's fast path, packed
    with replace(model) as change:
        assert len(change.names) == 3 and list(model.state_dict()) == keys
        assert_close(model(*given, **masks), expected)
        with torch.no_grad():
            assert_close(model(*given, **masks), fast)
    change = replace(model, align="entmax15")
    found = model(*given, **masks)
    with torch.no_grad():
        assert_close(model(*given, **masks), found)
    assert not torch.allclose(found, expected, atol=1e-3)
    change.undo()
    change.undo()
    assert list(model.state_dict()) == keys and model.encoder.use_nested_tensor
    assert torch.equal(model(*given, **masks), expected)
    assert all(type(m) is not regard.nn.MultiheadAttention for m in model.modules())


def test_weights_that_are_trained_meanwhile_stay():
    model, (given, masks) = seq2seq(), sentences()
    before = [p.detach().clone() for p in model.parameters()]
    with replace(model, align="entmax15"):
        step = torch.optim.SGD(model.parameters(), 0.1)
        model(*given, **masks).square().sum().backward()
        step.step()
    after = list(model.parameters())
    assert any(not torch.equal(p, old) for p, old in zip(after, before, strict=True))


@pytest.mark.parametrize("call", ["plain", "mask", "bias", "causal"])
def test_a_module_of_ones_own_is_answered_with_its_masks(call):
    model = nn.Sequential(Sdpa(scale=0.3)).eval()
    x = torch.randn(2, 7, WIDTH)
    bias = torch.randn(1, HEADS, 7, 7, requires_grad=True)
    options = {
        "plain": {},
        "mask": {"mask": torch.rand(7, 7) > 0.3},
        "bias": {"mask": bias},
        "causal": {"is_causal": True},
    }[call]
    if call == "mask":
        options["mask"].fill_diagonal_(True)
    expected = model[0](x, **options)
    (wanted,) = torch.autograd.grad(expected.square().sum(), bias) if call == "bias" else (None,)
    with replace(model):
        found = model[0](x, **options)
        assert_close(found, expected)
        if wanted is not None:
            assert_close(torch.autograd.grad(found.square().sum(), bias)[0], wanted)
    with replace(model, align=regard.TopK(2)), regard.record(model) as rec:
        model[0](x, **options)
    (amap,) = rec.maps.values()
    assert int((amap.weights() > 0).sum(-1).amax()) <= 2


def test_several_batch_axes_and_heads_that_broadcast_are_read():
    model = SometimesAttention().eval()
    x = torch.randn(2, 3, 4, 5, 8)
    expected = model(x)
    with replace(model):
        assert_close(model(x), expected)


def test_another_score_and_a_structure_join():
    model = nn.Sequential(Sdpa()).eval()
    x = torch.randn(2, 7, WIDTH)
    q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in model[0].qkv(x).chunk(3, -1))
    expected = regard.attend(q, k, v, Cosine(), "entmax15", Causal()).out
    with replace(model, score=Cosine(), align="entmax15", over=Causal()):
        assert_close(model(x), model[0].proj(expected.transpose(1, 2).flatten(-2)))
    scaled = nn.Sequential(Sdpa(scale=0.9)).eval()
    with replace(scaled, score=ScaledDot()), pytest.raises(ValueError, match=r"scales its scores by 0\.9"):
        scaled(x)


def test_what_an_alignment_learns_belongs_to_the_model_while_it_is_replaced():
    model = nn.Sequential(Sdpa(), Sdpa())
    keys = list(model.state_dict())
    with replace(model, align=Entmax(1.5, learned=True, heads=HEADS)) as change:
        assert change.names == ("0", "1")
        learned = [p for name, p in model.named_parameters() if "align" in name]
        assert len(learned) == 2  # one for each module
        model(torch.randn(2, 7, WIDTH)).square().sum().backward()
        assert all(p.grad is not None for p in learned)
        copied = copy.deepcopy(model)
    assert list(model.state_dict()) == keys and list(copied.state_dict()) != keys


def test_only_some_modules():
    model = nn.Sequential(Sdpa(), Sdpa(), AttentionByHand())
    with pytest.raises(ValueError, match="2 \\(AttentionByHand computes attention in its own code\\)"):
        replace(model)
    with replace(model, align="sigmoid", only="[01]") as change:
        assert change.names == ("0", "1")


def test_nothing_is_skipped_silently():
    with pytest.raises(ValueError, match="has no attention for replace"):
        replace(OwnCode())
    with pytest.raises(ValueError, match="under 'layers"):
        replace(nn.Sequential(Sdpa()), only="layers.*")
    model = SometimesAttention()
    with replace(model), pytest.raises(RuntimeError, match="ran without calling"):
        model.asks = False
        model(torch.randn(1, 2, 4, 8))
    model = nn.Sequential(Sdpa())
    with replace(model), pytest.raises(ValueError, match="already runs Regard"):
        replace(model)

    class OwnForward(nn.MultiheadAttention):
        def forward(self, x):
            return x

    with pytest.raises(ValueError, match="OwnForward has a forward of its own"):
        replace(nn.Sequential(OwnForward(WIDTH, HEADS)))


def test_a_failed_replacement_leaves_the_model_as_it_was():
    model = nn.Sequential(nn.MultiheadAttention(WIDTH, HEADS), Sdpa())
    with pytest.raises((ValueError, TypeError)):
        replace(model, align="no such alignment")
    assert [type(m) for m in model] == [nn.MultiheadAttention, Sdpa]


def test_models_of_transformers_are_sent_to_their_own_switch():
    class Model(nn.Module):
        def set_attn_implementation(self, name): ...

    with pytest.raises(ValueError, match="set_attn_implementation\\('regard:entmax15'\\)"):
        replace(Model())


def test_a_compiled_model_runs_it():
    model = nn.Sequential(Sdpa()).eval()
    x = torch.randn(2, 7, WIDTH)
    with replace(model, align="entmax15"), torch.no_grad():
        expected = model(x)
        assert_close(torch.compile(model, backend="eager")(x), expected)


def test_a_score_by_its_name_meets_an_additive_mask():
    model, x, bias = nn.Sequential(Sdpa()).eval(), torch.randn(2, 7, WIDTH), torch.randn(7, 7)
    with replace(model, score=Cosine()):
        expected = model[0](x, mask=bias)
    with replace(model, score="cosine"):
        assert_close(model[0](x, mask=bias), expected)
