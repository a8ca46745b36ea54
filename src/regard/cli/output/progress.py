"""Progress on stderr: transient bars in a terminal, or a line for each stage in a log."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from ..cli_errors import console

REPEAT_AFTER = 30.0  # seconds after which a long stage gets another line
BAR_AND_CLOCK = 18  # columns of a short bar and the clock; the description gets the rest
STEP = re.compile(r", epoch \d|: \d+ of \d")  # the rest of a description, within one stage


@contextmanager
def progress_bars() -> Iterator[Callable[..., None]]:
    """One bar for each item: report(item, done, total, description), where a description replaces the item's name."""
    shown = console(stderr=True)
    if not shown.is_terminal:
        log, tenths = Log(shown), dict[str, int]()

        def line(thing: str, done: int, of: int, words: str = "") -> None:
            tenth = 10 * done // max(1, of)
            if tenth > tenths.get(thing, -1):
                tenths[thing] = tenth
                log.line(f"{words or thing}, {done} of {of}")

        yield line
        return
    with _progress(shown, MofNCompleteColumn(), TimeElapsedColumn()) as progress:
        bars = {}

        def report(thing: str, done: int, of: int, words: str = "") -> None:
            if thing not in bars:
                bars[thing] = progress.add_task(thing, total=of)
            progress.update(bars[thing], completed=done, total=of, description=words or thing)

        yield report


@contextmanager
def progress_bar(first: str = "loading") -> Iterator[Callable[..., None]]:
    """One bar: report(description, done, total, metrics); without a total it only pulses.

    Where stderr is no terminal: a line when a stage begins, and every half minute in a long stage.
    """
    shown = console(stderr=True)
    if not shown.is_terminal:
        log = Log(shown)
        log.stage(first)
        yield lambda description, done=0, of=None, numbers="": log.stage(description, numbers)
        return
    with _progress(shown, TextColumn("{task.fields[numbers]}", markup=False), Clock()) as progress:
        bar = progress.add_task(first, total=None, numbers="")

        def report(description: str, done: float = 0, of: int | None = None, numbers: str = "") -> None:
            progress.tasks[0].total = of  # update(total=None) would leave it unchanged
            width = max(20, shown.width - len(numbers) - BAR_AND_CLOCK)
            words = description if len(description) <= width else f"{description[: width - 1]}…"
            progress.update(bar, description=words, completed=done, numbers=numbers)

        yield report


class Log:
    """Lines that begin with the seconds elapsed."""

    def __init__(self, console: Console):
        self.console, self.began, self.last, self.now = console, time.monotonic(), 0.0, ""

    def line(self, words: str) -> None:
        self.last = time.monotonic()
        self.console.print(f"{self.last - self.began:6.0f} s  {words}", highlight=False, markup=False, soft_wrap=True)

    def stage(self, description: str, numbers: str = "") -> None:
        """A line when a stage begins, then one every half minute with its metrics."""
        stage = STEP.split(description)[0]
        if stage != self.now:
            self.now = stage
            self.line(stage)
        elif time.monotonic() - self.last > REPEAT_AFTER:
            self.line(f"{description}  {numbers}".rstrip())


class Clock(ProgressColumn):
    """The time since the bar began. Rich's own stops for good where the bar is full for the first time, as it is at the
    end of every epoch."""

    def render(self, task: Task) -> Text:
        return Text(str(timedelta(seconds=int(task.elapsed or 0))), style="progress.elapsed")


def _progress(console: Console, *behind: ProgressColumn) -> Progress:
    words = TextColumn("{task.description}", markup=False)
    return Progress(words, BarColumn(), *behind, console=console, transient=True)


def format_metrics(numbers: dict[str, float]) -> str:
    """The metrics of a training step in one line."""
    return "  ".join(f"{key} {value:.4g}" for key, value in numbers.items() if key != "epoch")
