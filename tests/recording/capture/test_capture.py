"""Recording models that others made, as they are: weights against the model's own slow path, outputs equal."""

import pytest
import torch
from tests.recording import foreign
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from regard import record

FAMILIES = [
    "bert",
    "bert, padded",
    "llama",
    "llama, padded",
    "llama, padded left",
    "mistral, window",
    "gpt2",
    "t5",
    "t5, padded",
    "bart, padded",
    "vit",
]


def recorded(model, inputs, **options):
    with torch.no_grad():
        bare = model(**inputs)
        with record(model, **options) as rec:
            heard = model(**inputs)
    assert torch.equal(bare[0], heard[0])
    assert not rec.missed
    return rec


def assert_eager(rec, model, inputs, keep=None):
    """The model's slow path gives the same weights; where a query is padding it may do as it likes."""
    expected = foreign.eager_weights(model, inputs)
    found = [amap.weights() for amap in rec.maps.values()]
    assert len(found) == len(expected)
    if hasattr(model, "decoder"):  # recorded as it ran: encoder, then self and cross of each decoder layer
        layers = len(expected) // 3
        order = [*range(layers), *(i for j in range(layers) for i in (layers + j, 2 * layers + j))]
        expected = [expected[i] for i in order]
    for mine, theirs in zip(found, expected, strict=True):
        rows = slice(None) if keep is None or mine.shape[2] != keep.shape[1] else keep.bool()
        for item in range(mine.shape[0]):
            real = slice(None) if isinstance(rows, slice) else rows[item]
            assert_close(mine[item][:, real], theirs[item][:, real], atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_are_those_of_the_slow_path_and_outputs_do_not_change(family):
    model, inputs = foreign.build(family)
    if not family.startswith("t5"):  # before transformers 5 it has its slow path alone
        assert model.config._attn_implementation == "sdpa"
    assert_eager(recorded(model, inputs), model, inputs, inputs.get("attention_mask"))


@pytest.mark.parametrize(
    "family", ["bert, padded", "llama, padded", "mistral, window", "gemma2, soft cap", "t5", "gpt-oss, sinks"]
)
def test_a_slow_path_that_writes_its_softmax_out_is_recorded_too(family):
    model, inputs = foreign.build(family)
    model.set_attn_implementation("eager")
    assert_eager(recorded(model, inputs), model, inputs, inputs.get("attention_mask"))


@pytest.mark.parametrize("family", ["llama, padded left", "mistral, window", "gemma2, soft cap"])
def test_flex_attention(family):
    model, inputs = foreign.build(family, 16)
    model.set_attn_implementation("flex_attention")
    with torch.no_grad(), record(model) as rec:
        model(**inputs)
    assert not rec.missed
    assert_eager(rec, model, inputs, inputs.get("attention_mask"))


def test_a_compiled_model_is_recorded():
    model, inputs = foreign.build("llama")
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        compiled(**inputs)  # compiled before, so that its code is there to be taken
        with record(model) as rec:
            compiled(**inputs)
    assert_eager(rec, model, inputs)


def test_generation_step_by_step():
    torch.manual_seed(0)
    t = foreign.transformers
    model = t.LlamaForCausalLM(t.LlamaConfig(**foreign.GROUPED)).eval()
    prompt = foreign.ids(1, 6)
    with torch.no_grad():
        bare = model.generate(prompt, max_new_tokens=5, min_new_tokens=5, do_sample=False)
        with record(model) as rec:
            made = model.generate(prompt, max_new_tokens=5, min_new_tokens=5, do_sample=False)
    assert torch.equal(bare, made)
    assert len(rec.maps) == 2 * 5
    whole = foreign.eager_weights(model, {"input_ids": made[:, :-1]})
    for name, amap in rec.maps.items():
        layer, rows = int(name.split(".")[2]), slice(amap.m - amap.n, amap.m)
        assert_close(amap.weights(), whole[layer][:, :, rows, : amap.m], atol=1e-5, rtol=0)
    first, last = rec.maps["model.layers.0.self_attn"], rec.maps["model.layers.0.self_attn:4"]
    assert (first.n, first.m, last.n, last.m) == (6, 6, 1, 10)


def test_a_cache_that_is_changed_in_place_does_not_change_the_record():
    torch.manual_seed(0)
    t = foreign.transformers
    model = t.LlamaForCausalLM(t.LlamaConfig(**foreign.GROUPED)).eval()
    cache = t.StaticCache(config=model.config, max_cache_len=16)
    prompt = foreign.ids(1, 6)
    with torch.no_grad(), record(model) as rec:
        model(prompt, past_key_values=cache)
        before = [amap.weights().clone() for amap in rec.maps.values()]
        model(foreign.ids(1, 1, 3), past_key_values=cache, cache_position=torch.tensor([6]))
    cache.reset()
    for name, expected in zip(list(rec.maps)[:2], before, strict=True):
        assert torch.equal(rec.maps[name].weights(), expected)


class NoMatrix(TorchDispatchMode):
    """An error where an operator makes a tensor of n x m numbers or more."""

    def __init__(self, limit):
        super().__init__()
        self.limit = limit

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(x, torch.Tensor) and x.untyped_storage().nbytes() // x.element_size() >= self.limit:
                raise AssertionError(f"{func} made {tuple(x.shape)}")
        return out


@pytest.mark.parametrize("family", ["bert", "llama", "gpt2", "mistral, window"])
def test_nothing_of_n_by_m_is_made_and_no_slow_path_runs(family, monkeypatch):
    n = 256
    model, inputs = foreign.build(family, n)
    inputs = {"input_ids": inputs["input_ids"][:1]}
    if family == "mistral, window":
        model.config.sliding_window = None  # its mask is an n x n tensor of the model's own
    module = __import__(type(model).__module__, fromlist=["eager_attention_forward"])

    def refuse(*args, **kwargs):
        raise AssertionError("the slow path ran")

    monkeypatch.setattr(module, "eager_attention_forward", refuse, raising=False)  # not in transformers 4's BERT
    with torch.no_grad():
        model(**inputs)  # what is made once, such as rotary tables, is made
        with NoMatrix(n * n), record(model) as rec:
            model(**inputs)
    assert len(rec.maps) == 2 and not rec.missed
    row = rec.maps[next(iter(rec.maps))].row(n - 1)
    assert_close(row.sum(-1), torch.ones_like(row.sum(-1)))


@pytest.mark.parametrize("keep", ["weights", "topk", "stats"])
def test_what_else_can_be_kept(keep):
    model, inputs = foreign.build("llama, padded")
    exact = recorded(model, inputs)
    rec = recorded(model, inputs, keep=keep, k=3)
    for name, amap in exact.maps.items():
        w = amap.weights()
        if keep == "weights":
            assert torch.equal(rec.maps[name].weights(), w)
        elif keep == "topk":
            best = w.topk(3, -1)
            kept = torch.zeros_like(w).scatter(-1, best.indices, best.values)
            assert_close(rec.maps[name].weights(), kept)
        else:
            assert_close(rec.stats[name].entropy, amap.entropy())
            assert_close(rec.stats[name].mass, w.sum(-2))
            assert torch.equal(rec.stats[name].strongest.weight, amap.strongest(3).weight)
    assert len(rec.maps if keep != "stats" else rec.stats) == 2


def test_sites_by_pattern_and_copies_elsewhere():
    model, inputs = foreign.build("bert")
    rec = recorded(model, inputs, sites="encoder.layer.1.*", dtype=torch.bfloat16)
    assert list(rec.maps) == ["encoder.layer.1.attention.self"]
    assert rec.sites[0].layer == 1
    assert rec.maps["*"].live.score.core.a.dtype == torch.bfloat16
    with pytest.raises(KeyError, match=r"no site 'encoder.layer.7'; recorded: encoder.layer.1.attention.self"):
        rec.maps["encoder.layer.7"]


def test_records_nest_and_survive_an_error():
    model, inputs = foreign.build("bert")
    with torch.no_grad(), record(model) as outer:
        with record(model, sites="*.0.*") as inner:
            model(**inputs)
        with pytest.raises(IndexError), record(model):
            model(input_ids=torch.full((1, 3), 10_000))
        model(**inputs)
    assert (len(outer.maps), len(inner.maps)) == (4, 1)
    assert torch.equal(outer.maps["encoder.layer.0.attention.self"].weights(), inner.maps["*"].weights())


def test_nothing_is_left_behind():
    from torch.nn.modules import module
    from torch.overrides import _get_current_function_mode_stack

    hooks = lambda: (len(module._global_forward_hooks), len(module._global_forward_pre_hooks))  # noqa: E731
    before = hooks(), len(_get_current_function_mode_stack()), torch.overrides.has_torch_function
    model, inputs = foreign.build("bert")
    recorded(model, inputs)
    assert before == (hooks(), len(_get_current_function_mode_stack()), torch.overrides.has_torch_function)
    for part in model.modules():
        assert not part._forward_hooks and not part._forward_pre_hooks
