"""attn_implementation="regard": transformers' models compute the same as with their own attention, or are refused."""

import pytest
import torch

import regard
from regard.integrations.attention_name import parse

transformers = pytest.importorskip("transformers")

from tests.tiny_transformers import inputs_of, tiny_config, tiny_model  # noqa: E402
from transformers import AttentionInterface, AutoModelForCausalLM, AutoModelForSeq2SeqLM  # noqa: E402

import regard.integrations.transformers  # noqa: E402

# Where the model has no SDPA form, its eager function is the peer. tests/integrations/architectures.py has all of them.
WITH_SDPA = [
    "llama",
    "qwen3",
    "mistral",
    "gemma3_text",
    "bert",
    "gpt2",
    "opt",
    "t5",
    "bart",
    "vit",
    "whisper",
    "modernbert",
]
WITHOUT_SDPA = ["gemma2", "gpt_oss", "vaultgemma", "t5gemma"]
OWN_ATTENTION = ["bloom", "falcon", "mpt", "deberta-v2"]


def output_of(model, given):
    found = model(**given)
    return found["logits"] if "logits" in found else found["last_hidden_state"]


def pair(kind):
    return tiny_model(kind, "eager" if kind in WITHOUT_SDPA else "sdpa"), tiny_model(kind, "regard")


@pytest.mark.parametrize("padding", ["", "left", "right"])
@pytest.mark.parametrize("kind", WITH_SDPA + WITHOUT_SDPA)
def test_a_model_gives_what_it_gives_with_its_own_attention(kind, padding):
    peer, ours = pair(kind)
    given = inputs_of(peer, padding)
    if padding and "attention_mask" not in given:
        pytest.skip("images and sounds come without padding")
    expected, found = output_of(peer, given), output_of(ours, given)
    if expected.shape[:2] == given.get("attention_mask", expected).shape[:2] and padding:
        real = given["attention_mask"].bool()
        expected, found = expected[real], found[real]
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5 * expected.abs().max().item())


@pytest.mark.parametrize("kind", WITH_SDPA + WITHOUT_SDPA)
def test_so_do_its_gradients(kind):
    peer, ours = pair(kind)
    given = inputs_of(peer)
    direction = torch.randn_like(output_of(peer, given))
    for model in (peer, ours):
        (output_of(model, given) * direction).sum().backward()
    for (name, p), other in zip(peer.named_parameters(), ours.parameters(), strict=True):
        assert (p.grad is None) == (other.grad is None), name
        if p.grad is not None:
            torch.testing.assert_close(other.grad, p.grad, rtol=1e-3, atol=1e-4 * p.grad.abs().max().item() + 1e-7)


@pytest.mark.parametrize("kind", OWN_ATTENTION)
def test_a_model_that_never_asks_the_interface_is_refused(kind):
    with pytest.raises(ValueError, match="computes attention in its own code"):
        tiny_model(kind, "regard")
    model = tiny_model(kind)
    with pytest.raises(ValueError, match="would change nothing"):
        model.set_attn_implementation("regard:entmax15")


def test_the_mask_of_a_decoder_is_not_lost():
    model = tiny_model("llama", "regard:entmax15")
    given = inputs_of(model, "left")
    full = model(**given).last_hidden_state
    later = {name: x.clone() for name, x in given.items()}
    later["input_ids"][:, 8:] = 5
    torch.testing.assert_close(model(**later).last_hidden_state[:, :8], full[:, :8])
    hidden = {name: x.clone() for name, x in given.items()}
    hidden["input_ids"][0, :4] = 7  # these are padding
    torch.testing.assert_close(model(**hidden).last_hidden_state[0, 4:], full[0, 4:])


@pytest.mark.parametrize("cache", [None, "static"])
@pytest.mark.parametrize("name", ["regard", "regard:sigmoid", "regard:top_k=4"])
@pytest.mark.parametrize("kind", ["llama", "mistral", "gemma3_text", "gpt2"])
def test_generating_step_by_step_is_reading_the_whole(kind, name, cache):
    regard.register(name)
    model = tiny_model(kind, name, AutoModelForCausalLM)
    given = inputs_of(model, "left")
    made = model.generate(
        **given,
        max_new_tokens=6,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
        eos_token_id=None,
        pad_token_id=0,
        **({"cache_implementation": cache} if cache else {}),
    )
    mask = torch.nn.functional.pad(given["attention_mask"], (0, 6), value=1)
    whole = model(made.sequences, attention_mask=mask, position_ids=(mask.cumsum(-1) - 1).clamp_min(0)).logits
    steps = torch.stack(made.logits, 1)
    torch.testing.assert_close(steps, whole[:, -7:-1], rtol=1e-4, atol=1e-4 * steps.abs().max().item())


def test_an_encoder_decoder_generates_as_with_sdpa():
    made = []
    for name in ("sdpa", "regard"):
        model = tiny_model("t5", name, AutoModelForSeq2SeqLM)
        given = inputs_of(model, "right")
        made.append(model.generate(**given, max_new_tokens=6, num_beams=2, do_sample=False, bos_token_id=0))
    assert torch.equal(*made)


