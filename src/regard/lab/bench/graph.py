"""Graph layers against torch_geometric's, eager and compiled, in one process, with the gather bound of each.

Graphs have random sources and power-law targets (target = floor(N u^2.5), shuffled). A layer is measured whole: its
projection, its edge part and its bias, forward and backward. The bound counts the rows that must be gathered without
cache hits, at the measured bandwidth of a large copy.
"""

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from regard import nn as ours

from .cora import training_steps
from .measure import BenchResult, by_turns, peak_memory, show


@dataclass(frozen=True)
class Size:
    """The size of a benchmark graph."""

    name: str
    nodes: int
    edges: int
    heads: int
    width: int
    transposed: bool = False  # hubs are sources instead of targets


CORA = Size("cora size", 2708, 10556, 8, 8)
ARXIV = Size("arxiv size", 169_343, 2_315_598, 8, 32)
PRODUCTS = Size("products size", 2_449_029, 61_859_140, 4, 32)
HUBS = Size("products size, hubs are sources", 2_449_029, 61_859_140, 4, 32, transposed=True)
SHORT = 300.0  # milliseconds; on a CPU, shorter steps are measured by turns with the peer's, many times
LAYERS = ("GATConv", "GATv2Conv", "TransformerConv")
GATHERS = {
    "GATConv": (1, 1),
    "GATv2Conv": (1, 3),
    "TransformerConv": (2, 3),
}  # rows an edge reads, forward and backward
BARS = {  # milliseconds and gigabytes on an H200, fp32
    ("GATConv", PRODUCTS.name): (45.0, 9.0),
    ("GATConv", ARXIV.name): (4.0, None),
    ("GATv2Conv", PRODUCTS.name): (150.0, 9.0),
    ("GATv2Conv", ARXIV.name): (8.0, None),
    ("TransformerConv", PRODUCTS.name): (None, 12.0),
}


def power_law(size: Size, device: str) -> Tensor:
    """edge_index (2, E)."""
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(0, size.nodes, (size.edges,), generator=generator)
    drawn = torch.rand(size.edges, generator=generator, dtype=torch.float64) ** 2.5
    target = torch.randperm(size.nodes, generator=generator)[(drawn * size.nodes).long().clamp_max(size.nodes - 1)]
    pair = (target, source) if size.transposed else (source, target)
    return torch.stack(pair).to(device)


def main(json: bool = False, peers: bool = True) -> None:
    """On a GPU the two large graphs in fp32 and bf16; on a CPU Cora's size and the arxiv size in fp32."""
    gpu = torch.cuda.is_available()
    console = Console(stderr=True)
    rate = copy_rate() if gpu else None
    results = []
    for size in (CORA, ARXIV, PRODUCTS, HUBS) if gpu else (CORA, ARXIV):
        edge_index = power_law(size, "cuda" if gpu else "cpu")
        for layer in LAYERS if size is not HUBS else ("GATConv", "TransformerConv"):
            for dtype in (torch.float32, torch.bfloat16) if gpu and size is not HUBS else (torch.float32,):
                results.append(_layer(layer, size, edge_index, dtype, rate, peers, gpu))
                console.print(f"[dim]{results[-1].name}: {results[-1].ours:.3g} ms[/dim]")
        del edge_index
    if not gpu:
        results += training_steps(peers)
    show("graph", results, json)


def copy_rate() -> float:
    """Bytes a second, read plus written, of a large copy."""
    x, y = (torch.empty(2**30, dtype=torch.uint8, device="cuda") for _ in range(2))
    return 2 * 2**30 / (_gpu_median(lambda: y.copy_(x), 10) / 1e3)


def _layer(
    name: str, size: Size, edge_index: Tensor, dtype: torch.dtype, rate: float | None, peers: bool, gpu: bool
) -> BenchResult:
    torch.manual_seed(0)
    device = edge_index.device
    options: dict[str, Any] = {} if name == "TransformerConv" else {"add_self_loops": False}
    width = size.heads * size.width
    mine = getattr(ours, name)(width, size.width, heads=size.heads, **options).to(device, dtype)
    x = torch.randn(size.nodes, width, device=device, dtype=dtype)
    cold = _milliseconds(lambda: _step(mine, x, edge_index.clone()), gpu, 1 if gpu else 3)
    ms, memory = _measured(lambda index: _step(mine, x, index), edge_index, gpu)
    label = str(dtype).removeprefix("torch.")
    result = BenchResult(
        f"{name}, {size.name}, {size.heads}x{size.width}, {label}, forward+backward", "ms", ms, None, "", ""
    )
    result.notes = {"cold_ms": cold, "peak_gb": memory}
    if rate is not None:
        bound = _gather_bytes(name, size, x.element_size()) / rate * 1e3
        result.notes |= {"gather_bound_ms": bound, "fraction_of_bound": bound / ms}
    if peers and dtype == torch.float32:  # compiled in bf16, torch_geometric 2.8 on torch 2.11 dies by a bad address
        peer = _peer_of(name, mine, x, options, size)
        result.notes |= {"pyg": "not installed"} if peer is None else _peers(peer, x, edge_index, gpu)
        if not gpu and peer is not None and ms < SHORT:
            both = partial(_step, mine, x, edge_index), partial(_step, peer, x, edge_index)
            result.ours, result.notes["pyg_eager_ms"] = (1e3 * seconds for seconds in by_turns(*both, 15, calls=5))
        known = [v for k, v in result.notes.items() if k.startswith("pyg") and k.endswith("_ms") and v is not None]
        result.peer, result.peer_name = (
            (min(known), "torch_geometric, the faster form") if known else (None, "torch_geometric")
        )
    time_bar, memory_bar = BARS.get((name, size.name), (None, None)) if gpu and dtype == torch.float32 else (None, None)
    if time_bar or memory_bar:
        parts = [f"{time_bar:g} ms" if time_bar else "", f"{memory_bar:g} GB" if memory_bar else ""]
        result.bar = "at most " + " and ".join(p for p in parts if p)
        result.held = (time_bar is None or ms <= time_bar) and (memory_bar is None or memory <= memory_bar)
    elif not gpu and size is ARXIV and name == "GATConv" and result.peer:
        result.bar, result.held = (
            "10 times faster than torch_geometric, cold",
            cold * 10 <= result.notes["pyg_eager_ms"],
        )
    return result


