"""Implied maps of transformers' own recurrent models, and of ours: weights that give the model's own numbers."""

import pytest
import torch
from torch.testing import assert_close

import regard
from regard import nn
from regard.core.recurrent.implied_map import ImpliedMap

transformers = pytest.importorskip("transformers", reason="the models are those of transformers")

SMALL = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "pad_token_id": 0}
EXPERTS = {"num_experts_per_tok": 1, "moe_intermediate_size": 16}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
MODELS = {  # config, sizes, sites of recurrences, of attention
    "qwen3_next": (
        "Qwen3NextConfig",
        SMALL | HEADS | EXPERTS | {
            "num_hidden_layers": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8, "num_experts": 2,
            "linear_num_key_heads": 2, "linear_num_value_heads": 4, "shared_expert_intermediate_size": 16,
        },
        3,
        1,
    ),
    "kimi_linear": (
        "KimiLinearConfig",
        SMALL | EXPERTS | {
            "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "linear_num_heads": 4,
            "linear_head_dim": 8, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8,
            "n_routed_experts": 2, "n_group": 1, "topk_group": 1,
            "layer_types": ["linear_attention"] * 3 + ["full_attention"],
        },
        3,
        1,
    ),
    "mamba2": (
        "Mamba2Config",
        {
            "vocab_size": 64, "hidden_size": 32, "num_heads": 8, "head_dim": 8, "state_size": 8, "n_groups": 2,
            "num_hidden_layers": 2, "chunk_size": 8, "pad_token_id": 0,
        },
        2,
        0,
    ),
    "minimax": (
        "MiniMaxConfig",
        SMALL | HEADS | {"num_hidden_layers": 2, "block_size": 8, "num_local_experts": 2, "num_experts_per_tok": 1},
        1,
        1,
    ),
}  # fmt: skip


def built(name):
    torch.manual_seed(0)
    config, sizes, *_ = MODELS[name]
    return transformers.AutoModelForCausalLM.from_config(getattr(transformers, config)(**sizes)).eval()


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_a_recurrent_model_is_recorded_and_its_outputs_do_not_change(name):
    model, ids = built(name), torch.randint(1, 64, (2, 21), generator=torch.Generator().manual_seed(1))
    plain = model(ids, use_cache=False).logits
    with regard.record(model) as rec:
        logits = model(ids, use_cache=False).logits
    assert torch.equal(plain, logits)
    implied = [amap for amap in rec.maps.values() if isinstance(amap, ImpliedMap)]
    _, _, recurrent, attention = MODELS[name]
    assert len(implied) == recurrent and len(rec.maps) == recurrent + attention
    assert not rec.missed
    assert all(amap.shape[0] == 2 and amap.shape[-2:] == (21, 21) for amap in implied)
    assert torch.equal(model(ids, use_cache=False).logits, plain)  # and afterwards nothing stands in its functions


@pytest.mark.parametrize("name", [name for name in MODELS if name != "minimax"])
@torch.no_grad()
def test_its_map_times_its_values_is_what_the_model_goes_on_with(name):
    """The weights are put in by hand, written out: the logits stay those of the model to 1e-5."""
    model, ids = built(name), torch.randint(1, 64, (2, 21), generator=torch.Generator().manual_seed(1))
    plain = model(ids, use_cache=False).logits
    with regard.record(model) as rec:
        model(ids, use_cache=False)
    sites = [site for site, amap in rec.maps.items() if isinstance(amap, ImpliedMap)]
    for site in sites:
        weights = rec.maps[site].weights()
        with regard.intervene(model, {site: regard.interventions.Replace(weights)}):
            assert_close(model(ids, use_cache=False).logits, plain, atol=1e-5, rtol=1e-4)
        with regard.intervene(model, {site: regard.interventions.Replace(torch.zeros_like(weights))}):
            assert not torch.allclose(model(ids, use_cache=False).logits, plain, atol=1e-5)


@torch.no_grad()
def test_the_map_of_lightning_attention_gives_what_its_norm_sees():
    model, ids = built("minimax"), torch.randint(1, 64, (2, 21), generator=torch.Generator().manual_seed(1))
    layer = next(x for x in model.modules() if type(x).__name__ == "MiniMaxLightningAttention")
    seen = {}
    layer.norm.register_forward_pre_hook(lambda _, x: seen.update(norm=x[0]))
    layer.register_forward_pre_hook(
        lambda _, args, kwargs: seen.update(x=(*args, *kwargs.values())[0]), with_kwargs=True
    )
    with regard.record(model) as rec:
        model(ids, use_cache=False)
    amap = next(amap for amap in rec.maps.values() if isinstance(amap, ImpliedMap))
    v = layer.act_fn(layer.qkv_proj(seen["x"])).unflatten(-1, (4, 24)).transpose(1, 2)[..., 16:]
    assert_close((amap.weights() @ v).transpose(1, 2).flatten(2), seen["norm"], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_steps_of_decoding_are_missed_with_the_reason(name):
    model, ids = built(name), torch.randint(1, 64, (1, 6), generator=torch.Generator().manual_seed(1))
    with regard.record(model) as rec:
        cache = model(ids, use_cache=True)
        past = getattr(cache, "past_key_values", None)
        past = {"past_key_values": past} if past is not None else {"cache_params": cache.cache_params}
        model(ids[:, -1:], use_cache=True, **past)
    reasons = [entry.reason for entry in rec.missed]
    assert reasons and all("in a state" in reason for reason in reasons)


@pytest.mark.parametrize("kind", [nn.GatedLinearAttention, nn.GatedDeltaNet, nn.KimiDeltaAttention])
def test_our_own_recurrent_layers_are_recorded_and_open_in_the_viewer(kind, tmp_path):
    torch.manual_seed(0)
    layer, x = kind(16, 2), torch.randn(1, 12, 16)
    with torch.no_grad(), regard.record(layer) as rec:
        found = layer(x)
    (amap,) = rec.maps.values()
    assert_close(amap.weights(), found.map.weights(), atol=1e-5, rtol=1e-5)
    amap.save_html(tmp_path / "map.html")
    assert (tmp_path / "map.html").stat().st_size > 10_000
    rec.save(tmp_path / "record.regard")
    (loaded,) = regard.load(tmp_path / "record.regard").maps.values()
    assert_close(loaded.weights(), found.map.weights(), atol=1e-5, rtol=1e-5)
