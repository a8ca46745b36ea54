"""What is said on stderr while something takes long: bars that leave nothing behind, or in a log a line for a stage."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from .cli_errors import console

OFTEN = 30.0  # seconds, after which a long stage is heard of again
BESIDE = 18  # columns for a short bar and the clock: words too long for the terminal are cut, these are not
WITHIN = re.compile(r", epoch \d|: \d+ of \d")  # what follows is no stage of its own


@contextmanager
def counting() -> Iterator[Callable[..., None]]:
    """A bar for each thing: count(thing, done, of, words), where words take the place of the thing's name."""
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

        def count(thing: str, done: int, of: int, words: str = "") -> None:
            if thing not in bars:
                bars[thing] = progress.add_task(thing, total=of)
            progress.update(bars[thing], completed=done, total=of, description=words or thing)

        yield count


@contextmanager
def telling(beginning: str = "loading") -> Iterator[Callable[..., None]]:
    """One bar whose words change: tell(description, done, of, numbers); without `of`, how much is left is not known.

    Where stderr is no terminal, a line when a stage begins, and now and then one in a long stage.
    """
    shown = console(stderr=True)
    if not shown.is_terminal:
        log = Log(shown)
        log.stage(beginning)
        yield lambda description, done=0, of=None, numbers="": log.stage(description, numbers)
        return
    with _progress(shown, TextColumn("{task.fields[numbers]}", markup=False), Clock()) as progress:
        bar = progress.add_task(beginning, total=None, numbers="")

        def tell(description: str, done: float = 0, of: int | None = None, numbers: str = "") -> None:
            progress.tasks[0].total = of  # update() would take None for: as before
            room = max(20, shown.width - len(numbers) - BESIDE)
            words = description if len(description) <= room else f"{description[: room - 1]}…"
            progress.update(bar, description=words, completed=done, numbers=numbers)

        yield tell


class Log:
    """Lines with the seconds since it began."""

    def __init__(self, console: Console):
        self.console, self.began, self.last, self.now = console, time.monotonic(), 0.0, ""

    def line(self, words: str) -> None:
        self.last = time.monotonic()
        self.console.print(f"{self.last - self.began:6.0f} s  {words}", highlight=False, markup=False, soft_wrap=True)

    def stage(self, description: str, numbers: str = "") -> None:
        """A line where a stage begins, and then every half a minute with its numbers."""
        stage = WITHIN.split(description)[0]
        if stage != self.now:
            self.now = stage
            self.line(stage)
        elif time.monotonic() - self.last > OFTEN:
            self.line(f"{description}  {numbers}".rstrip())


class Clock(ProgressColumn):
    """The time since the bar began. Rich's own stops for good where the bar is full for the first time, as it is at the
    end of every epoch."""

    def render(self, task: Task) -> Text:
        return Text(str(timedelta(seconds=int(task.elapsed or 0))), style="progress.elapsed")


def _progress(console: Console, *behind: ProgressColumn) -> Progress:
    words = TextColumn("{task.description}", markup=False)
    return Progress(words, BarColumn(), *behind, console=console, transient=True)


def numbers_of(numbers: dict[str, float]) -> str:
    """What a trainer tells of a step, in a line."""
    return "  ".join(f"{key} {value:.4g}" for key, value in numbers.items() if key != "epoch")
