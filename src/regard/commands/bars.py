"""Bars on stderr while something takes long; they leave nothing behind."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn


def counting() -> Progress:
    """A bar for each thing, with how many of how many."""
    return _progress(MofNCompleteColumn())


@contextmanager
def telling(beginning: str = "loading") -> Iterator[Callable[..., None]]:
    """One bar whose words change: tell(description, done, of, numbers); without `of`, how much is left is not known."""
    with _progress(TextColumn("{task.fields[numbers]}")) as progress:
        bar = progress.add_task(beginning, total=None, numbers="")

        def tell(description: str, done: int = 0, of: int | None = None, numbers: str = "") -> None:
            progress.update(bar, description=description, completed=done, total=of, numbers=numbers)

        yield tell


def _progress(between: ProgressColumn) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), between, TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def numbers_of(numbers: dict[str, float]) -> str:
    """What a trainer tells of a step, in a line."""
    return "  ".join(f"{key} {value:.4g}" for key, value in numbers.items() if key != "epoch")
