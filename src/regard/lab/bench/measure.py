"""Measurement: interleaved timing of two callables with medians and ratio; peak memory of a callable."""

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

# Notes that tell peak memory, in megabytes a unit: of a call, on a GPU beyond what was allocated before.
OURS = {"memory_mb": 1.0, "peak_gb": 1e3, "extra_mib": 2**20 / 1e6}
PEERS = {"peer_memory_mb": 1.0, "pyg_compiled_peak_gb": 1e3, "pyg_eager_peak_gb": 1e3, "peer_extra_mib": 2**20 / 1e6}


@dataclass
class BenchResult:
    """One comparison: ours and the peer's value in `unit`; `bar` is the target in words."""

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
    """Median seconds a call of each, interleaved, so that other load on the machine affects both."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(repeats + 1):
        for side, run in enumerate((ours, peer)):
            start = time.perf_counter()
            for _ in range(calls):
                run()
            if turn:  # the first turn warms up
                times[side].append((time.perf_counter() - start) / calls)
    return statistics.median(times[0]), statistics.median(times[1])


def fastest_by_turns(*runs: Callable[[], Any], turns: int) -> list[float]:
    """The least processor seconds of this thread for each of several callables that alternate; torch has one thread.

    What else the machine does is not counted, and what it does to the caches only adds to a turn.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    times: list[list[float]] = [[] for _ in runs]
    try:
        for turn in range(turns + 1):
            for side, run in enumerate(runs):
                start = time.thread_time()
                run()
                if turn:  # the first turn warms up
                    times[side].append(time.thread_time() - start)
    finally:
        torch.set_num_threads(threads)
    return [min(each) for each in times]


def gpu_times(*runs: Callable[[], Any], repeats: int = 5, least: float = 20.0) -> list[float]:
    """Median milliseconds a call of each, interleaved.

    A turn launches calls for at least `least` milliseconds and synchronises once: an idle GPU has a low clock, and host
    time before a launch overlaps with the call before, as in a model. Each turn starts with an uncounted warm-up call.
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
    """Median milliseconds of one synchronised call, host time included."""
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
    """A call captured as a CUDA graph: its time excludes host work."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):  # compiles and fills caches
            run()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = run()

    def replay() -> Any:
        graph.replay()
        return kept  # keeps the output buffers alive

    return replay


def extra_mib(run: Callable[[], Any]) -> float:
    """Peak GPU memory of a call above the current allocation, in MiB."""
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
    """Seconds, and peak resident memory above the start in bytes, sampled every millisecond (Linux)."""
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


def measure_memory(result: BenchResult, ours: Callable[[], Any], peer: Callable[[], Any] | None = None) -> BenchResult:
    """Adds the peak memory of a call of each to a comparison, where the system tells it (Linux)."""
    if Path("/proc/self/statm").exists():
        result.notes["memory_mb"] = peak_memory(ours)[1] / 1e6
        if peer is not None:
            result.notes["peer_memory_mb"] = peak_memory(peer)[1] / 1e6
    return result


def memory_text(notes: dict[str, Any]) -> str:
    """Peak memory of both sides of a comparison, as a table says it."""
    sides = []
    for names in OURS, PEERS:
        found = next((notes[name] * unit for name, unit in names.items() if notes.get(name) is not None), None)
        sides.append("-" if found is None else _megabytes(found))
    return "; ".join(sides if sides[1] != "-" else sides[:1])


def _megabytes(count: float) -> str:
    return f"{count / 1e3:.3g} GB" if count >= 1e3 else f"{count:.3g} MB"


def _resident() -> int:
    status = Path("/proc/self/statm")
    if not status.exists():
        raise RuntimeError(
            "Peak memory is read from /proc, which this system does not have: run the benchmark on Linux."
        )
    return int(status.read_text().split()[1]) * 4096


def machine() -> dict[str, Any]:
    """The machine of a measurement."""
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
    """Print a table, or JSON; `errors` say what could not be measured, and why."""
    if as_json:
        rows = [{**asdict(result), "ratio": result.ratio} for result in results]
        made = {"benchmark": title, "machine": machine(), "results": rows, "errors": list(errors)}
        print(json.dumps(made, indent=2))
        return
    bounded = any("bound_ms" in r.notes for r in results)
    table = Table(title=f"regard bench {title}", caption=", ".join(f"{k} {v}" for k, v in machine().items()))
    columns = ("what", "ours", "peer", "ratio", "memory; peer's", *(("bound",) if bounded else ()), "bar", "held")
    for column in columns:
        table.add_column(column, justify="left" if column in ("what", "bar", "held") else "right")
    for r in results:
        peer = "-" if r.peer is None else f"{r.peer:.4g} ({r.peer_name})"
        ratio = "-" if r.ratio is None else f"{r.ratio:.3g}"
        held = "-" if r.held is None else "yes" if r.held else "no"
        least = [f"{r.notes['bound_ms']:.3g} ms" if "bound_ms" in r.notes else "-"] if bounded else []
        table.add_row(r.name, f"{r.ours:.4g} {r.unit}", peer, ratio, memory_text(r.notes), *least, r.bar, held)
    Console().print(table)
    for error in errors:
        Console(stderr=True).print(error, markup=False)