@pytest.mark.parametrize(("name", "sparse"), [("regard:top_k=3", True), ("regard:sparsemax", True), ("regard", False)])
def test_weights_come_on_request(name, sparse):
    regard.register(name)
    model = tiny_model("llama", name)
    weights = model(**inputs_of(model), output_attentions=True).attentions
    assert len(weights) == 2 and weights[0].shape == (2, 4, 12, 12)
    torch.testing.assert_close(weights[0].sum(-1), torch.ones(2, 4, 12))
    causal = torch.ones(12, 12, dtype=torch.bool).tril()
    assert not weights[0][..., ~causal].any()
    assert bool((weights[0][..., causal] == 0).any()) == sparse


def test_a_window_joins_the_models_own_mask():
    name = regard.register("regard:softmax,window=3")
    model = tiny_model("llama", name)
    given = inputs_of(model, "left")
    place = torch.arange(12)
    near = (place[:, None] - place < 3) & (place[:, None] >= place)
    for weights in model(**given, output_attentions=True).attentions:
        assert not weights[..., ~near].any()
        assert not weights[0, :, :, :4].any()  # padding
        assert (weights[1][:, near] > 0).all()
    with pytest.raises(ValueError, match="cross-attention"):
        tiny_model("t5", name)
    image = tiny_model("vit", name)  # it builds no mask
    for weights in image(**inputs_of(image), output_attentions=True).attentions:
        n = weights.shape[-1]
        far = (torch.arange(n)[:, None] - torch.arange(n)).abs() >= 3
        assert not weights[..., far].any() and (weights[..., ~far] > 0).all()


def test_dropout_falls_on_the_weights():
    model = tiny_model("bert", "regard").train()
    model.config.attention_probs_dropout_prob = 0.5
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.5
    given = inputs_of(model)
    attention = next(m for m in model.modules() if type(m).__name__.endswith("SelfAttention"))
    attention.dropout.p = 0.5
    assert not torch.equal(output_of(model, given), output_of(model, given))


def test_packed_sequences_do_not_meet():
    model = tiny_model("llama", "regard")
    tokens = inputs_of(model)["input_ids"][:1]
    places = torch.cat([torch.arange(5), torch.arange(7)])[None]
    packed = model(tokens, position_ids=places, use_cache=False).last_hidden_state
    apart = [model(part).last_hidden_state for part in (tokens[:, :5], tokens[:, 5:])]
    torch.testing.assert_close(packed, torch.cat(apart, 1), rtol=1e-4, atol=1e-5)
    attention = AttentionInterface()["regard"]
    q, k, v = torch.randn(3, 1, 2, 12, 8).unbind(0)
    starts = torch.tensor([0, 5, 12], dtype=torch.int32)
    found, _ = attention(torch.nn.Module(), q, k, v, None, is_causal=True, cu_seq_lens_q=starts, cu_seq_lens_k=starts)
    parts = [
        torch.nn.functional.scaled_dot_product_attention(*(x[:, :, rows] for x in (q, k, v)), is_causal=True)
        for rows in (slice(0, 5), slice(5, 12))
    ]
    torch.testing.assert_close(found.transpose(1, 2), torch.cat(parts, 2))


def test_an_unknown_tensor_is_refused():
    attention = AttentionInterface()["regard"]
    q = torch.randn(1, 2, 4, 8)
    with pytest.raises(ValueError, match=r"indices to its attention, which 'regard' would ignore"):
        attention(torch.nn.Linear(1, 1), q, q, q, None, indices=torch.zeros(1))


PAGED = {
    "page_size": 16,
    "num_blocks": 8,
    "max_batch_tokens": 32,
    "max_requests_per_batch": 4,
    "use_async_batching": False,
}


@pytest.mark.slow
def test_continuous_batching_reads_its_paged_cache():
    """transformers knows its own names alone there: ours runs under that of SDPA, in a block."""
    prompts = [[5, 6, 7, 8], [9, 10, 11]]
    settings = transformers.GenerationConfig(max_new_tokens=4, do_sample=False, eos_token_id=-1, pad_token_id=0)
    options = {"generation_config": settings, "continuous_batching_config": batching_config(), "progress_bar": False}

    def made(model):
        found = model.generate_batch(prompts, **options)
        return [tuple(one.generated_tokens) for _, one in sorted(found.items())]

    def one_by_one(model):
        return [tuple(model.generate(torch.tensor([p]), settings)[0, len(p) :].tolist()) for p in prompts]

    peer = tiny_model("llama", "sdpa", AutoModelForCausalLM)
    expected = made(peer)
    assert expected == one_by_one(peer)
    for name, same in (("regard", True), ("regard:entmax15", False)):
        model = tiny_model("llama", name, AutoModelForCausalLM)
        with regard.integrations.transformers.continuous_batching(model):
            found = made(model)
            assert made(peer) == expected  # another model keeps its own
        assert found == one_by_one(model) and (found == expected) == same
        assert model.config._attn_implementation == name
    with pytest.raises(ValueError, match="set Regard's attention first"):
        regard.integrations.transformers.continuous_batching(peer).__enter__()


