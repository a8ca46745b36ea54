"""torch.compile(fullgraph=True, dynamic=True) makes one graph for all lengths; an exported program runs alike."""

import pytest
import torch
from tests.catalogue import OwnScore
from tests.sampling import mostly_slow
from torch import nn
from torch._dynamo.utils import counters
from torch.export import Dim, export

from regard import (
    Additive,
    ALiBi,
    Causal,
    Edges,
    Entmax,
    LocalPredictive,
    Mask,
    Padding,
    ScaledDot,
    Segments,
    Sink,
    SoftCap,
    TopK,
    Window,
    attend,
)


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def compiled_is_eager(
    call, lengths=((8, 8), (13, 13), (7, 7)), extra=lambda n, m: (), backend="aot_eager", tolerance=1e-6
):
    """Three lengths through one compiled function: the outputs and gradients of eager mode, from a single graph."""
    compiled = torch.compile(call, backend=backend, fullgraph=True, dynamic=True)
    for n, m in lengths:
        inputs = [torch.randn(3, 2, size, 6, requires_grad=True) for size in (n, m, m)]
        more = extra(n, m)
        found = []
        for run in (compiled, call):
            out = run(*inputs, *more)
            found.append((out, *torch.autograd.grad(out.square().sum(), inputs, allow_unused=True)))
        torch.testing.assert_close(found[0], found[1], rtol=tolerance, atol=tolerance)
    assert counters["stats"]["unique_graphs"] == 1


MODIFIED = ScaledDot() | SoftCap(3.0) | ALiBi(2) | Sink(2)
LEARNED = Entmax(1.5, learned=True, heads=2)
PREDICTIVE = LocalPredictive(2, 6, heads=2)
CALLS = {
    "sdpa, plain": lambda q, k, v: attend(q, k, v, backend="sdpa").out,
    "sdpa, causal": lambda q, k, v: attend(q, k, v, over=Causal(), backend="sdpa").out,
    "sdpa, gaussian": lambda q, k, v: attend(q, k, v, "gaussian", backend="sdpa").out,
    "chunked, additive": lambda q, k, v: attend(q, k, v, "additive", backend="chunked").out,
    "chunked, causal entmax": lambda q, k, v: attend(q, k, v, align="entmax15", over=Causal(), backend="chunked").out,
    "chunked, top-k": lambda q, k, v: attend(q, k, v, align=TopK(3), backend="chunked").out,
    "chunked, modifiers": lambda q, k, v: attend(q, k, v, MODIFIED, over=Window(2, 1), backend="chunked").out,
    "chunked, learned alpha": lambda q, k, v: attend(q, k, v, align=LEARNED, backend="chunked").out,
    "chunked, local predictive": lambda q, k, v: attend(q, k, v, align=PREDICTIVE, backend="chunked").out,
    "chunked, dropout": lambda q, k, v: attend(q, k, v, "gat", dropout=0.3, seed=3, backend="chunked").out,
    "reference, modifiers": lambda q, k, v: attend(q, k, v, MODIFIED, over=Causal(), backend="reference").out,
}


QUICK = "sdpa, causal", "chunked, modifiers", "chunked, learned alpha", "chunked, dropout", "reference, modifiers"


@pytest.mark.parametrize("name", mostly_slow(CALLS, *QUICK))
def test_three_lengths_are_one_compilation(name):
    compiled_is_eager(CALLS[name])


def test_auto_is_one_compilation_and_as_exact_as_eager_mode():
    """While compiling "auto" takes chunked at every length, in eager mode the reference for small ones."""

    def call(q, k, v):
        return attend(q, k, v, "laplace", "sparsemax").out

    compiled = torch.compile(call, backend="aot_eager", fullgraph=True, dynamic=True)
    for n in (8, 13, 7):
        inputs = [torch.randn(3, 2, n, 6, requires_grad=True) for _ in range(3)]
        exact = [x.detach().double().requires_grad_() for x in inputs]
        found = []
        for run, given in ((compiled, inputs), (call, inputs), (call, exact)):
            out = run(*given)
            found.append((out, *torch.autograd.grad(out.square().sum(), given)))
        for ours, eager, true in zip(*found, strict=True):
            error, allowed = (ours - true).abs().max(), (eager - true).abs().max()
            assert error <= 2 * allowed + 2 * torch.finfo(torch.float32).eps * true.abs().max()
    assert counters["stats"]["unique_graphs"] == 1


WITH_TENSORS = {
    "padding": (
        lambda q, k, v, x: attend(q, k, v, "additive", over=Padding(x) & Causal(), backend="chunked").out,
        lambda n, m: (torch.tensor([m, 2, m - 1]),),
    ),
    "padding on sdpa": (
        lambda q, k, v, x: attend(q, k, v, over=Padding(x), backend="sdpa").out,
        lambda n, m: (torch.tensor([m, 2, m - 1]),),
    ),
    "mask": (
        lambda q, k, v, x: attend(q, k, v, "gaussian", "sigmoid", Mask(keep=x), backend="chunked").out,
        lambda n, m: (torch.rand(n, m) < 0.7,),
    ),
    "segments": (
        lambda q, k, v, x: attend(q, k, v, over=Segments(x), backend="chunked").out,
        lambda n, m: (torch.randint(0, 3, (n,)).sort().values,),
    ),
    "edges": (
        lambda q, k, v, x: attend(q, k, v, "gatv2", over=Edges(x), backend="chunked").out,
        lambda n, m: (torch.randint(0, n, (2, 3 * n)),),
    ),
}


