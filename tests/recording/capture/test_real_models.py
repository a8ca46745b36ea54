"""Real models with real weights: MiniLM, SmolLM2, rxnmapper's ALBERT, anarcii's encoder-decoder."""

import pytest
import torch
from tests.recording import foreign
from torch.testing import assert_close

from regard import record

# In fp64: in fp32 the slow path itself is 1e-5 from the truth on some processors, and what it hands from layer to layer
# is not what the fast one does.
NEAR = 1e-10
TEXT = "The attention of a model is what it looks at, or so it is said."


def test_minilm():
    model, tokenizer = foreign.minilm()
    model.double()
    inputs = tokenizer([TEXT, "Short."], padding=True, return_tensors="pt")
    with torch.no_grad():
        bare = model(**inputs)
        with record(model) as rec:
            out = model(**inputs)
    assert torch.equal(bare[0], out[0]) and not rec.missed and len(rec.maps) == 6
    for amap, expected in zip(rec.maps.values(), foreign.eager_weights(model, dict(inputs)), strict=True):
        assert_close(amap.weights(), expected, atol=NEAR, rtol=0)


@pytest.mark.slow
def test_smollm2_generates():
    model = foreign.smollm2()  # its slow path takes softmax in fp32, whatever the model is in
    ids = torch.tensor([[504, 3575, 282, 4649, 314]])  # "The capital of France is": reading its tokenizer takes 6 s
    prompt = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    options = {"max_new_tokens": 3, "do_sample": False}
    with torch.no_grad():
        bare = model.generate(**prompt, **options)
        with record(model) as rec:
            made = model.generate(**prompt, **options)
    assert torch.equal(bare, made) and not rec.missed
    steps = made.shape[1] - prompt["input_ids"].shape[1]
    assert len(rec.maps) == 30 * steps
    whole = foreign.eager_weights(model, {"input_ids": made[:, :-1]})
    for name, amap in rec.maps.items():
        layer = int(name.split(".")[2])
        expected = whole[layer][:, :, amap.m - amap.n : amap.m, : amap.m]
        assert_close(amap.weights(), expected, atol=1e-5, rtol=0)
    q, k = (x.shape for x in (amap.live.score.core.a, amap.live.score.core.b))
    assert (q[0], k[0]) == (9, 9) and amap._source.k.shape[1] == 3  # three heads of keys serve nine of queries


def test_rxnmapper():
    model = foreign.rxnmapper().double()
    ids = torch.randint(5, model.config.vocab_size, (2, 20), generator=torch.Generator().manual_seed(0))
    keep = foreign.padding(2, 20)
    inputs = {"input_ids": ids, "attention_mask": keep}
    with torch.no_grad():
        bare = model(**inputs)
        with record(model) as rec:
            out = model(**inputs)
    assert torch.equal(bare[0], out[0]) and not rec.missed
    expected = foreign.eager_weights(model, inputs)
    assert len(rec.maps) == len(expected) == model.config.num_hidden_layers  # one shared layer, called again and again
    for amap, theirs in zip(rec.maps.values(), expected, strict=True):
        assert_close(amap.weights(), theirs, atol=NEAR, rtol=0)


def test_anarcii():
    module, state = foreign.anarcii()
    wide = state["encoder.tok_embedding.weight"].shape
    out = state["decoder.tok_embedding.weight"].shape
    layers = 1 + max(int(key.split(".")[2]) for key in state if key.startswith("encoder.layers."))
    deep = state["encoder.layers.0.positionwise_feedforward.fc_1.weight"].shape[0]
    torch.manual_seed(0)
    encoder = module.Encoder(wide[0], wide[1], layers, 4, deep, 0.1, "cpu")
    encoder.load_state_dict({k.removeprefix("encoder."): v for k, v in state.items() if k.startswith("encoder.")})
    decoder = module.Decoder(out[0], out[1], layers, 4, deep, 0.1, "cpu")
    decoder.load_state_dict({k.removeprefix("decoder."): v for k, v in state.items() if k.startswith("decoder.")})
    model = module.S2S(encoder, decoder, 0, 0, "cpu").eval()
    source = torch.randint(1, wide[0], (2, 15), generator=torch.Generator().manual_seed(0))
    target = torch.randint(1, out[0], (2, 9), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        bare = model(source, target)
        with record(model) as rec:
            again = model(source, target)
    assert torch.equal(_first(bare), _first(again)) and not rec.missed
    weights = {}

    def hold(name):
        def hook(layer, args, result):
            weights[name] = result[1]

        return hook

    for name, layer in model.named_modules():
        if isinstance(layer, torch.nn.MultiheadAttention):
            layer.register_forward_hook(hold(name))
    with torch.no_grad():
        model(source, target)
    assert set(rec.maps) == set(weights) and len(weights) == 3 * layers
    for name, theirs in weights.items():  # the model averages its heads
        assert_close(rec.maps[name].weights().mean(1), theirs, atol=1e-5, rtol=0)


def _first(x):
    return x[0] if isinstance(x, tuple) else x


@pytest.mark.parametrize("family", ["bert"])
def test_seeds_are_left_alone(family):
    model, inputs = foreign.build(family)
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    with record(model):
        model(**inputs)
    assert torch.equal(torch.rand(4), expected)
