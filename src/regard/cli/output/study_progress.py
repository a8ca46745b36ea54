"""Progress of a study: bars for the whole and for each running trial in a terminal, a line for each tenth in a log."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from regard.studies.trial_runner import RunnerCallbacks
from regard.studies.trial_store import Lease

OUTCOMES = {  # of a trial, unless done
    "failed": "failed, without retries left",
    "retried": "failed, and will be retried",
    "lost": "lost its worker, and will be rerun",
    "superseded": "was requeued after its lease expired; another runner's result counts",
}


@contextmanager
def progress_callbacks(
    console: Console, name: str, total: int, slots: int | None, quiet: bool = False
) -> Iterator[RunnerCallbacks]:
    """Callbacks for a runner; quiet: only trials that fail or are lost."""
    if quiet or not console.is_terminal:
        yield _log(console, name, total, quiet)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        whole = progress.add_task(name, total=total, note="")
        bars: dict[int, TaskID] = {}
        clock = RemainingTime(slots or 1)

        def started(slot: int, lease: Lease) -> None:
            label = f"  {lease.task}: {lease.variant}, seed {lease.seed}"
            bars[slot] = progress.add_task(label, total=100, note="")

        def progressed(slot: int, share: float, note: str) -> None:
            if slot in bars:
                progress.update(bars[slot], completed=round(100 * share), note=note)

        def ended(slot: int, lease: Lease, outcome: str, seconds: float, reason: str) -> None:
            if slot in bars:
                progress.remove_task(bars.pop(slot))
            if outcome == "done":
                clock.add(seconds)
                progress.advance(whole)
            else:
                progress.console.print(_outcome_text(lease, outcome, reason), highlight=False, markup=False)

        def counted(counts: dict[str, int]) -> None:
            progress.update(whole, completed=counts["done"], note=clock.says(counts["waiting"] + counts["running"]))

        yield RunnerCallbacks(started, progressed, ended, counted)


class RemainingTime:
    """Estimate of the time left: unfinished trials, at the mean time of those that ended in this process."""

    def __init__(self, slots: int):
        self.slots, self.count, self.seconds = slots, 0, 0.0

    def add(self, seconds: float) -> None:
        self.count, self.seconds = self.count + 1, self.seconds + seconds

    def says(self, trials: int) -> str:
        if not self.count or not trials:
            return ""
        left = round(trials * self.seconds / self.count / self.slots)
        return f"about {left // 60} min left" if left >= 120 else f"about {left} s left"


def _log(console: Console, name: str, total: int, quiet: bool) -> RunnerCallbacks:
    """A line for every tenth of the trials, and one for each trial that fails or is lost."""
    last = [-1]
    began = time.monotonic()

    def ended(slot: int, lease: Lease, outcome: str, seconds: float, reason: str) -> None:
        if outcome != "done":
            console.print(_outcome_text(lease, outcome, reason), highlight=False, markup=False, soft_wrap=True)

    def counted(counts: dict[str, int]) -> None:
        tenth = 10 * counts["done"] // max(1, total)
        if tenth > last[0] and not quiet:
            last[0] = tenth
            elapsed = time.monotonic() - began
            console.print(f"{name}: {counts['done']} of {total} trials, {elapsed:.0f} s", highlight=False, markup=False)

    return RunnerCallbacks(ended=ended, counted=counted)


def _outcome_text(lease: Lease, outcome: str, reason: str) -> str:
    text = f"{lease.task}: {lease.variant}, seed {lease.seed} {OUTCOMES.get(outcome, outcome)}"
    return f"{text}: {reason.splitlines()[0]}" if reason else f"{text}."
