"""Generation as servers run it: each cache, beams, assistants, compiled static caches, pages: exact, or told."""

import pytest
import torch
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
