"""The overhead of a study: trials of a no-op task, and two workers compared with one."""

import tempfile
import time

from rich.console import Console

from regard.core.plural import count_of
from regard.studies import Study
from regard.studies.run_study import run
from regard.studies.trial_runner import RunnerCallbacks

from .measure import BenchResult, show

TRIALS = 200
WAITS = 50  # milliseconds that a trial takes


def overhead(workers: int = 2) -> list[BenchResult]:
    """Mean wall time of 200 no-op trials, the start of the workers included."""
    seconds = _seconds(workers, {}, "a no-op")
    took = 1000 * seconds / TRIALS
    made = BenchResult(f"a no-op trial, {workers} workers", "ms", took, None, "", "under 50 ms", took < 50)
    made.notes = {"trials": TRIALS, "seconds": seconds}
    return [made]


def throughput() -> list[BenchResult]:
    """Throughput of two workers over one, for trials that sleep, and for trials that compute (needs two free cores)."""
    measured = []
    for says, options in (("sleeping", {"milliseconds": WAITS}), ("computing", {"work": WAITS})):
        one, two = (_seconds(workers, options, f"{WAITS} ms of {says}") for workers in (1, 2))
        gain = one / two
        result = BenchResult(
            f"two workers, {WAITS} ms of {says}", "times one worker", gain, None, "", "at least 1.8", gain >= 1.8
        )
        result.notes = {"one_worker_s": one, "two_workers_s": two, "trials": TRIALS}
        measured.append(result)
    return measured


def _seconds(workers: int, options: dict[str, int], says: str) -> float:
    """From the start of the first trial to the end of the last."""
    Console(stderr=True).print(f"[dim]{TRIALS} trials on {count_of(workers, 'worker')}, each {says}[/dim]")
    task = {"task": "trivial", "options": options}
    specification = {"name": "bench", "tasks": [task], "variants": list("abcd"), "seeds": TRIALS // 4}
    study = Study.model_validate(specification)
    began: list[float] = []
    callbacks = RunnerCallbacks(started=lambda slot, lease: began.append(time.perf_counter()))
    with tempfile.TemporaryDirectory() as folder:
        results = run(study, folder, workers=workers, callbacks=callbacks)
        ended = time.perf_counter()
    if results.missing:
        raise RuntimeError(f"{len(results.missing)} trials are missing: {results.missing[0].why}")
    return ended - began[0]


def main(json: bool = False) -> None:
    show("study", overhead() + throughput(), json)
