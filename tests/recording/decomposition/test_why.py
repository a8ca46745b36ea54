"""Scores are sums over what wrote into the residual stream, in every architecture whose stream is a sum."""

import pytest
import torch
from torch import nn

import regard
from regard.core.errors import Refused
from regard.recording.decomposition.run import TracedRun

transformers = pytest.importorskip("transformers")
from tests.tiny_transformers import inputs_of, tiny_model  # noqa: E402

# Pre- and post-norm, RMSNorm and LayerNorm, rotary (whole, part, interleaved), learned and relative positions, grouped
# and single keys, normalised queries and keys, sandwich norms, parallel blocks, multipliers, experts, sinks, soft caps,
# encoder-decoders, images.
DECOMPOSE = """
    llama gpt2 mistral qwen2 qwen3 gemma gemma2 gemma3_text phi phi3 gpt_neox gpt_neo opt bloom falcon mpt stablelm
    starcoder2 olmo olmo2 olmo3 cohere cohere2 granite granitemoe glm glm4 smollm3 helium mixtral qwen2_moe arcee
    seed_oss exaone4 llama4_text gpt_oss persimmon biogpt gpt_bigcode bert roberta distilbert electra albert camembert
    ernie mpnet modernbert vit deit dinov2 beit clip_vision_model t5 bart whisper
    """
CELLS = ((3, 1), (4, 4), (6, 2))


def recorded(kind):
    torch.manual_seed(0)
    model = tiny_model(kind)
    inputs = inputs_of(model)
    with torch.no_grad(), regard.record(model) as rec:
        model(**inputs)
    return rec


@pytest.mark.parametrize("kind", DECOMPOSE.split())
def test_parts_sum_to_the_score_and_the_scores_give_the_weights(kind):
    rec = recorded(kind)
    for number, (site, amap) in enumerate(rec.maps.items()):
        head = number % amap.heads
        for i, j in CELLS:
            if i >= amap.n or j >= amap.m:
                continue
            found = regard.why(rec, site, head, i, j, item=1)
            assert found.exactness < 1e-5
            assert found.explained + found.bias == pytest.approx(found.score, abs=1e-5 * float(found.parts.abs().sum()))
            weights = amap[1][head].row(i).reshape(-1).double()
            first = int((weights > 0).nonzero()[0])  # a window closes the keys before
            other = regard.why(rec, site, head, i, first, item=1)
            size = float(found.parts.abs().sum() + other.parts.abs().sum())
            assert found.score - other.score == pytest.approx(
                float((weights[j] / weights[first]).log()), abs=2e-5 * max(1.0, size)
            )


@pytest.mark.parametrize("kind", ["llama", "bert", "gpt2", "gemma2", "vit"])
def test_every_layer_below_writes_and_none_above(kind):
    rec = recorded(kind)
    site = list(rec.maps)[-1]
    found = regard.why(rec, site, 0, 3, 1)
    heads = {(w.layer, w.head) for w in found.keys if w.kind == "head"}
    assert heads == {(0, head) for head in range(4)}
    assert {w.layer for w in found.keys if w.kind == "MLP"} == {0}
    assert {"embedding"} <= {w.kind for w in found.keys}


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma2", "qwen3", "falcon", "bert", "t5"])
def test_source_tokens_sum_to_their_head(kind):
    rec = recorded(kind)
    site = next(name for name in reversed(list(rec.maps)) if rec.maps[name].n == rec.maps[name].m)
    found = regard.why(rec, site, 1, 5, 3)
    for side in ("query", "key"):
        head = next(share for share in found.by_writer(side) if share.writer.kind == "head")
        whole = sum(share.value for share in found.by_token(side, head.writer, k=None))
        assert whole == pytest.approx(head.value, abs=1e-5 * float(found.parts.abs().sum()))


