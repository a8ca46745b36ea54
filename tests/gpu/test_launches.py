"""Launches that Triton is not asked about again: on any stream, in a graph, of memory that is not aligned."""

import pytest
import torch

from regard import Causal, attend

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="This machine has no CUDA device."),
]


def both(q, k, v, dout, align="entmax15"):
    """out and the gradients of q, k, v."""
    out = attend(q, k, v, "scaled_dot", align, Causal(), backend="triton-dense").out
    return [out, *torch.autograd.grad(out, (q, k, v), dout)]


def made(seed, n=200, last=False):
    """q, k, v and what is handed back; last: heads stand last in memory, as projections leave them."""
    torch.manual_seed(seed)
    drawn = [torch.randn(1, n, 2, 64, device="cuda", dtype=torch.bfloat16).transpose(1, 2) for _ in range(4)]
    *qkv, dout = drawn if last else [x.contiguous() for x in drawn]
    return *(x.requires_grad_() for x in qkv), dout


def same(found, expected):
    assert all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))


@pytest.mark.parametrize("align", ["softmax", "sigmoid", "entmax15"])
def test_a_known_call_gives_the_bits_of_the_first(align):
    from regard.backends.triton.dense.backward import pull_kernel
    from regard.backends.triton.dense.launch import run, run_back

    given = made(0)
    for each in (pull_kernel.ready, run.tapes, run_back.tapes):  # what a test before this one has left
        each.clear()
    first = both(*given, align)
    kept = len(pull_kernel.ready)
    assert kept
    same(both(*given, align), first)
    both(*made(1, 333), align)
    assert len(pull_kernel.ready) == kept  # another length is no other kernel


def test_a_known_call_runs_on_the_stream_that_is_current():
    given = made(0)
    expected = both(*given)
    torch.cuda.synchronize()
    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):
        torch.cuda._sleep(50_000_000)  # whatever does not wait for this stream is done long before
        late = [x.detach().clone().requires_grad_() for x in given[:3]]
        found = both(*late, given[3])
    aside.synchronize()
    same(found, expected)


def test_a_captured_call_is_replayed_on_new_numbers():
    given = made(0)
    both(*given)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = both(*given)
    other = made(1)
    with torch.no_grad():
        for x, y in zip(given, other, strict=True):
            x.copy_(y)
    graph.replay()
    same(found, both(*other))


def test_memory_that_starts_anywhere_is_read_right():
    given = made(0)
    expected = both(*given)
    moved = [torch.empty(x.numel() + 1, device="cuda", dtype=x.dtype)[1:].view_as(x).copy_(x.detach()) for x in given]
    assert any(x.data_ptr() % 16 for x in moved)
    for _ in range(4):
        same(both(*(x.requires_grad_() for x in moved[:3]), moved[3]), expected)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("align", ["softmax", "sigmoid", "sparsemax", "entmax15"])
def test_calls_that_are_done_again_give_the_bits_of_calls_that_are_not(align, last, monkeypatch):
    from regard.backends.triton.dense import launch as launches

    for each in (launches.run, launches.run_back):
        each.tapes.clear()
    found = [both(*made(seed, last=last), align) for seed in range(4)]
    assert all(tape.backward_tape for tape in launches.run.tapes.values())  # its gradient is known
    assert all(tape.complete for each in (launches.run, launches.run_back) for tape in each.tapes.values())
    for name in ("run", "run_back"):
        monkeypatch.setattr(launches, name, getattr(launches, name).function)
    for seed, results in enumerate(found):
        same(results, both(*made(seed, last=last), align))


@pytest.mark.parametrize("heads", [1, 8])
def test_layers_over_edges_that_are_done_again_give_the_bits_of_those_that_are_not(heads, monkeypatch):
    from regard.backends.triton.edges import call as launches
    from regard.nn import GATConv, GATv2Conv

    index, pull = torch.randint(50, (2, 3000), device="cuda"), torch.randn(50, 8 * heads, device="cuda")
    layers = [kind(16, 8, heads=heads).cuda() for kind in (GATConv, GATv2Conv)]

    def step(layer, seed):
        torch.manual_seed(seed)
        x = torch.randn(50, 16, device="cuda", requires_grad=True)
        out = layer(x, index)
        return [out, *torch.autograd.grad(out, (x, *layer.parameters()), pull)]

    for each in (launches.run, launches.run_back):
        each.tapes.clear()
    found = [[step(layer, seed) for seed in range(4)] for layer in layers]
    assert all(tape.complete for each in (launches.run, launches.run_back) for tape in each.tapes.values())
    for name in ("run", "run_back"):
        monkeypatch.setattr(launches, name, getattr(launches, name).function)
    for layer, results in zip(layers, found, strict=True):
        for seed, result in enumerate(results):
            same(result, step(layer, seed))


def test_one_memory_for_queries_keys_and_values_is_done_again_right():
    for seed in range(4):
        q, _, _, dout = made(seed)
        one = both(*(q.detach().requires_grad_() for _ in range(3)), dout)  # three names of one memory
        same(one, both(*(q.detach().clone().requires_grad_() for _ in range(3)), dout))
