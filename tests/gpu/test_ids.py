"""Ids outside a graph on a CUDA device: nothing outside is read; it is told at the next wait, or at once if asked."""

import pytest
import torch
from torch.testing import assert_close

from regard import Edges, attend
from regard.core.arguments import id_bounds as ids
from regard.nn import GATConv, TransformerConv

DEVICE = "cuda"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="This machine has no CUDA device."),
]
NODES, OUTSIDE = 50, (60, -1, 2**40, 10**7)
CASES = [(row, end, number) for row, end in enumerate(("source", "target")) for number in OUTSIDE]


@pytest.fixture(autouse=True)
def _nothing_left_to_tell():
    torch._dynamo.reset()
    yield
    for flag in ids._flags.values():
        flag.zero_()


def broken(row, number):
    """The graph with one id outside, the same with the nearest node instead."""
    index = torch.randint(0, NODES, (2, 400))
    clamped = index.clone()
    index[row, 5], clamped[row, 5] = number, min(max(number, 0), NODES - 1)
    return index.to(DEVICE), clamped.to(DEVICE)


def told(end, number):
    with pytest.raises(ValueError, match=rf"names {end} {number} \(edge 5\), but there are 50 {end}s, 0 to 49\."):
        ids.raise_flagged(torch.device(DEVICE, torch.cuda.current_device()))


def along(x, index, score="gatv2"):
    return attend(x, x, x, score, over=Edges(index), backend="triton-edges")


def with_gradient(run, x):
    out = run(x)
    return out, torch.autograd.grad(out.square().sum(), x)[0]


@pytest.mark.parametrize("row, end, number", CASES)
@pytest.mark.parametrize("score", ["gat", "gatv2", "dot"])
def test_kernels_read_the_nearest_node_without_waiting(score, row, end, number):
    index, clamped = broken(row, number)
    x = torch.randn(2, NODES, 8, device=DEVICE, requires_grad=True)
    along(x, clamped, score)  # what is made once waits
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = with_gradient(lambda x: along(x, index, score).out, x)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert_close(found, with_gradient(lambda x: along(x, clamped, score).out, x), rtol=0, atol=0)
    told(end, number)


@pytest.mark.parametrize("row, end, number", CASES)
def test_a_map_that_is_read_tells(row, end, number):
    index, _ = broken(row, number)
    amap = along(torch.randn(2, NODES, 8, device=DEVICE), index).map
    with pytest.raises(ValueError, match=f"names {end} {number}"):
        amap.edges()


@pytest.mark.parametrize("row, end, number", CASES)
def test_with_regard_check_the_call_itself_tells(row, end, number, monkeypatch):
    monkeypatch.setenv("REGARD_CHECK", "1")
    index, _ = broken(row, number)
    for _ in range(2):
        with pytest.raises(ValueError, match=f"names {end} {number}"):
            along(torch.randn(2, NODES, 8, device=DEVICE), index)


@pytest.mark.parametrize("backend", ["reference", "chunked"])
@pytest.mark.parametrize("row, end, number", CASES)
def test_backends_that_wait_tell_in_the_call_itself(backend, row, end, number):
    index, _ = broken(row, number)
    x = torch.randn(2, NODES, 8, device=DEVICE)
    with pytest.raises(ValueError, match=f"names {end} {number}"):
        attend(x, x, x, over=Edges(index), backend=backend)


@pytest.mark.parametrize("row, end, number", CASES)
def test_self_loops_wait_and_tell(row, end, number):
    index, _ = broken(row, number)
    layer = GATConv(8, 4, heads=2).to(DEVICE)
    with pytest.raises(ValueError, match=f"names {end} {number}"):
        layer(torch.randn(NODES, 8, device=DEVICE), index)


@pytest.mark.parametrize("number", OUTSIDE)
def test_compiled_layers_read_the_nearest_node(number):
    layer = TransformerConv(8, 4, heads=2).to(DEVICE)
    compiled = torch.compile(layer, fullgraph=True)
    x = torch.randn(NODES, 8, device=DEVICE, requires_grad=True)
    for row, end in enumerate(("source", "target")):
        index, clamped = broken(row, number)
        found = with_gradient(lambda x, index=index: compiled(x, index), x)
        assert_close(found, with_gradient(lambda x, clamped=clamped: compiled(x, clamped), x))
        told(end, number)


def test_compiled_with_regard_check_the_call_itself_tells(monkeypatch):
    monkeypatch.setenv("REGARD_CHECK", "1")
    compiled = torch.compile(lambda x, e: along(x, e).out)
    x = torch.randn(2, NODES, 8, device=DEVICE)
    compiled(x, broken(0, 0)[0])
    for row, end, number in CASES:
        with pytest.raises(ValueError, match=f"names {end} {number}"):
            compiled(x, broken(row, number)[0])


@pytest.mark.parametrize("check", ["0", "1"])
@pytest.mark.parametrize("row, end, number", CASES)
def test_a_captured_graph_reads_the_nearest_node_and_is_told_of_after_it(row, end, number, check, monkeypatch):
    """An index that is overwritten between replays: whatever stands there is clamped in the graph itself."""
    compiled = torch.compile(lambda x, e: along(x, e).out)
    x, index = torch.randn(2, NODES, 8, device=DEVICE), torch.randint(0, NODES, (2, 400), device=DEVICE)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.no_grad():
        for _ in range(3):
            compiled(x, index)
    torch.cuda.current_stream().wait_stream(stream)
    monkeypatch.setenv("REGARD_CHECK", check)  # reading a flag would break the capture
    captured = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(captured):
        out = compiled(x, index)
    wrong, clamped = broken(row, number)
    index.copy_(wrong)
    captured.replay()
    torch.cuda.synchronize()
    assert_close(out, along(x, clamped).out)
    told(end, number)


def test_a_function_that_torch_captures_itself_is_told_of_too():
    compiled = torch.compile(lambda x, e: along(x, e).out + 0, mode="reduce-overhead")
    x = torch.randn(2, NODES, 8, device=DEVICE)
    with torch.no_grad():
        for _ in range(4):
            compiled(x, broken(0, 0)[0])
        for row, end, number in CASES:
            index, clamped = broken(row, number)
            assert_close(compiled(x, index).clone(), along(x, clamped).out)
            told(end, number)