HOOKS = {
    "llama": lambda m: (m.layers[1].input_layernorm, m.layers[1].self_attn.q_proj),
    "gpt2": lambda m: (m.h[1].ln_1, m.h[1].attn.c_attn),
    "qwen3": lambda m: (m.layers[1].input_layernorm, m.layers[1].self_attn.q_proj),
    "gpt_neox": lambda m: (m.layers[1].input_layernorm, m.layers[1].attention.query_key_value),
    "bert": lambda m: (m.encoder.layer[0].output.LayerNorm, m.encoder.layer[1].attention.self.query),
}


@pytest.mark.parametrize("kind", HOOKS)
def test_a_cut_gives_the_weights_of_the_model_with_its_stream_changed(kind):
    """The model's own modules run on a stream without the writer; the query that comes out is put in by Shift."""
    rec = recorded(kind)
    model, inputs = rec._names.model, rec.inputs.kwargs
    site, head, i, j = list(rec.maps)[1], 1, 6, 2
    found = regard.why(rec, site, head, i, j)
    writer = next(share.writer for share in found.by_writer("query") if share.writer.kind in ("head", "embedding"))
    call = found.run.call(site)
    _, (part,) = found.run.without(call, 0, head, i, "query", [writer])

    norm, _ = HOOKS[kind](model)
    handle = norm.register_forward_pre_hook(
        lambda module, args: (args[0].index_put((torch.tensor(0), torch.tensor(i)), -part.flatten().float(), True),)
    )
    changed = TracedRun(model, (), inputs).tape.calls[site].queries
    handle.remove()
    k = call.keys[0, head * call.keys.shape[1] // 4]
    query = changed[0, head, i]
    scores = (k @ query).double() * call.scale
    before = (k @ call.queries[0, head, i]).double() * call.scale
    row = rec.maps[site][0][head].row(i).reshape(-1).double()
    weights = row * torch.exp(scores - before)
    weights /= weights.sum()
    cut = found.cut(writer, "query", run=True)
    assert cut.weight == pytest.approx(float(weights[j]), abs=1e-4)
    assert cut.ran == pytest.approx(cut.weight, abs=1e-5)


@pytest.mark.parametrize("kind", ["llama", "gemma3_text", "gpt_oss", "whisper", "bart"])
def test_a_run_of_the_model_has_the_weight_that_was_foretold(kind):
    rec = recorded(kind)
    site = list(rec.maps)[1]
    found = regard.why(rec, site, 2, 5, 1)
    if found.run.call(site).queries is None:
        return  # weights that the model wrote out: the foretold row is all there is
    for side in ("query", "key"):
        cut = found.cut(found.by_writer(side)[0].writer, side, run=True)
        assert cut.ran == pytest.approx(cut.weight, abs=2e-5)
        assert cut.before == pytest.approx(found.weight)


def test_against_subtracts_what_all_keys_share():
    rec = recorded("llama")
    site = list(rec.maps)[1]
    a, b = (regard.why(rec, site, 0, 5, j) for j in (1, 2))
    both = regard.why(rec, site, 0, 5, 1, against=2)
    assert both.score == pytest.approx(a.score - b.score, abs=1e-6)
    assert both.explained == pytest.approx(both.score, abs=1e-5 * float(both.parts.abs().sum()))
    row = regard.why(rec, site, 0, 5, 1, against="row")
    rest = [regard.why(rec, site, 0, 5, j).score for j in (0, 2, 3, 4, 5)]
    assert row.score == pytest.approx(a.score - sum(rest) / 5, abs=1e-5)


def test_rows_and_maps_are_means_over_their_cells():
    rec = recorded("gpt2")
    site = list(rec.maps)[1]
    row = regard.why(rec, site, 0, 5)
    assert sum(share for *_, share in row.cells) == pytest.approx(1.0)
    assert row.score == pytest.approx(sum(s * regard.why(rec, site, 0, i, j).score for i, j, s in row.cells), abs=1e-6)
    for made in (regard.why(rec, site, 0), regard.why(rec, site, 0, j=1), regard.why([rec, rec], site, 0)):
        assert made.exactness < 1e-5
        with pytest.raises(ValueError, match="mean over"):
            _ = made.cell


class Gated(nn.Module):
    """Queries through a nonlinearity."""

    def __init__(self):
        super().__init__()
        self.embed, self.q, self.k = nn.Embedding(20, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.inner = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
        self.site = Looks()

    def forward(self, x):
        return self.site(self.inner(self.embed(x)))


class Looks(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        q, k = torch.nn.functional.silu(self.q(x)), self.k(x)
        return nn.functional.scaled_dot_product_attention(q[:, None], k[:, None], x[:, None])[:, 0]


def test_what_does_not_decompose_is_refused_in_a_sentence():
    torch.manual_seed(0)
    model, ids = Gated().eval(), torch.randint(0, 20, (1, 6))
    with torch.no_grad(), regard.record(model) as rec:
        model(ids)
    assert regard.why(rec, "inner.self_attn", 1, 3, 2).exactness < 1e-5  # torch's own layer
    with pytest.raises(Refused, match=r"queries pass through 'silu' at 'site', which is not linear"):
        regard.why(rec, "site", 0, 3, 2)
    loaded = regard.record()
    with pytest.raises(Refused, match="runs the model once more"):
        regard.why(loaded, "site", 0, 3, 2)


def test_our_own_attention_decomposes():
    torch.manual_seed(0)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(20, 32)
            self.attn = nn.ModuleList([regard.nn.Attention(32, heads=4) for _ in range(2)])
            self.norm = nn.ModuleList([nn.LayerNorm(32) for _ in range(2)])

        def forward(self, ids):
            x = self.embed(ids)
            for norm, attn in zip(self.norm, self.attn, strict=True):
                x = x + attn(norm(x)).out
            return x

    model, ids = Block().eval(), torch.randint(0, 20, (1, 7))
    with torch.no_grad(), regard.record(model) as rec:
        model(ids)
    found = regard.why(rec, "attn.1", 2, 5, 3)
    assert found.exactness < 1e-5
    assert {w.label for w in found.keys if w.kind == "head"} == {f"head 0.{h}" for h in range(4)}


def test_our_own_transformer_decomposes_at_every_site():
    from regard.data.batch import Batch
    from regard.models.transformer import Transformer

    torch.manual_seed(0)
    model = Transformer(20, 20, dim=32, heads=4, layers=2).eval()
    source, target = torch.randint(4, 20, (1, 7)), torch.randint(4, 20, (1, 6))
    batch = Batch(source, target, torch.tensor([7]), torch.tensor([0]), target_lengths=torch.tensor([6]))
    with torch.no_grad(), regard.record(model) as rec:
        model(batch)
    assert len(rec.maps) == 6  # two of the encoder; two looks of each block of the decoder
    for site in rec.maps:
        assert regard.why(rec, site, 2, 4, 3).exactness < 1e-5


class SharedKeys(nn.Module):
    """Keys are made once and read by every layer."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.k = nn.Embedding(20, 16), nn.LayerNorm(16), nn.Linear(16, 16)
        self.q, self.looks = nn.ModuleList([nn.Linear(16, 16) for _ in range(2)]), nn.ModuleList([Plain(), Plain()])

    def forward(self, x):
        h = self.embed(x)
        k = self.k(self.norm(h))
        for q, look in zip(self.q, self.looks, strict=True):
            h = h + look(q(self.norm(h)), k, h)
        return h


class Plain(nn.Module):
    def forward(self, q, k, v):
        return nn.functional.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]


def test_keys_that_layers_share_were_written_before_the_first():
    torch.manual_seed(0)
    model, ids = SharedKeys().eval(), torch.randint(0, 20, (1, 6))
    with torch.no_grad(), regard.record(model) as rec:
        model(ids)
    found = rec.why("looks.1", 0, 4, 2)
    assert found.exactness < 1e-5
    assert {w.kind for w in found.keys} == {"embedding", "bias"} and "head 0.0" in {w.label for w in found.queries}
