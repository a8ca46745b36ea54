"""Time of the four tests of Jain & Wallace on every sentence of a test set.

The model is a recurrent classifier with additive attention, trained for one epoch: its quality does not change the cost
of a test.
"""

import time
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console

from regard.judging.adapters.adapter import Adapter
from regard.judging.attribution.gradients import gradient
from regard.judging.attribution.importance import leave_one_out
from regard.judging.tests.adversarial import seek
from regard.judging.tests.permutation import moved
from regard.models.builders import text_classifier
from regard.models.training.objectives import Classification
from regard.models.training.trainer import Trainer, Training

from ..data.sst import sst
from .measure import BenchResult, peak_memory, show

BAR = 600.0  # seconds for the four together, on two cores


def main(json: bool = False, sentences: int | None = None) -> None:
    show("judge", four_tests(sentences), json)


def four_tests(sentences: int | None = None) -> list[BenchResult]:
    """Seconds of each test, and of all four; `sentences`: so many of the test set instead of all 1,821."""
    console = Console(stderr=True)
    task = sst(phrases=False)
    assert task.words is not None
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = text_classifier(len(task.words), 2)
    console.print("[dim]training for one pass[/dim]")
    Trainer(Training(epochs=1, batch=64, rate=2e-3)).fit(model, Classification(), task.train, task.val)
    adapter = Adapter(model, task.test[:sentences])
    tests: dict[str, Callable[[], Any]] = {
        "gradients": lambda: adapter.each(lambda inputs: list(gradient(adapter, inputs))),
        "leave one out": lambda: adapter.each(lambda inputs: list(leave_one_out(adapter, inputs))),
        "permutation, 100 orders": lambda: moved(adapter),
        "adversary, 5 starts of 500 steps": lambda: seek(adapter),
    }
    results = []
    for name, run in tests.items():
        console.print(f"[dim]{name}[/dim]")
        work = time.process_time()
        seconds, extra = peak_memory(run)
        results.append(BenchResult(f"{name}, {len(adapter)} sentences", "s", seconds, None, "", "-"))
        results[-1].notes = {
            "instances": len(adapter),
            "processor_seconds": time.process_time() - work,
            "memory_mb": extra / 1e6,
        }
    whole = BenchResult(
        f"the four tests, {len(adapter)} sentences",
        "s",
        sum(one.ours for one in results),
        BAR,
        "bar",
        "under 10 minutes for all 1,821 on 2 cores",
    )
    whole.held = whole.ours < BAR if sentences is None else None
    whole.notes = {"processor_seconds": sum(one.notes["processor_seconds"] for one in results)}
    return [*results, whole]
