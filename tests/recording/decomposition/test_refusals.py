"""What does not decompose is refused in a sentence that says what to do; nothing false is said instead."""

import copy

import pytest
import torch
from torch import nn

import regard
from regard.core.errors import Refused

IDS = torch.tensor([[5, 9, 3, 3, 12, 7, 9, 4]])


def looks(q, k, v):
    return nn.functional.scaled_dot_product_attention(q, k, v)


class Site(nn.Module):
    """One attention; its queries and the function that it calls are what a test is about."""

    def __init__(self, q, looks=looks):
        super().__init__()
        self.q, self.k, self.looks = q, nn.Linear(16, 16), looks

    def forward(self, x):
        return self.looks(self.q(x)[:, None], self.k(x)[:, None], x[:, None])[:, 0]


class Model(nn.Module):
    """A site that reads normed embeddings."""

    def __init__(self, site):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.norm, self.site = nn.Embedding(20, 16), nn.LayerNorm(16), site

    def forward(self, ids):
        return self.site(self.norm(self.embed(ids)))


def recorded(model, *args, **kwargs):
    with torch.no_grad(), regard.record(model) as rec:
        model(*args, **kwargs)
    return rec


class Ours(nn.Module):
    """Attention of this library."""

    def __init__(self, **how):
        super().__init__()
        self.attn = regard.nn.Attention(16, heads=2, **how)

    def forward(self, x):
        return self.attn(x).out


def llama(**more):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
        vocab_size=40, initializer_range=0.3, **more,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


class Quantised(nn.Module):
    """A projection of quantised weights, as torch has it."""

    def __init__(self):
        super().__init__()
        self.weight = torch.ops.quantized.linear_prepack(
            torch.quantize_per_tensor(torch.eye(16), 0.01, 0, torch.qint8), None
        )

    def forward(self, x):
        return torch.ops.quantized.linear_dynamic(x, self.weight)


@torch.library.custom_op("regard_tests::projection", mutates_args=())
def projection(x: torch.Tensor) -> torch.Tensor:
    return x * 2.0


class Fused(nn.Module):
    def forward(self, x):
        return torch.ops.regard_tests.projection(x)


def flexible(q, k, v):
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score * 2)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("site", "why_not"),
    [
        (lambda: Site(nn.SiLU()), r"pass through 'silu' at 'site.q', which is not linear .* regard.intervene"),
        (lambda: Site(Quantised()), r"quantised weights, .* dequantise it \(model.dequantize\(\)"),
        (lambda: Site(Fused()), r"pass through 'projection' at 'site.q', .*nn.Linear\) in its place and record again"),
        (lambda: Site(nn.Linear(16, 16), flexible), r"a score function of flex_attention changes .* regard.intervene"),
    ],
    ids=["nonlinear", "quantised", "custom operator", "flex_attention"],
)
def test_operators_between_stream_and_score_are_named_with_what_to_do(site, why_not):
    rec = recorded(Model(site()).eval(), IDS)
    with pytest.raises(Refused, match=why_not):
        regard.why(rec, 0, 0, 4, 2)


@pytest.mark.parametrize("score", ["additive", "cosine", "gaussian"])
def test_a_score_that_is_no_dot_product_is_refused_by_its_name(score):
    rec = recorded(Model(Ours(score=score)).eval(), IDS)
    with pytest.raises(Refused, match=rf"its score is {score.title()}, .* regard.judge take any score"):
        regard.why(rec, 0, 0, 4, 2)


@pytest.mark.parametrize("kind", ["DebertaModel", "XLNetModel"])
def test_relative_attention_is_a_sum_of_several_products(kind):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    if kind == "DebertaModel":
        config = transformers.DebertaConfig(
            hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48, vocab_size=40,
            relative_attention=True, pos_att_type=["c2p", "p2c"], max_relative_positions=8,
        )  # fmt: skip
    else:
        config = transformers.XLNetConfig(d_model=32, n_layer=1, n_head=4, d_inner=48, vocab_size=40)
    rec = recorded(getattr(transformers, kind)(config).eval(), IDS)
    with pytest.raises(Refused, match=r"products of them with positions .* sum of several. regard.intervene"):
        regard.why(rec, 0, 0, 4, 2)


def test_a_recurrence_is_refused_where_it_is_asked_and_named_where_it_wrote():
    pytest.importorskip("transformers")
    from tests.tiny_transformers import inputs_of, tiny_model

    torch.manual_seed(0)
    model = tiny_model("nemotron_h")
    rec = recorded(model, **inputs_of(model))
    state, attention = (name for name in rec.maps)
    with pytest.raises(Refused, match=r"what a recurrence implies .* Read them from rec.maps, .* regard.intervene"):
        regard.why(rec, state, 0, 4, 2)
    found = regard.why(rec, attention, 0, 4, 2)
    assert found.exactness < 1e-5
    assert {"recurrence 0", "MLP 0", "embedding"} <= {writer.label for writer in found.keys}


