"""Generation as servers run it: each cache, beams, assistants, compiled static caches, pages: exact, or told."""

import pytest
import torch
from tests.zoo.measure import measure
from torch.testing import assert_close

from regard import record

transformers = pytest.importorskip("transformers")
STEPS = 5


def llama(implementation="sdpa"):
    torch.manual_seed(0)
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "pad_token_id": 0}
    config = transformers.LlamaConfig.from_dict(
        sizes | {"num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.3}
    )
    config.eos_token_id = None
    config._attn_implementation = implementation
    return transformers.LlamaForCausalLM(config).eval()


IDS = torch.randint(1, 64, (2, 4), generator=torch.Generator().manual_seed(0))
PADDED = {"input_ids": IDS, "attention_mask": torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1]])}
HOW = {
    "dynamic cache": {},
    "static cache": {"cache_implementation": "static"},
    "sliding window": {"cache_implementation": "sliding_window"},
    "no cache": {"use_cache": False},
    "beams": {"num_beams": 3},
    "prefill in chunks": {"prefill_chunk_size": 2},
}


def generated(model, **more):
    options = {"max_new_tokens": STEPS, "do_sample": False} | more
    return model.generate(**(PADDED | options))


def recorded(model, run):
    bare = run()
    with record(model) as rec:
        out = run()
    assert torch.equal(bare, out)
    return rec


@pytest.mark.parametrize("how", HOW)
def test_each_way_of_generating_is_recorded_with_the_weights_of_the_slow_path(how):
    rec = recorded(model := llama(), lambda: generated(model, **HOW[how]))
    assert not rec.missed
    slow = llama("eager")
    with record(slow) as written:
        generated(slow, **HOW[how])
    assert list(rec.maps) == list(written.maps) and len(rec.maps) >= 2 * STEPS
    for site, amap in rec.maps.items():
        fused, by_hand = amap.weights(), written.maps[site].weights()
        read = torch.ones(fused.shape[-2], dtype=torch.bool)
        if amap.n > 1:  # a padded query attends as each path likes
            read = torch.arange(fused.shape[-2]) > 0
        assert_close(fused[:, :, read], by_hand[:, :, read], atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "more", [{"prompt_lookup_num_tokens": 2}, {"assistant_model": None}], ids=["lookup", "assistant"]
)
def test_assisted_decoding_records_the_model_that_was_asked_for(more):
    model = llama()
    if "assistant_model" in more:
        more = {"assistant_model": llama()}
    one = {"input_ids": IDS[1:], "attention_mask": None}
    rec = recorded(model, lambda: generated(model, **(one | more)))
    assert not rec.missed and set(rec.maps) >= {"model.layers.0.self_attn", "model.layers.1.self_attn"}


def test_a_compiled_model_on_a_static_cache_runs_its_eager_code_and_is_recorded():
    model = llama()
    compiled = torch.compile(model, mode="reduce-overhead", backend="eager")

    def run():
        cache = transformers.StaticCache(config=model.config, max_cache_len=8)
        with torch.no_grad():
            return compiled(**PADDED, past_key_values=cache, use_cache=True).logits

    rec = recorded(model, run)
    assert list(rec.maps) == ["model.layers.0.self_attn", "model.layers.1.self_attn"] and not rec.missed
    weights = rec.maps["model.layers.0.self_attn"].weights()
    assert weights.shape == (2, 4, 4, 8) and not weights[..., 4:].any()


def int8_cache(config):
    """Keys and values in 8 bits, the newest two as they are: what the packages for quantised caches do."""
    caches = pytest.importorskip("transformers.cache_utils")

    class Int8(caches.QuantizedLayer):
        def _quantize(self, tensor, axis):
            scale = tensor.abs().amax() / 127
            return (tensor / scale).round().to(torch.int8), scale

        def _dequantize(self, quantised):
            return quantised[0] * quantised[1]

    return caches.Cache(layers=[Int8(residual_length=3) for _ in range(config.num_hidden_layers)])


def fp8_cache(config):
    if not hasattr(transformers.cache_utils, "Fp8QuantizedLayer"):
        pytest.skip("this transformers has no quantised cache in 8-bit floating point")
    return transformers.QuantizedCache("fp8", config)


