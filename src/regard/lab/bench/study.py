"""What a study itself costs: trials of a task that does nothing, and how two workers compare with one."""

import tempfile
import time

from rich.console import Console

from regard.core.plural import count_of
from regard.studies import Study
from regard.studies.run import run
from regard.studies.runner import RunnerCallbacks

from .measure import BenchResult, show

TRIALS = 200
WAITS = 50  # milliseconds of a trial that two workers should share


def overhead(workers: int = 2) -> list[BenchResult]:
    """Wall time of 200 trials that do nothing, divided by 200; starting the workers is in it."""
    seconds = _seconds(workers, {}, "doing nothing")
    took = 1000 * seconds / TRIALS
    made = BenchResult(f"a trial that does nothing, {workers} workers", "ms", took, None, "", "under 50 ms", took < 50)
    made.notes = {"trials": TRIALS, "seconds": seconds}
    return [made]


def throughput() -> list[BenchResult]:
    """Trials a second by two workers and by one, each trial waiting; and each computing, which needs two free cores."""
    made = []
    for says, options in (("waiting", {"milliseconds": WAITS}), ("computing", {"work": WAITS})):
        one, two = (_seconds(workers, options, f"{WAITS} ms of {says}") for workers in (1, 2))
        gain = one / two
        result = BenchResult(
            f"two workers, {WAITS} ms of {says}", "times one worker", gain, None, "", "at least 1.8", gain >= 1.8
        )
        result.notes = {"one_worker_s": one, "two_workers_s": two, "trials": TRIALS}
        made.append(result)
    return made


def _seconds(workers: int, options: dict[str, int], says: str) -> float:
    """From the first trial that begins to the end of the last."""
    Console(stderr=True).print(f"[dim]{TRIALS} trials by {count_of(workers, 'worker')}, each {says}[/dim]")
    task = {"task": "trivial", "options": options}
    given = {"name": "bench", "tasks": [task], "variants": list("abcd"), "seeds": TRIALS // 4}
    study = Study.model_validate(given)
    began: list[float] = []
    watch = RunnerCallbacks(started=lambda slot, claim: began.append(time.perf_counter()))
    with tempfile.TemporaryDirectory() as folder:
        results = run(study, folder, workers=workers, watch=watch)
        ended = time.perf_counter()
    if results.missing:
        raise RuntimeError(f"{len(results.missing)} trials are missing: {results.missing[0].why}")
    return ended - began[0]


def main(json: bool = False) -> None:
    show("study", overhead() + throughput(), json)