def test_attention_over_edges_is_refused():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = regard.nn.TransformerConv(8, 8, heads=2)

        def forward(self, x, edges):
            return self.conv(x, edges)

    torch.manual_seed(0)
    rec = recorded(Layer().eval(), torch.randn(4, 8), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    with pytest.raises(Refused, match=r"over the edges of a graph, .* regard.intervene"):
        regard.why(rec, 0, 0, 1, 0)


def test_a_loaded_record_says_to_record_again(tmp_path):
    rec = recorded(llama(), IDS)
    with pytest.raises(Refused, match=r"loaded from a file, .* Record again in this process: with regard.record"):
        regard.why(regard.load(rec.save(tmp_path / "record.safetensors")), 0, 0, 4, 2)


def test_training_mode_says_eval():
    model = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.5, batch_first=True).train()
    with pytest.raises(Refused, match=r"dropout would give another run: model.eval\(\)"):
        regard.why(recorded(model, torch.randn(1, 5, 16)), 0, 0, 4, 2)


def _changed_weights(model):
    rec = recorded(model, IDS)
    with torch.no_grad():
        model.model.layers[0].mlp.down_proj.weight.mul_(-1)
    return rec


def _intervened(model):
    with regard.intervene(model, {"model.layers.0.*": regard.interventions.Uniform()}):
        return recorded(model, IDS)


def _intervened_there(model):
    with regard.intervene(model, {"model.layers.1.*": regard.interventions.Uniform()}):
        return recorded(model, IDS)


def _random(model):
    for layer in model.train().model.layers:
        layer.self_attn.attention_dropout = 0.9
    return recorded(model, IDS)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("given", [_changed_weights, _intervened, _intervened_there, _random])
def test_another_run_than_the_recorded_one_is_never_explained(given, attention):
    """The model is run once more: where it gives other weights than the record holds, an answer would be of those."""
    rec = given(llama(attn_implementation=attention))
    with pytest.raises(Refused, match=r"than in the record. .* record again without interventions"):
        regard.why(rec, 1, 1, 5, 2)


def test_of_a_generation_the_prompt_is_explained_and_steps_are_refused():
    model = llama()
    with torch.no_grad(), regard.record(model) as rec:
        model.generate(IDS, attention_mask=torch.ones_like(IDS), max_new_tokens=3, do_sample=False, pad_token_id=0)
    alone = regard.why(recorded(model, IDS), 1, 1, 5, 2)
    of_prompt = regard.why(rec, 1, 1, 5, 2)
    assert [s.name for s in of_prompt.by_writer("key")] == [s.name for s in alone.by_writer("key")]
    assert of_prompt.score == pytest.approx(alone.score, abs=1e-5)
    with pytest.raises(Refused, match=r"Of a generation .*, record the text you ask about in one forward pass"):
        regard.why(rec, "model.layers.1.self_attn:2", 1, 0, 2)


def test_several_runs_in_one_record_explain_the_first_alone():
    model = llama()
    with torch.no_grad(), regard.record(model) as rec:
        model(IDS)
        model(IDS.flip(-1))
    assert regard.why(rec, "model.layers.1.self_attn", 1, 5, 2).exactness < 1e-5
    with pytest.raises(Refused, match="on the first recorded inputs has no attention at"):
        regard.why(rec, "model.layers.1.self_attn:1", 1, 5, 2)


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_model_and_one_under_autocast_are_explained_like_the_plain_one():
    model = llama()
    plain = regard.why(recorded(model, IDS), 1, 1, 5, 2)
    compiled = copy.deepcopy(model)
    compiled.compile(backend="eager")
    assert regard.why(recorded(compiled, IDS), 1, 1, 5, 2).score == pytest.approx(plain.score, abs=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        rec = recorded(model, IDS)
    found = regard.why(rec, 1, 1, 5, 2)
    assert found.exactness < 1e-5
    assert found.score == pytest.approx(plain.score, abs=1e-5)


def test_weights_kept_in_eight_bits_and_widened_by_the_model_decompose():
    """Only the product has to run in float."""

    class Widened(nn.Linear):
        def forward(self, x):
            kept = (self.weight * 100).round().to(torch.int8)
            return nn.functional.linear(x, kept.to(x.dtype) / 100)

    assert regard.why(recorded(Model(Site(Widened(16, 16))).eval(), IDS), 0, 0, 4, 2).exactness < 1e-5


class Learned(nn.Module):
    """Queries of its own, whatever the text is."""

    def __init__(self):
        super().__init__()
        self.slots = nn.Parameter(torch.randn(1, 3, 16))

    def forward(self, x):
        return self.slots * 1.0


def test_queries_that_no_token_wrote_are_a_constant_writer():
    rec = recorded(Model(Site(Learned())).eval(), IDS)
    found = regard.why(rec, 0, 0, 2, 4)
    assert found.exactness < 1e-5
    assert [writer.kind for writer in found.queries] == ["bias"]
    cut = found.cut(found.queries[0], "query", run=True)
    assert cut.weight == pytest.approx(1 / IDS.shape[1])
    assert cut.ran == pytest.approx(cut.weight, abs=1e-6)


@pytest.mark.parametrize("align", ["sparsemax", "entmax15", "sigmoid", "relu", "softmax1"])
@pytest.mark.parametrize("side", ["query", "key"])
def test_a_cut_is_foretold_by_the_alignment_of_the_site(align, side):
    rec = recorded(Model(Ours(align=align)).eval(), IDS)
    found = regard.why(rec, 0, 0, 4, 2)
    cut = found.cut("embedding", side, run=True)
    assert cut.ran == pytest.approx(cut.weight, abs=1e-6)
