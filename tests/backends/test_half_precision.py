"""In 16 bits: what a small call hands back is the average under the weights of its map, and as exact as chunked's."""

from dataclasses import replace

import pytest
import torch
from hypothesis import Phase, example, given, settings
from tests.oracle import Case, Loss, plans, ulp
from tests.sampling import mostly_slow
from torch._dynamo.utils import counters

from regard import Causal, Edges, attend

HALF = (torch.bfloat16, torch.float16)
FOUND_IS_SMALL = (Phase.explicit, Phase.generate)
WEIGHED = plans().filter(lambda case: case.size != "n=0" and case.over != "no edges")  # something is averaged


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("backend", ["reference", "auto"])
@settings(max_examples=80, phases=FOUND_IS_SMALL)
@given(case=WEIGHED)
@example(case=Case("gaussian, learned width", "sparsemax", size="odd"))
@example(case=Case("dot", "sparsemax", size="odd"))
@example(case=Case("dot", "entmax 1.5", "edges", size="odd"))
@example(case=Case("gaussian by feature", "sparsemax", "causal & padding", size="odd, n=m"))
@example(case=Case("gaussian | own | sink", "sparsemax", "edges with loops", size="odd"))
def test_the_output_is_the_average_under_the_weights_of_the_map(case, backend, dtype):
    inputs = case.inputs(dtype)
    if isinstance(inputs.over, Edges):  # an edge's own value is not among the values
        inputs = inputs._replace(over=replace(inputs.over, value=None))
    result = attend(*inputs, backend=backend, **case.options)
    w = result.map.weights(dropout=True).double()
    v = inputs.v.detach().repeat_interleave(w.shape[1] // inputs.v.shape[1], 1).double()
    truth = w @ v if w.ndim == 4 else torch.einsum("bhfnm,bhmf->bhnf", w, v)
    off = (result.out.detach().double() - truth).abs()
    assert not off.numel() or off.amax() <= ulp(truth, dtype)  # it is rounded to half of one


@pytest.mark.parametrize("dtype", HALF, ids=str)
@settings(max_examples=80, phases=FOUND_IS_SMALL)
@given(case=plans())
@example(case=Case("gaussian, learned width", "sparsemax", size="odd"))
@example(case=Case("dot", "softmax", size="odd", heads="4 on 2"))
@example(case=Case("general", "entmax 1.5", "edges", size="odd"))
def test_outputs_and_gradients_are_no_further_from_the_truth_than_those_of_chunked(case, dtype):
    if "chunked" not in case.ways(dtype):
        return
    lost = losses_beside_chunked(case, dtype)
    broken = {name for name, loss in lost.items() if further(loss)}
    if broken:  # rounding is luck: what is broken is broken in the mean over draws of the inputs
        more = [lost, *(losses_beside_chunked(replace(case, seed=case.seed + draw), dtype) for draw in range(1, 8))]
        lost = {name: Loss(*map(sum, zip(*(one[name] for one in more), strict=True))) for name in broken}
    assert not {name: loss for name, loss in lost.items() if further(loss)}


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("align", ["softmax", "sparsemax", "entmax15", "sigmoid"])
@pytest.mark.parametrize("score", ["dot", "gaussian"])
def test_scores_of_wide_vectors_lose_nothing(score, align, dtype):
    """Scores of some dozens, whose rounding to 16 bits would move weights by a tenth and more."""
    found = {}
    for way, kind in (("truth", torch.float64), ("reference", dtype), ("chunked", dtype)):
        torch.manual_seed(0)
        q, k, v = (torch.randn(2, 2, n, 16).to(dtype).to(kind).requires_grad_() for n in (20, 30, 30))
        out = attend(q, k, v, score, align, backend="reference" if way == "truth" else way).out
        found[way] = [out, *torch.autograd.grad(out, [q, k, v], torch.randn(out.shape).to(dtype).to(kind))]
    for true, mine, chunked in zip(found["truth"], found["reference"], found["chunked"], strict=True):
        far = [(x.double() - true).abs().amax() for x in (mine, chunked)]
        assert far[0] <= far[1] + ulp(true, dtype)


def further(loss: Loss) -> bool:
    """By more than the last rounding, which is luck: half an ulp of each."""
    return not loss.error <= loss.own + loss.ulp  # NaN is further too


def losses_beside_chunked(case: Case, dtype: torch.dtype) -> dict[str, Loss]:
    """Of the reference in 16 bits, by tensor: its error, that of chunked, and an ulp."""
    say = case.decided(dtype)
    truth = case.outcome(torch.float64, "reference", say)
    mine, own = (case.outcome(dtype, way, say) for way in ("reference", "chunked"))
    found = {}
    for (kind, x), (_, y), (_, true) in zip(mine.kinds(), own.kinds(), truth.kinds(), strict=True):
        largest = max((t.abs().amax().item() for t in true.values() if t.numel()), default=0.0)
        for name in x:
            far = [(z[name].double() - true[name]).abs().amax().item() if z[name].numel() else 0.0 for z in (x, y)]
            found[f"{kind} {name}"] = Loss(far[0], far[1], torch.finfo(dtype).eps * largest)
    return found


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("score", ["gaussian", "additive", "cosine"])
def test_it_differentiates_twice(score, dtype):
    """The gradient of a gradient's square, beside that in fp64."""
    found = []
    for kind in (torch.float64, dtype):
        torch.manual_seed(0)
        q, k, v = (torch.randn(1, 2, n, 4).to(dtype).to(kind).requires_grad_() for n in (3, 5, 5))
        out = attend(q, k, v, score, "softmax", backend="reference").out
        first = torch.autograd.grad(out.double().square().sum(), [q, k, v], create_graph=True)
        found.append(torch.autograd.grad(sum(g.double().square().sum() for g in first), [q, k, v]))
    for true, mine in zip(*found, strict=True):  # each of two passes rounds what it hands on
        assert (mine.double() - true).abs().amax() <= 8 * ulp(true, dtype)


@pytest.mark.parametrize("score", mostly_slow(["scaled_dot", "gaussian", "additive"], "gaussian"))
def test_one_compilation_serves_every_length(score):
    torch._dynamo.reset()
    counters.clear()
    call = lambda q, k, v: attend(q, k, v, score, "entmax15", Causal("end"), backend="reference").out  # noqa: E731
    compiled = torch.compile(call, fullgraph=True, dynamic=True, backend="aot_eager")
    for n, m in ((5, 7), (9, 11), (4, 4)):
        q, k, v = (torch.randn(1, 2, size, 8).bfloat16() for size in (n, m, m))
        torch.testing.assert_close(compiled(q, k, v), call(q, k, v))
    assert counters["stats"]["unique_graphs"] == 1