def _peer_of(name: str, mine: Any, x: Tensor, options: dict[str, Any], size: Size) -> Any:
    """torch_geometric's layer with the same weights, or None."""
    try:
        import torch_geometric.nn as theirs
    except ModuleNotFoundError:
        return None
    layer = getattr(theirs, name)(x.shape[1], size.width, heads=size.heads, **options).to(x.device, x.dtype)
    layer.load_state_dict(mine.state_dict())
    return layer


def _peers(layer: Any, x: Tensor, edge_index: Tensor, gpu: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for form, run in (("eager", layer), ("compiled", torch.compile(layer, dynamic=False) if gpu else None)):
        if run is None:
            continue
        try:
            ms, memory = _measured(lambda index, run=run: _step(run, x, index), edge_index, gpu)  # type: ignore[misc]
        except torch.OutOfMemoryError:
            ms, memory = None, None
        except Exception as problem:  # a peer that cannot run here is reported, and the benchmark goes on
            found[f"pyg_{form}"] = type(problem).__name__
            continue
        finally:
            gc.collect()
            if gpu:
                torch.cuda.empty_cache()
        found |= {f"pyg_{form}_ms": ms, f"pyg_{form}_peak_gb": memory}
    return found


def _step(layer: Any, x: Tensor, edge_index: Tensor) -> None:
    x = x.detach().requires_grad_()
    layer.zero_grad(set_to_none=True)
    _FixedGradient.apply(layer(x, edge_index), _gradient(x)).backward()


class _FixedGradient(torch.autograd.Function):
    """A loss with a fixed gradient; like sum(), it does not keep its input."""

    @staticmethod
    def forward(ctx: Any, out: Tensor, gradient: Tensor) -> Tensor:
        ctx.gradient = gradient
        return out.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor, None]:
        return ctx.gradient, None


_gradients: dict[tuple[Any, ...], Tensor] = {}


def _gradient(x: Tensor) -> Tensor:
    """A dense random gradient, cached: that of sum() is an expanded scalar, which kernels need not gather.

    Input and output widths of the measured layers are equal.
    """
    key = (x.shape, x.dtype, x.device)
    if key not in _gradients:
        _gradients.clear()
        _gradients[key] = torch.randn(x.shape, dtype=x.dtype, device=x.device)
    return _gradients[key]


def _gather_bytes(name: str, size: Size, element: int) -> float:
    """Bytes that edges must read, forward and backward, without reuse (index, statistics and rows)."""
    forward, backward = GATHERS[name]
    row = size.heads * size.width * element
    return size.edges * ((forward + backward) * row + 24 * size.heads + 12) + size.nodes * (5 * row + 20 * size.heads)


def _measured(run: Callable[[Tensor], Any], edge_index: Tensor, gpu: bool) -> tuple[float, float]:
    """Median milliseconds, and peak gigabytes above x, edge_index and the parameters.

    The second step with an edge_index is measured: cached graph data count, sorting does not.
    """
    if gpu:
        fresh = edge_index.clone()
        run(edge_index)  # allocates what is cached, such as the gradient
        gc.collect()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        run(fresh)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        run(fresh)
        torch.cuda.synchronize()
        memory = (torch.cuda.max_memory_allocated() - before) / 1e9
        del fresh
        return _gpu_median(lambda: run(edge_index), 10), memory
    run(edge_index)
    _, memory_bytes = peak_memory(lambda: run(edge_index))
    return _milliseconds(lambda: run(edge_index), False, 3), memory_bytes / 1e9


def _milliseconds(run: Callable[[], Any], gpu: bool, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        if gpu:
            torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        if gpu:
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def _gpu_median(run: Callable[[], Any], repeats: int) -> float:
    times = []
    for turn in range(repeats + 3):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        run()
        last.record()
        torch.cuda.synchronize()
        if turn >= 3:
            times.append(first.elapsed_time(last))
    return statistics.median(times)
