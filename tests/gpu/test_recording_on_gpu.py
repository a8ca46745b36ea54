"""Recording on a CUDA device leaves the outputs as they are, bit for bit; run with `pytest -m gpu tests/gpu`.

Models of the three families are built by hand, so that nothing but torch is needed; those of transformers run as well
where it is installed.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from regard import record

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="This machine has no CUDA device."),
]
FAMILIES = ["bert", "llama", "vit"]
KINDS = [torch.float32, torch.bfloat16, torch.float16]
WIDTH, HEADS = 64, 4


class Attention(nn.Module):
    """Fused attention of one family; `scores` are those of its last call in double precision."""

    def __init__(self, family):
        super().__init__()
        self.family = family
        self.groups = 2 if family == "llama" else HEADS
        size = WIDTH // HEADS
        self.q, self.k, self.v = (nn.Linear(WIDTH, heads * size) for heads in (HEADS, self.groups, self.groups))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.scores = None

    def forward(self, x, keep=None, cache=None):
        q = self.q(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        k, v = (part(x).unflatten(-1, (self.groups, -1)).transpose(1, 2) for part in (self.k, self.v))
        if self.family == "llama":
            start = 0 if not cache else cache[0].shape[2]
            q, k = rotated(q, start), rotated(k, start)
        if cache:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        if cache is not None:
            cache[:] = k, v
        causal = self.family == "llama" and q.shape[2] > 1
        mask = None if keep is None else keep[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=self.groups != HEADS)
        self.scores = double_scores(q, k, causal, mask)
        return self.out(y.transpose(1, 2).flatten(-2))


def rotated(x, start):
    half = x.shape[-1] // 2
    at = torch.arange(start, start + x.shape[2], device=x.device)[:, None]
    angle = at * 10_000 ** (-torch.arange(half, device=x.device) / half)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def double_scores(q, k, causal, mask):
    """Outside of what is recorded: no softmax is taken here."""
    with torch.no_grad():
        k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
        scores = (q.double()[..., :, None, :] * k.double()[..., None, :, :]).sum(-1) * q.shape[-1] ** -0.5
        if causal:
            n = scores.shape[-1]
            closed = torch.ones(n, n, dtype=torch.bool, device=q.device).triu(1)
            scores = scores.masked_fill(closed, -torch.inf)
        return scores if mask is None else scores.masked_fill(~mask, -torch.inf)


class Layer(nn.Module):
    def __init__(self, family):
        super().__init__()
        self.family = family
        norm = nn.RMSNorm if family == "llama" else nn.LayerNorm
        self.attention, self.norms = Attention(family), nn.ModuleList(norm(WIDTH) for _ in range(2))
        self.up, self.gate, self.down = nn.Linear(WIDTH, 96), nn.Linear(WIDTH, 96), nn.Linear(96, WIDTH)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, keep=None, cache=None):
        if self.family == "bert":  # normalised after each part
            x = self.norms[0](x + self.dropout(self.attention(x, keep)))
            return self.norms[1](x + self.down(F.gelu(self.up(x))))
        x = x + self.dropout(self.attention(self.norms[0](x), keep, cache))
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y) if self.family == "llama" else F.gelu(self.up(y)))


class Model(nn.Module):
    def __init__(self, family):
        super().__init__()
        self.family = family
        self.embedding = nn.Conv2d(3, WIDTH, 8, 8) if family == "vit" else nn.Embedding(1000, WIDTH)
        self.position = nn.Parameter(torch.randn(64, WIDTH) * 0.1)
        self.layers = nn.ModuleList(Layer(family) for _ in range(2))

    def forward(self, x, keep=None, caches=None):
        x = self.embedding(x)
        x = x.flatten(2).mT if self.family == "vit" else x
        x = x if self.family == "llama" else x + self.position[: x.shape[1]]
        for layer, cache in zip(self.layers, caches or [None, None], strict=True):
            x = layer(x, keep, cache)
        return x


def by_hand(family, kind=torch.float32):
    torch.manual_seed(0)
    model = Model(family).cuda().to(kind).eval()
    if family == "vit":
        return model, {"x": torch.randn(2, 3, 32, 32).cuda().to(kind)}
    inputs = {"x": torch.randint(0, 1000, (2, 40)).cuda()}
    if family == "bert":
        inputs["keep"] = torch.ones(2, 40, dtype=torch.bool).cuda()
        inputs["keep"][1, 30:] = False
    return model, inputs


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_outputs_are_equal_bit_for_bit_and_weights_exact(family, kind):
    model, inputs = by_hand(family, kind)
    bare = model(**inputs)
    with record(model) as rec:
        out = model(**inputs)
    assert torch.equal(bare, out) and not rec.missed and len(rec.maps) == 2
    for layer, amap in zip(model.layers, rec.maps.values(), strict=True):
        assert_close(amap.weights().double(), layer.attention.scores.softmax(-1), atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@torch.no_grad()
def test_decoding_steps_are_equal_bit_for_bit_and_weights_exact(kind):
    model, inputs = by_hand("llama", kind)

    def generate(steps=8):
        caches, ids, outs, truth = [[], []], inputs["x"], [], []
        for _ in range(steps):
            out = model(ids, caches=caches)
            truth += [layer.attention.scores for layer in model.layers]
            outs.append(out)
            ids = out[:, -1:, :50].float().argmax(-1)
        return outs, truth

    bare, _ = generate()
    with record(model) as rec:
        outs, truth = generate()
    assert all(map(torch.equal, bare, outs)) and not rec.missed and len(rec.maps) == 16
    for scores, amap in zip(truth, rec.maps.values(), strict=True):
        assert_close(amap.weights().double(), scores.softmax(-1), atol=1e-5, rtol=0)


def gradients(model, loss, recorded):
    torch.manual_seed(1)  # of dropout
    with record(model, grad=True) if recorded else torch.enable_grad():
        loss().backward()
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return found


def same_gradients(model, loss):
    """Those of a training step, recorded and not, wherever torch itself gives the same bits twice."""
    model.train()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # fused backward passes add in any order
        first, second, recorded = (gradients(model, loss, each) for each in (False, False, True))
    steady = [name for name in first if torch.equal(first[name], second[name])]
    assert len(steady) > len(first) / 2 and all(torch.equal(first[name], recorded[name]) for name in steady)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_training_step_has_the_same_gradients_bit_for_bit(family):
    model, inputs = by_hand(family)
    same_gradients(model, lambda: model(**inputs).square().mean())


@torch.no_grad()
def test_the_capture_of_a_cuda_graph_goes_on_and_is_told():
    model, inputs = by_hand("vit")
    with record(model) as rec:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            bare = model(**inputs)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        seen = len(rec.maps)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = model(**inputs)
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(bare, out) and len(rec.maps) == seen == 2
    assert any("CUDA graph" in missed for missed in rec.missed), rec.missed
    assert any("CUDAGraph.replay" in missed for missed in rec.missed), rec.missed


SIZES = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": HEADS, "intermediate_size": 64}


def of_transformers(family, kind=torch.float32):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed here.")
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
    inputs = {name: x.to(kind) if x.is_floating_point() else x for name, x in inputs.items()}
    return model.cuda().to(kind).eval(), {name: x.cuda() for name, x in inputs.items()}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_models_of_transformers_are_equal_and_weights_are_those_of_the_slow_path(family, kind):
    model, inputs = of_transformers(family, kind)
    bare = model(**inputs)[0]
    with record(model) as rec:
        out = model(**inputs)[0]
    assert torch.equal(bare, out) and not rec.missed and len(rec.maps) == 2
    model.set_attn_implementation("eager")
    expected = model(**inputs, output_attentions=True).attentions
    error = {torch.float32: 1e-5, torch.bfloat16: 2**-7, torch.float16: 2**-10}[kind]  # of a weight, at most 1
    for amap, weights in zip(rec.maps.values(), expected, strict=True):
        assert_close(amap.weights().to(weights), weights, atol=error, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_training_step_of_transformers_has_the_same_gradients_bit_for_bit(family):
    model, inputs = of_transformers(family)
    same_gradients(model, lambda: model(**inputs)[0].square().mean())