@pytest.mark.parametrize("name", mostly_slow(WITH_TENSORS, "padding", "edges"))
def test_structures_with_tensors_are_one_compilation(name):
    call, extra = WITH_TENSORS[name]
    compiled_is_eager(call, extra=extra)


def test_queries_and_keys_that_differ_in_number_are_one_compilation():
    compiled_is_eager(
        lambda q, k, v: attend(q, k, v, "additive", over=Causal(align="end"), backend="chunked").out,
        lengths=((4, 8), (9, 14), (3, 5)),
    )


def test_long_lengths_are_the_same_compilation_as_short_ones():
    """linear pads to blocks of 128 and top-k has fewer keys than k: neither makes a graph of its own."""
    compiled_is_eager(
        lambda q, k, v: attend(q, k, v, "linear_kernel", over=Causal(), backend="linear").out,
        lengths=((8, 8), (300, 300), (130, 130)),
        tolerance=1e-5,
    )
    counters.clear()
    compiled_is_eager(
        lambda q, k, v: attend(q, k, v, align=TopK(5), backend="chunked").out, lengths=((8, 8), (3, 3), (30, 30))
    )


def test_a_score_of_ones_own_is_compiled_on_the_reference():
    own = OwnScore(6, 2)
    compiled_is_eager(lambda q, k, v: attend(q, k, v, own).out)


def test_parameters_get_their_gradients_through_a_compiled_function():
    score = Additive(6, heads=2)
    compiled = torch.compile(
        lambda q, k, v: attend(q, k, v, score, backend="chunked").out, backend="aot_eager", fullgraph=True, dynamic=True
    )
    q, k, v = (torch.randn(3, 2, 8, 6) for _ in range(3))
    found = []
    for run in (compiled, lambda q, k, v: attend(q, k, v, score, backend="chunked").out):
        score.zero_grad()
        run(q, k, v).square().sum().backward()
        found.append([p.grad.clone() for p in score.parameters()])
    torch.testing.assert_close(found[0], found[1])


def test_a_map_may_be_read_inside_a_compiled_function():
    """For example an entropy penalty. The read fixes the length: another length compiles again."""

    def call(q, k, v):
        out, amap = attend(q, k, v, backend="sdpa")
        w = amap.weights(grad=True)
        return out.square().sum() - 0.1 * torch.xlogy(w, w).sum() + amap.weights().sum()

    q, k, v = (torch.randn(1, 2, 5, 6, requires_grad=True) for _ in range(3))
    found = []
    for run in (torch.compile(call, backend="aot_eager", fullgraph=True), call):
        value = run(q, k, v)
        found.append((value, *torch.autograd.grad(value, [q, k, v])))
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.slow
def test_inductor_compiles_it_too():
    torch._inductor.config.compile_threads = 1
    score = ScaledDot() | SoftCap(3.0)

    def call(q, k, v):
        return attend(attend(q, k, v, "gaussian", backend="sdpa").out, k, v, score, backend="chunked").out

    compiled_is_eager(call, lengths=((8, 8), (13, 13)), backend="inductor", tolerance=1e-5)


class Layer(nn.Module):
    """Projections around attend, as people write them."""

    def __init__(self, **options):
        super().__init__()
        self.project = nn.Linear(6, 18)
        self.options = options
        self.parts = nn.ModuleList([part for part in options.values() if isinstance(part, nn.Module)])

    def forward(self, x):
        q, k, v = self.project(x).unflatten(-1, (2, 9)).transpose(1, 2).chunk(3, -1)
        return attend(q, k, v, **self.options).out


@pytest.mark.covered
@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
@pytest.mark.parametrize(
    "options",
    [
        {"backend": "sdpa"},
        {"backend": "sdpa", "score": "gaussian"},
        {"backend": "chunked", "score": Additive(3, heads=2)},
        {"backend": "chunked", "align": TopK(3), "over": Causal()},
        {"backend": "reference", "score": ScaledDot() | SoftCap(2.0) | Sink(2), "align": "sparsemax"},
        {"backend": "linear", "score": "linear_kernel", "over": Causal()},
        {"backend": "auto", "score": "laplace"},
    ],
    ids=["sdpa", "sdpa, gaussian", "chunked, additive", "chunked, top-k", "reference", "linear", "auto"],
)
def test_an_exported_program_gives_eager_numbers_at_every_length(options, strict):
    layer = Layer(**options)
    program = export(
        layer, (torch.randn(3, 8, 6),), dynamic_shapes=({1: Dim("n", min=2, max=64)},), strict=strict
    ).module()
    for n in (8, 2, 5, 31):
        x = torch.randn(3, n, 6)
        torch.testing.assert_close(program(x), layer(x))


def test_an_exported_program_is_trained_like_the_layer():
    layer = Layer(backend="chunked", score=Additive(3, heads=2))
    program = export(layer, (torch.randn(3, 8, 6),), dynamic_shapes=({1: Dim("n", min=2, max=64)},)).module()
    x = torch.randn(3, 11, 6)
    program(x).sum().backward()
    layer(x).sum().backward()
    found = {name: p.grad for name, p in program.named_parameters()}
    for name, p in layer.named_parameters():
        torch.testing.assert_close(found[name], p.grad)