def gemma():
    """Sliding windows and full attention by turns: a hybrid cache."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "head_dim": 8}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": 4, "pad_token_id": 0}
    config = transformers.Gemma3TextConfig.from_dict(
        sizes | heads | {"layer_types": ["sliding_attention", "full_attention"]}
    )
    config.eos_token_id = None
    return transformers.Gemma3ForCausalLM(config).eval()


def bart():
    torch.manual_seed(0)
    sizes = {"vocab_size": 64, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "max_position_embeddings": 64}
    heads = dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4)
    ffn = {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "decoder_start_token_id": 1, "pad_token_id": 0}
    config = transformers.BartConfig.from_dict(sizes | heads | ffn)
    config.eos_token_id = config.forced_eos_token_id = None
    return transformers.BartForConditionalGeneration(config).eval()


CACHES = {
    "quantised to int8": (llama, lambda model: {"past_key_values": int8_cache(model.config)}),
    "quantised to fp8": (llama, lambda model: {"past_key_values": fp8_cache(model.config)}),
    "sliding and full": (gemma, lambda model: {}),
    "sliding and full, static": (gemma, lambda model: {"cache_implementation": "static"}),
    "encoder and decoder": (bart, lambda model: {}),
}


@pytest.mark.parametrize("cache", CACHES)
def test_every_step_on_a_cache_is_exact_beside_an_audit_of_an_unrecorded_run(cache):
    """Twelve steps, so that most run without the function mode; a quantised cache changes keys of earlier steps."""
    make, options = CACHES[cache]
    model = make()

    def run():
        more = {"max_new_tokens": 12, "min_new_tokens": 12, "do_sample": False}
        return model.generate(**PADDED, **more, **options(model))

    found = measure(model, run, freeze=False)
    assert found.equal and found.exact == found.maps >= 24 and not found.entries
    assert not found.silent and not found.wrong, found


def test_a_quantised_cache_that_needs_a_package_says_so_and_the_record_goes_on():
    model = llama()
    if transformers.utils.is_optimum_quanto_available():
        pytest.skip("optimum-quanto is installed: its cache is recorded like any other")
    with record(model) as rec:
        with pytest.raises(ImportError, match="quanto"):
            generated(model, cache_implementation="quantized", cache_config={"backend": "quanto"})
        generated(model)
    assert len(rec.maps) == 2 * STEPS and not rec.missed


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_attention_over_pages_is_recorded_with_the_weights_of_a_run_without_pages(implementation):
    """What continuous batching calls: the requests of a batch in one row, keys read from the pages of a cache."""
    paged = pytest.importorskip("transformers.integrations.eager_paged")
    model = llama(implementation)

    class Pages:
        """A cache whose keys lie in another order, as blocks of memory do."""

        def update(self, key_states, value_states, layer_idx, kwargs):
            order = torch.tensor([2, 3, 0, 1])
            return key_states[:, :, order], value_states[:, :, order]

    attention = model.model.layers[0].self_attn
    q, k, v = (torch.randn(1, heads, 4, 8, generator=torch.Generator().manual_seed(heads)) for heads in (4, 2, 2))
    request = torch.tensor([0, 0, 1, 1])
    place = torch.tensor([2, 3, 0, 1])
    keep = (request[:, None] == request[place]) & (torch.arange(4)[:, None] >= place)
    mask = torch.zeros(4, 4).masked_fill(~keep, torch.finfo(torch.float32).min)[None, None]

    class Paged(torch.nn.Module):
        def forward(self):
            if implementation == "eager":
                cache = Pages()
                return paged.eager_paged_attention_forward(attention, q, k, v, mask, scaling=8**-0.5, cache=cache)[0]
            key, value = Pages().update(k, v, 0, {})
            return torch.nn.functional.scaled_dot_product_attention(q, key, value, keep, enable_gqa=True)

    rec = recorded(model := Paged(), lambda: model())
    (amap,) = rec.maps.values()
    scores = q @ k.repeat_interleave(2, 1)[:, :, place].mT * 8**-0.5
    assert_close(amap.weights(), scores.masked_fill(~keep, -torch.inf).softmax(-1), atol=1e-6, rtol=1e-5)
    assert not rec.missed


@pytest.mark.slow
def test_continuous_batching_runs_in_a_thread_of_its_own_and_each_attention_is_told():
    if not hasattr(transformers, "ContinuousBatchingConfig"):
        pytest.skip("this transformers has no ContinuousBatchingConfig")
    model = llama()
    settings = transformers.GenerationConfig(max_new_tokens=3, do_sample=False, eos_token_id=-1, pad_token_id=0)
    pages = {"page_size": 16, "num_blocks": 8, "max_batch_tokens": 32, "max_requests_per_batch": 4}
    batching = transformers.ContinuousBatchingConfig(**pages, use_async_batching=False)
    options = {"generation_config": settings, "continuous_batching_config": batching, "progress_bar": False}

    def tokens():
        found = model.generate_batch([[1, 2, 3, 4], [5, 6, 7]], **options)
        return [one.generated_tokens for _, one in sorted(found.items())]

    bare = tokens()
    with pytest.warns(UserWarning, match="not visible: it runs in another thread"), record(model) as rec:
        assert tokens() == bare
    assert not rec.maps and {entry.site for entry in rec.missed} == {f"model.layers.{i}.self_attn" for i in (0, 1)}
    assert len(set(rec.missed.values())) == 1 and all("in another thread" in entry.reason for entry in rec.missed)
