"""Recording on a CUDA device leaves the outputs as they are, bit for bit; run with `pytest -m gpu tests/gpu`."""

import pytest
import torch
from torch.testing import assert_close

from regard import record

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="This machine has no CUDA device."),
]
SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def built(family):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    if family == "bert":
        model = transformers.BertModel(transformers.BertConfig(**SIZES), add_pooling_layer=False)
        inputs = {"input_ids": torch.randint(0, 1000, (2, 40))}
        inputs["attention_mask"] = torch.ones(2, 40, dtype=torch.long).tril(30)
    elif family == "llama":
        model = transformers.LlamaModel(transformers.LlamaConfig(**SIZES, vocab_size=1000, num_key_value_heads=2))
        inputs = {"input_ids": torch.randint(0, 1000, (2, 40))}
    else:
        model = transformers.ViTModel(transformers.ViTConfig(**SIZES, image_size=32, patch_size=8))
        inputs = {"pixel_values": torch.randn(2, 3, 32, 32)}
    return model.cuda().eval(), {name: x.cuda() for name, x in inputs.items()}


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("family", ["bert", "llama", "vit"])
def test_outputs_are_equal_bit_for_bit_and_weights_are_those_of_the_slow_path(family, kind):
    model, inputs = built(family)
    model = model.to(kind)
    inputs = {name: x.to(kind) if x.is_floating_point() else x for name, x in inputs.items()}
    with torch.no_grad():
        bare = model(**inputs)[0]
        with record(model) as rec:
            out = model(**inputs)[0]
        assert torch.equal(bare, out) and not rec.missed and len(rec.maps) == 2
        model.set_attn_implementation("eager")
        expected = model(**inputs, output_attentions=True).attentions
    error = {torch.float32: 1e-5, torch.bfloat16: 2**-7, torch.float16: 2**-10}[kind]  # of a weight, at most 1
    for amap, weights in zip(rec.maps.values(), expected, strict=True):
        assert_close(amap.weights().to(weights), weights, atol=error, rtol=0)


@pytest.mark.parametrize("family", ["bert", "llama", "vit"])
def test_a_training_step_has_the_same_gradients_bit_for_bit(family):
    def step(recorded):
        model, inputs = built(family)
        torch.manual_seed(1)
        with record(model, grad=True) if recorded else torch.enable_grad():
            model.train()(**inputs)[0].square().mean().backward()
        return [p.grad for p in model.parameters() if p.grad is not None]

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # fused backward passes add in any order
        for bare, out in zip(step(False), step(True), strict=True):
            assert torch.equal(bare, out)


def test_the_capture_of_a_cuda_graph_goes_on_and_is_told():
    model, inputs = built("vit")
    with torch.no_grad(), record(model) as rec:
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            bare = model(**inputs)[0]
        torch.cuda.synchronize()
        seen = len(rec.maps)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = model(**inputs)[0]
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(bare, out) and len(rec.maps) == seen
    assert any("CUDA graph" in missed for missed in rec.missed)
