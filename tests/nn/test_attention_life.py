"""What happens to a layer in its life: compiled, exported, cast, saved, copied, printed."""

import copy
import io

import pytest
import torch
from tests.sampling import mostly_slow
from torch import Tensor
from torch._dynamo.testing import CompileCounter
from torch.testing import assert_close

from regard import ALiBi, Attended, Causal, Entmax, Padding, Rotary, ScaledDot, TopK
from regard.nn import Attention, Cache

LAYERS = {
    "scaled dot": {},
    "rotary": {"rotary": True},
    "grouped gaussian": {"score": "gaussian", "kv_heads": 2},
    "additive": {"score": "additive"},
    "additive entmax": {"score": "additive", "align": "entmax15"},
    "additive top-k": {"score": "additive", "align": TopK(2)},
    "learned alpha": {"align": Entmax(1.4, learned=True, heads=4)},
    "ALiBi": {"score": ScaledDot() | ALiBi(4)},
    "linear kernel": {"score": "linear_kernel"},
    "local predictive": {"align": "local_predictive"},
    "hard": {"align": "hard"},
}
CHOOSE = ("hard", "additive top-k")  # a close call may rightly fall the other way in another precision


def inputs(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def layer(**options) -> Attention:
    torch.manual_seed(0)
    return Attention(16, 4, **options).eval()


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


QUICK = "rotary", "grouped gaussian", "additive entmax", "local predictive"


@pytest.mark.parametrize("kind", mostly_slow(LAYERS, *QUICK))
def test_one_compilation_serves_all_lengths(kind):
    made, counter = layer(**copy.deepcopy(LAYERS[kind])), CompileCounter()
    compiled = torch.compile(made, backend=counter, fullgraph=True, dynamic=True)
    for n in (3, 5, 9):
        x, over = inputs(2, n, 16), Causal()
        found, wanted = compiled(x, over=over), made(x, over=over)
        assert_close(found.out, wanted.out)
        assert_close(found.map.weights(), wanted.map.weights())
    assert counter.frame_count == 1


@pytest.mark.parametrize(("kind", "backend"), [("scaled dot", "sdpa"), ("learned alpha", "chunked")])
def test_compiled_gradients_are_those_of_eager(kind, backend):
    made = layer(**copy.deepcopy(LAYERS[kind]))
    compiled = torch.compile(made, backend="aot_eager", fullgraph=True, dynamic=True)
    x = inputs(2, 5, 16)
    made(x, over=Causal(), backend=backend).out.square().sum().backward()
    wanted = {name: p.grad.clone() for name, p in made.named_parameters()}
    made.zero_grad()
    compiled(x, over=Causal(), backend=backend).out.square().sum().backward()
    for name, parameter in made.named_parameters():
        assert_close(parameter.grad, wanted[name])


def test_dropout_compiles_with_a_seed_that_may_change():
    made, counter = layer(dropout=0.5).train(), CompileCounter()
    compiled = torch.compile(made, backend=counter, fullgraph=True, dynamic=True)
    x = inputs(2, 6, 16)
    for seed in (1, 2, 3):
        seed = torch.tensor(seed)
        assert_close(compiled(x, seed=seed).out, made(x, seed=seed).out)
    assert counter.frame_count == 1


def test_a_decoding_step_compiles_for_all_lengths():
    made, counter = layer(rotary=True), CompileCounter()
    compiled = torch.compile(made, backend=counter, fullgraph=True, dynamic=True)
    x, cache = inputs(2, 12, 16), Cache()
    with torch.no_grad():
        whole = made(x, over=Causal()).out
        outs = [compiled(x[:, :4], over=Causal(align="end"), cache=cache).out]
        outs += [compiled(part, over=Causal(align="end"), cache=cache).out for part in x[:, 4:].split(1, 1)]
    assert_close(torch.cat(outs, 1), whole)
    assert counter.frame_count <= 3, "a prompt, a first step and every other step"


@pytest.mark.parametrize("kind", mostly_slow(LAYERS, *QUICK))
def test_it_exports_with_a_free_length(kind):
    made = layer(**copy.deepcopy(LAYERS[kind]))
    length = torch.export.Dim("length", min=2, max=4096)
    program = torch.export.export(made, (inputs(2, 6, 16),), dynamic_shapes=({1: length},))
    for n in (4, 11):
        x = inputs(2, n, 16, seed=n)
        found, wanted = program.module()(x), made(x)
        assert isinstance(found, Attended)
        assert_close(found.out, wanted.out)
        assert_close(found.map.weights(), wanted.map.weights())


@pytest.mark.parametrize("backend", ["chunked", "reference"])
def test_an_exported_layer_is_saved_and_read_again(backend):
    made, x = layer(score="additive", align="sparsemax"), inputs(2, 6, 16)
    file = io.BytesIO()
    torch.export.save(torch.export.export(made, (x,), {"backend": backend}), file)
    file.seek(0)
    found = torch.export.load(file).module()(x, backend=backend)
    assert_close(found.out, made(x).out)
    assert_close(found.map[0, 1].weights(), made(x).map[0, 1].weights())


@pytest.mark.parametrize("kind", LAYERS)
def test_autocast_computes_in_bf16_and_keeps_the_parameters(kind):
    made, x = layer(**copy.deepcopy(LAYERS[kind])), inputs(2, 6, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, reference = made(x), made(x, backend="reference")
    assert found.out.dtype == torch.bfloat16
    found.out.float().sum().backward()
    assert {p.grad.dtype for p in made.parameters() if p.grad is not None} == {torch.float32}
    if kind not in CHOOSE:
        assert_no_worse(found.out, reference.out, copy.deepcopy(made).double()(x.double(), backend="reference").out)


@pytest.mark.parametrize("kind", [kind for kind in LAYERS if kind not in CHOOSE])
def test_half_precision_is_no_worse_than_twice_the_reference(kind):
    made, x = layer(**copy.deepcopy(LAYERS[kind])).bfloat16(), inputs(2, 6, 16).bfloat16()
    exact = copy.deepcopy(made).double()(x.double(), backend="reference").out
    assert_no_worse(made(x).out, made(x, backend="reference").out, exact)


def assert_no_worse(ours: Tensor, reference: Tensor, exact: Tensor) -> None:
    """At most twice the error that the definition makes in the same precision, and two ulp."""
    ulp = torch.finfo(ours.dtype).eps * exact.abs().max()
    assert (ours.double() - exact).abs().max() <= 2 * (reference.double() - exact).abs().max() + 2 * ulp


def test_rotary_keeps_its_angles_in_half_precision():
    x = inputs(1, 2000, 64)
    assert_close(Rotary(64).bfloat16()(x), Rotary(64)(x))


def test_double_and_back():
    made, x = layer(score="additive", align=Entmax(1.5, learned=True, heads=4)), inputs(2, 5, 16)
    before = made(x).out
    assert made.double()(x.double()).out.dtype == torch.float64
    assert_close(made.float()(x).out, before)


def test_dtype_and_device_are_taken_at_construction():
    made = Attention(16, 4, score="additive", rotary=True, dtype=torch.float64, device="cpu")
    assert {p.dtype for p in made.parameters()} == {torch.float64}
    assert Attention(16, 4, score="additive", device="meta").q_proj.weight.is_meta


@pytest.mark.parametrize("kind", LAYERS)
def test_the_state_goes_round(kind):
    made, x = layer(**copy.deepcopy(LAYERS[kind])), inputs(2, 5, 16)
    torch.manual_seed(1)
    other = Attention(16, 4, **copy.deepcopy(LAYERS[kind])).eval()
    assert list(other.load_state_dict(made.state_dict())) == [[], []]
    assert_close(other(x).out, made(x).out)


@pytest.mark.parametrize("kind", LAYERS)
def test_a_copy_is_a_copy(kind):
    made, x = layer(**copy.deepcopy(LAYERS[kind])), inputs(2, 5, 16)
    twin, before = copy.deepcopy(made), made(x).out
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert_close(made(x).out, before)


def test_two_layers_by_name_share_nothing():
    first, second = layer(score="additive", align="entmax15"), layer(score="additive", align="entmax15")
    assert first.score is not second.score
    assert first.align is not second.align


def test_it_reads_well():
    text = repr(Attention(16, 4, kv_heads=2, key_dim=8, dropout=0.1, rotary=500.0))
    assert text.splitlines()[1].strip() == ("dim=16, heads=4, d_k=4, d_v=4, kv_heads=2, key_dim=8, dropout=0.1")
    assert "(score): ScaledDot()" in text
    assert "(rotary): Rotary(d=4, base=500)" in text


def test_it_stacks_and_learns():
    """The answer is a sum over the tokens whose second feature is large: to be gathered from the whole sequence."""
    torch.manual_seed(0)
    layers = torch.nn.ModuleList([Attention(8, 2, score="additive"), Attention(8, 2)])
    readout = torch.nn.Linear(8, 1)
    x = torch.randn(64, 8, 8)
    y = (x[..., 0] * (x[..., 1] > 0.8)).sum(1)
    parameters = [*layers.parameters(), *readout.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=0.01)
    losses = []
    for _ in range(40):
        h = x
        for part in layers:
            h = h + part(h, over=Padding(torch.full((64,), 8))).out
        loss = (readout(h.mean(1)).squeeze(-1) - y).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
