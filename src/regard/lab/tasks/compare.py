"""Train one experiment with several attentions and ablations over seeds: the comparison of `regard train`."""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.models.training.experiment import Experiment, Result
from regard.models.training.run_checkpoint import describe
from regard.models.training.run_variant import run_variant
from regard.models.training.trainer import Trained, Trainer
from regard.recording.io.writing import write_whole

StepCallback = Callable[[str, int, int | None, dict[str, float]], None]
SAYS = {"uniform": "uniform (every weight alike)", "none": "none (no attention)"}


@dataclass
class VariantRow:
    """One variant over all seeds."""

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
    """The variants of a task and its trivial baselines."""

    experiment: Experiment
    task: str
    rows: list[VariantRow]
    baselines: list[VariantRow]
    requested: int = 1  # the first rows are the requested attentions, so many; the others are ablations

    def verdict(self) -> str:
        """Sentences on whether each requested attention is above the best trivial baseline."""
        measure = self.experiment.measures[self.experiment.main]
        if not any(row.values(self.experiment.main) for row in self.baselines):
            return ""
        sign = 1 if measure.higher else -1
        trivial = [row for row in self.baselines if row.values(self.experiment.main)]
        best = max(trivial, key=lambda row: sign * statistics.fmean(row.values(self.experiment.main)))
        reference, sentences = statistics.fmean(best.values(self.experiment.main)), []
        for row in self.rows[: self.requested]:
            gain = sign * (statistics.fmean(row.values(self.experiment.main)) - reference)
            word = "above" if gain > 0 else "below" if gain < 0 else "level with"
            sentences.append(f"{row.says} is {word} the best trivial baseline ({best.says}) by {measure.says}.")
        return "\n".join(sentences)

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
    on_step: StepCallback = lambda *_: None,
) -> TaskComparison:
    """Train the requested attentions and their ablations from seeds 0, 1, ..., and measure the trivial baselines.

    attention   one or several; by default that of the task
    out         a folder for checkpoints (interrupted runs resume), results.json and generated texts
    on_step     callback(description, step, steps or None, metrics)
    """
    requested = [attention] if isinstance(attention, str) else list(attention)
    names = list(dict.fromkeys([name or experiment.usual for name in requested or [""]]))
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
                describe(folder, experiment, name, seed)

            def step(
                epoch: int, at: int, of: int, numbers: dict[str, float], name: str = name, seed: int = seed
            ) -> None:
                on_step(f"{name}, seed {seed}, epoch {epoch} of {experiment.training.epochs}", at, of, numbers)

            trainer = Trainer(experiment.training, device, devices, precision, folder, board, step)
            done = run_variant(experiment, task, name, seed, trainer)
            row.trained.append(done.trained)
            row.results.append(done.result)
            if folder is not None and row.results[-1].texts:
                write_whole(folder / "said.txt", ["\n".join(row.results[-1].texts).encode()])
        on_step(f"trivial baselines, seed {seed}", 0, None, {})
        for says, numbers in experiment.baselines(task).items() if seed == 0 or experiment.drawn else ():
            row = next((row for row in found.baselines if row.says == says), None) or VariantRow(says)
            row.results.append(Result(numbers))
            if row not in found.baselines:
                found.baselines.append(row)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_whole(out / "results.json", [json.dumps(found.as_dict(), indent=1).encode()])
    return found
