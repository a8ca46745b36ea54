"""Measuring: two callables by turns, medians and their ratio; the peak of memory while a callable runs."""

import gc
import json
import math
import platform
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table


@dataclass
class BenchResult:
    """One comparison: ours beside the peer's, in `unit`; `bar` says in words what was aimed at."""

    name: str
    unit: str
    ours: float
    peer: float | None
    peer_name: str
    bar: str
    held: bool | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Ours over the peer's: below 1 is better than the peer."""
        return None if not self.peer else self.ours / self.peer


def by_turns(ours: Callable[[], Any], peer: Callable[[], Any], repeats: int, calls: int = 1) -> tuple[float, float]:
    """Median seconds a call of each; the two alternate, so that what else the machine does meets both alike."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(repeats + 1):
        for side, run in enumerate((ours, peer)):
            start = time.perf_counter()
            for _ in range(calls):
                run()
            if turn:  # the first turn warms up
                times[side].append((time.perf_counter() - start) / calls)
    return statistics.median(times[0]), statistics.median(times[1])


def gpu_times(*runs: Callable[[], Any], repeats: int = 5, least: float = 20.0) -> list[float]:
    """Median milliseconds a call of each, by turns.

    A turn launches calls for at least so many milliseconds and waits once: a GPU that wakes up for one short call runs
    at a low clock, and what the processor does before a launch is hidden behind the call before, as it is in a model;
    so each turn begins with a call that is not counted.
    """
    for run in runs:
        _gpu_turn(run, 1)  # compiles
    calls = [max(1, min(200, math.ceil(least / _gpu_turn(run, 1)))) for run in runs]
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(repeats):
        for side, run in enumerate(runs):
            times[side].append(_gpu_turn(run, calls[side]))
    return [statistics.median(t) for t in times]


def _gpu_turn(run: Callable[[], Any], calls: int) -> float:
    """Milliseconds a call of one turn."""
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    run()
    first.record()
    for _ in range(calls):
        run()
    last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last)) / calls


def single_call(run: Callable[[], Any], repeats: int = 7) -> float:
    """Median milliseconds of one call that is waited for: what the processor does before and between kernels counts."""
    run()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def captured(run: Callable[[], Any]) -> Callable[[], Any]:
    """The kernels of a call as one CUDA graph, launched by one call: what the processor does is left out."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):  # compiles, and makes what is made once
            run()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = run()

    def replay() -> Any:
        graph.replay()
        return kept  # what the graph writes to lives as long as it

    return replay


def extra_mib(run: Callable[[], Any]) -> float:
    """The most memory of the GPU that a call takes beyond what is there, in MiB."""
    run()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def timed(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def peak_memory(run: Callable[[], Any]) -> tuple[float, float]:
    """Seconds, and bytes of resident memory above what was there before, sampled every millisecond (Linux)."""
    gc.collect()
    before, highest, stop = _resident(), 0, threading.Event()

    def watch() -> None:
        nonlocal highest
        while not stop.is_set():
            highest = max(highest, _resident())
            time.sleep(0.001)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        seconds = timed(run)
    finally:
        stop.set()
        watcher.join()
    return seconds, max(0, max(highest, _resident()) - before)


def _resident() -> int:
    status = Path("/proc/self/statm")
    if not status.exists():
        raise RuntimeError(
            "Peak memory is read from /proc, which this system does not have: run the benchmark on Linux."
        )
    return int(status.read_text().split()[1]) * 4096


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    found = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "processor": platform.processor() or platform.machine(),
    }
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found


def show(title: str, results: list[BenchResult], as_json: bool, errors: Sequence[str] = ()) -> None:
    """The table for people, or JSON for programs; `errors` are what could not be measured, and why."""
    if as_json:
        rows = [{**asdict(result), "ratio": result.ratio} for result in results]
        made = {"benchmark": title, "machine": machine(), "results": rows, "errors": list(errors)}
        print(json.dumps(made, indent=2))
        return
    bounded = any("bound_ms" in r.notes for r in results)
    table = Table(title=f"regard bench {title}", caption=", ".join(f"{k} {v}" for k, v in machine().items()))
    for column in ("what", "ours", "peer", "ratio", *(("bound",) if bounded else ()), "bar", "held"):
        table.add_column(column, justify="right" if column in ("ours", "peer", "ratio", "bound") else "left")
    for r in results:
        peer = "-" if r.peer is None else f"{r.peer:.4g} ({r.peer_name})"
        ratio = "-" if r.ratio is None else f"{r.ratio:.3g}"
        held = "-" if r.held is None else "yes" if r.held else "no"
        least = [f"{r.notes['bound_ms']:.3g} ms" if "bound_ms" in r.notes else "-"] if bounded else []
        table.add_row(r.name, f"{r.ours:.4g} {r.unit}", peer, ratio, *least, r.bar, held)
    Console().print(table)
    for error in errors:
        Console(stderr=True).print(error, markup=False)
