"""One experiment with and without attention, over seeds: what each `regard train` command compares."""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.models.training import run_checkpoint as saved
from regard.models.training.experiment import Experiment, Result
from regard.models.training.run_variant import run
from regard.models.training.trainer import Trained, Trainer
from regard.recording.io.writing import write_whole

Hear = Callable[[str, int, int | None, dict[str, float]], None]
SAYS = {"uniform": "uniform (every weight alike)", "none": "none (no attention)"}


@dataclass
class VariantRow:
    """One way over all seeds."""

    says: str
    results: list[Result] = field(default_factory=list)
    trained: list[Trained] = field(default_factory=list)

    def values(self, measure: str) -> list[float]:
        return [result.numbers[measure] for result in self.results if measure in result.numbers]

    def as_dict(self) -> dict[str, Any]:
        return {
            "says": self.says,
            "runs": [result.numbers for result in self.results],
            "lengths": [result.lengths for result in self.results if result.lengths],
            "epochs": [one.epochs for one in self.trained],
            "kept": [one.kept for one in self.trained],
            "seconds": [round(one.seconds, 1) for one in self.trained],
            "validation": [one.best for one in self.trained],
        }


@dataclass
class TaskComparison:
    """The variants of a task beside its baselines."""

    experiment: Experiment
    task: str
    rows: list[VariantRow]
    baselines: list[VariantRow]
    asked: int = 1  # so many of the rows, the first ones, were asked for; the others are ablations

    def verdict(self) -> str:
        """What DESIGN asks of a result: is it above what is trivial?"""
        measure = self.experiment.measures[self.experiment.main]
        if not any(row.values(self.experiment.main) for row in self.baselines):
            return ""
        sign = 1 if measure.higher else -1
        trivial = [row for row in self.baselines if row.values(self.experiment.main)]
        best = max(trivial, key=lambda row: sign * statistics.fmean(row.values(self.experiment.main)))
        theirs, said = statistics.fmean(best.values(self.experiment.main)), []
        for row in self.rows[: self.asked]:
            word = "above" if sign * statistics.fmean(row.values(self.experiment.main)) > sign * theirs else "below"
            said.append(f"{row.says} is {word} the best trivial baseline ({best.says}) by {measure.says}.")
        return "\n".join(said)

    def as_dict(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "small": self.experiment.small,
            "rows": [row.as_dict() for row in self.rows],
            "baselines": [row.as_dict() for row in self.baselines],
            "verdict": self.verdict(),
        }


def compare(
    experiment: Experiment,
    attention: "str | Sequence[str]" = "",
    seeds: int = 1,
    device: str = "cpu",
    devices: int = 1,
    precision: str = "32-true",
    out: Path | None = None,
    alone: bool = False,
    board: bool = False,
    hear: Hear = lambda *_: None,
) -> TaskComparison:
    """The attention asked for and its ablations, each trained from seeds 0, 1, ...; and what is trivial beside them.

    attention   one or several; none is what the task usually has
    out         a folder: checkpoints of every run (one that was stopped goes on), results.json, what was said
    hear        is told what runs, the step of how many (None where that is not known) and the numbers of the step
    """
    asked = [attention] if isinstance(attention, str) else list(attention)
    names = list(dict.fromkeys([name or experiment.usual for name in asked or [""]]))
    several = len(names)
    names += [name for name in experiment.beside if not alone and name not in names]
    rows = [VariantRow(experiment.says.get(name, SAYS.get(name, name))) for name in names]
    found = TaskComparison(experiment, "", rows, [], several)
    for seed in range(seeds):
        if seed == 0 or experiment.drawn:
            task = experiment.load(seed)
        found.task = task.name
        for row, name in zip(rows, names, strict=True):
            folder = None if out is None else out / f"{name}-{seed}"
            if folder is not None:
                saved.describe(folder, experiment, name, seed)

            def step(
                epoch: int, at: int, of: int, numbers: dict[str, float], name: str = name, seed: int = seed
            ) -> None:
                hear(f"{name}, seed {seed}, epoch {epoch} of {experiment.training.epochs}", at, of, numbers)

            trainer = Trainer(experiment.training, device, devices, precision, folder, board, step)
            ran = run(experiment, task, name, seed, trainer)
            row.trained.append(ran.trained)
            row.results.append(ran.result)
            if folder is not None and row.results[-1].texts:
                write_whole(folder / "said.txt", ["\n".join(row.results[-1].texts).encode()])
        hear(f"trivial baselines, seed {seed}", 0, None, {})
        for says, numbers in experiment.baselines(task).items() if seed == 0 or experiment.drawn else ():
            row = next((row for row in found.baselines if row.says == says), None) or VariantRow(says)
            row.results.append(Result(numbers))
            if row not in found.baselines:
                found.baselines.append(row)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_whole(out / "results.json", [json.dumps(found.as_dict(), indent=1).encode()])
    return found
