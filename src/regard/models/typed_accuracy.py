"""Accuracy over seeds on ACM: networks that know types beside one that does not, and beside what sees no edges."""

import json
import statistics
from collections.abc import Callable, Iterable

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ..data import TypedTask, acm
from .accuracy import Accuracy
from .training import Recipe, fit
from .typed import TYPED

# One recipe for all: set before any run on the test papers, and no network has one of its own.
RECIPE = Recipe(hidden=8, heads=8, dropout=0.5, rate=0.005, decay=5e-4, patience=30, epochs=200)


def typed_accuracies(
    task: TypedTask, seeds: Iterable[int], kinds: Iterable[str] = tuple(TYPED), recipe: Recipe | None = None,
    after: Callable[[Accuracy], None] = lambda _: None,
) -> list[Accuracy]:  # fmt: skip
    """Each kind of network trained from each seed; `after` is called after each run."""
    seeds, found, recipe = list(seeds), [], RECIPE if recipe is None else recipe
    for kind in kinds:
        seen = TYPED[kind].sees(task)
        found.append(Accuracy(kind, task.name))
        for seed in seeds:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                found[-1].runs.append(fit(TYPED[kind].make(seen, recipe), seen, recipe))
            after(found[-1])
    return found


def main(labels: int, seeds: int, kinds: Iterable[str] = (), json_wanted: bool = False) -> None:
    """What `regard train acm` does: train with progress on stderr, then a table or JSON on stdout."""
    kinds = tuple(kinds) or tuple(TYPED)
    unknown = [kind for kind in kinds if kind not in TYPED]
    if unknown:
        raise ValueError(f"--kind {unknown[0]}: expected one of {', '.join(TYPED)}.")
    task = acm(labels)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bars = {kind: progress.add_task(TYPED[kind].says, total=seeds) for kind in kinds}

        def after(so_far: Accuracy) -> None:
            spread = f"{TYPED[so_far.kind].says}: {so_far.mean:.1f} ± {so_far.deviation:.1f}"
            progress.update(bars[so_far.kind], advance=1, description=spread)

        found = typed_accuracies(task, range(seeds), kinds, after=after)
    if json_wanted:
        print(json.dumps({"data": task.name, "seeds": seeds, "results": [one.as_dict() for one in found]}, indent=2))
        return
    Console().print(_table(task, seeds, found))
    Console().print(NOTE, highlight=False)


NOTE = (
    "Accuracy is micro-F1. HAN's paper has 89.2, on another cut of ACM with another split: not comparable. On this "
    "split HeCo's paper has 88.1, 87.5 and 88.7 (20, 40, 60 labels) for HeCo, which is none of these networks."
)


def _table(task: TypedTask, seeds: int, found: list[Accuracy]) -> Table:
    table = Table(title=f"{task.name}: test accuracy in %, {seeds} seed{'s' * (seeds > 1)}, one recipe for all")
    table.add_column("network")
    for name in ("mean ± deviation", "lowest", "highest", "validation", "epochs", "seconds"):
        table.add_column(name, justify="right")
    for one in found:
        shares = [100 * run.test for run in one.runs]
        val, epochs, seconds = (statistics.fmean(x) for x in zip(*((r.val, r.epochs, r.seconds) for r in one.runs),
                                                                 strict=True))  # fmt: skip
        table.add_row(TYPED[one.kind].says, f"{one.mean:.1f} ± {one.deviation:.1f}", f"{min(shares):.1f}",
                      f"{max(shares):.1f}", f"{100 * val:.1f}", f"{epochs:.0f}", f"{seconds:.1f}")  # fmt: skip
    return table