def batching_config():
    config = getattr(transformers, "ContinuousBatchingConfig", None)
    if config is None:
        pytest.skip("this transformers has no ContinuousBatchingConfig")
    return config(**PAGED)


@pytest.mark.parametrize("cache", ["offloaded", "quantized"])
def test_other_caches_keep_what_they_hold(cache):
    """Where such a cache runs at all here, tokens are those of sdpa with the same cache."""
    options = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    tokens = {}
    for name in ("sdpa", "regard"):
        model = tiny_model("llama", name, AutoModelForCausalLM)
        given = inputs_of(model, "left")
        try:
            tokens[name] = model.generate(**given, **options, cache_implementation=cache)
        except (ImportError, RuntimeError, AssertionError) as error:
            if name == "regard":
                raise
            pytest.skip(f"a cache that is {cache} does not run here: {error}")
    assert torch.equal(tokens["regard"], tokens["sdpa"])


def test_the_attention_changes_at_run_time_and_back():
    model = tiny_model("llama", "sdpa", AutoModelForCausalLM)
    given = inputs_of(model, "left")
    expected = model(**given).logits
    model.set_attn_implementation(regard.register("regard:top_k=2"))
    assert not torch.allclose(model(**given).logits, expected, atol=1e-3)
    model.set_attn_implementation("regard")
    torch.testing.assert_close(model(**given).logits, expected, rtol=1e-4, atol=1e-5)
    model.set_attn_implementation("sdpa")
    assert torch.equal(model(**given).logits, expected)


@pytest.mark.parametrize("kind", ["llama", "gemma2", "gpt_oss", "t5"])
def test_a_recording_of_regards_softmax_gives_the_weights_of_eager(kind):
    eager, ours = tiny_model(kind, "eager"), tiny_model(kind, "regard")
    given = inputs_of(eager, "left")
    out = eager(**given, output_attentions=True)
    expected = out.attentions if kind != "t5" else [*out.encoder_attentions, *out.decoder_attentions]
    with regard.record(ours) as rec:
        ours(**given)
    maps = [amap for amap in rec.maps.values() if kind != "t5" or amap.n == amap.m]
    assert len(maps) == len(expected)
    real = given["attention_mask"].bool() if kind != "t5" else None
    for amap, weights in zip(maps, expected, strict=True):
        found = amap.weights()
        if real is not None:  # rows of padding have no weights of their own
            found, weights = (x.transpose(1, 2)[real][..., : amap.m] for x in (found, weights))
        torch.testing.assert_close(found, weights.detach(), rtol=1e-4, atol=1e-5)


def test_a_recording_reads_it():
    model = tiny_model("llama", "regard:entmax15")
    given = inputs_of(model, "left")
    expected = model(**given, output_attentions=True).attentions
    with regard.record(model) as rec:
        model(**given)
    assert len(rec.maps) == len(expected)
    for amap, weights in zip(rec.maps.values(), expected, strict=True):
        torch.testing.assert_close(amap.weights(), weights.detach(), rtol=1e-5, atol=1e-6)


def test_the_trainer_trains_it(tmp_path):
    model = AutoModelForCausalLM.from_config(tiny_config("llama"), attn_implementation="regard:entmax15")
    rows = [{"input_ids": [1, 5 + i % 3, 9, 4], "labels": [1, 5 + i % 3, 9, 4]} for i in range(8)]
    settings = transformers.TrainingArguments(
        tmp_path, max_steps=3, per_device_train_batch_size=4, use_cpu=True, report_to=[], save_strategy="no"
    )
    before = [p.detach().clone() for p in model.parameters()]
    transformers.Trainer(model, settings, train_dataset=rows).train()
    assert any(not torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("regard:", "is no attention of Regard"),
        ("sdpa", "is no attention of Regard"),
        ("regard:entmx15", "did you mean 'entmax15'"),
        ("regard:top_k=0", "expected a whole number from 1"),
        ("regard:top_k", "'top_k' is unknown"),
        ("regard:softmax,sigmoid", "names two alignments"),
        ("regard:window=-1", "expected a whole number from 1"),
        ("regard:entmax=much", "expected a number"),
    ],
)
def test_names_are_checked(name, message):
    with pytest.raises(ValueError, match=message):
        parse(name)


def test_names_say_what_runs():
    spec = parse("regard:top_k=16,window=256,backend=chunked")
    assert (spec.align.k, spec.window, spec.backend) == (16, 256, "chunked")
    assert parse("regard:entmax=1.3").align.fixed == 1.3
    assert parse("regard").is_softmax and parse("regard:window=9").is_softmax
