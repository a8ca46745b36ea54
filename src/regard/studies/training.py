"""A trial of an experiment: train a model within the study's budget, judge and record it."""

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ..data.batch import collate
from ..data.task import Task
from ..judging import Adapter
from ..judging.suite import chosen
from ..judging.suite import run as judge
from ..models.training.devices import fabric_of
from ..models.training.experiment import Experiment
from ..models.training.run_variant import VariantRun, run_variant
from ..models.training.trainer import Trainer
from ..recording import record
from ..recording.io.reading import BadRecord
from .trial import Setting

JUDGED = 200  # test examples given to the judges


def train_trial(experiment: Experiment, task: Task, variant: str, seed: int, setting: Setting) -> dict[str, Any]:
    torch.set_num_threads(setting.threads)
    recipe = experiment.training
    epochs = epochs_for(setting.budget, len(task.train), recipe.batch, recipe.epochs)
    # No early stopping: every variant spends the same.
    training = replace(recipe, epochs=epochs, patience=epochs, **setting.hyper)

    def report(epoch: int, step: int, steps: int, numbers: dict[str, float]) -> None:
        setting.report(training.share(epoch, step, steps), f"epoch {epoch} of {epochs}")

    fabric_of(setting.device, setting.devices, setting.precision)  # imports Fabric before the clock starts
    began = time.perf_counter()
    trainer = Trainer(
        training,
        setting.device,
        setting.devices,
        setting.precision,
        setting.folder,
        setting.board,
        on_step=_throttled(report),
    )
    run, notes = _run_or_resume(experiment, task, variant, seed, trainer)
    outcome = {
        "validation": _validation(experiment, run),
        "curve": [row[experiment.objective().selects_by] for row in run.trained.history],
        "numbers": run.result.numbers,
        "scores": run.result.scores,
        "lengths": run.result.lengths,
        "notes": notes,
        "seconds": time.perf_counter() - began,
        "parameters": sum(p.numel() for p in run.model.parameters() if p.requires_grad),
    }
    if setting.folder is not None and setting.records:
        _record(run, task, Path(setting.folder), setting)
    if setting.judges:
        outcome["findings"] = judge_trial(run, task, setting, seed)
    return outcome


def _validation(experiment: Experiment, run: VariantRun) -> float:
    """The validation metric of the best epoch, with the sign of the task's first metric."""
    objective, main = experiment.objective(), next(iter(experiment.measures.values()))
    value = run.trained.best[objective.selects_by]
    return value if objective.higher == main.higher else -value


def judge_trial(run: VariantRun, task: Task, setting: Setting, seed: int) -> list[dict[str, Any]]:
    """The tests of attention that the study names, on the first test examples; inapplicable ones say why."""
    found = []
    try:
        adapter = Adapter(run.model, task.test[:JUDGED], names=task.names)
    except (TypeError, ValueError) as why:
        return [
            {"name": name, "left_out": f"this task has no units to judge: {why}", "findings": []}
            for name in setting.judges
        ]
    for test in chosen(setting.judges):
        setting.report(1.0, f"judging: {test.name}")
        one = judge(test, adapter, seed=seed)
        found.append(
            {"name": one.name, "left_out": one.left_out, "findings": [each.as_dict() for each in one.findings]}
        )
    return found


def _run_or_resume(
    experiment: Experiment, task: Task, variant: str, seed: int, trainer: Trainer
) -> tuple[VariantRun, list[str]]:
    """Resume from the checkpoint of an earlier attempt; a damaged one is moved aside, and training restarts."""
    try:
        return run_variant(experiment, task, variant, seed, trainer), []
    except BadRecord as problem:
        assert trainer.folder is not None
        file = Path(trainer.folder) / "last.safetensors"
        file.replace(file.with_suffix(".damaged"))
        return run_variant(experiment, task, variant, seed, trainer), [
            f"a damaged checkpoint was moved aside: {problem}"
        ]


def _throttled(on_step: Any) -> Any:
    """The callback, called fifty times an epoch at most."""

    def throttled(epoch: int, step: int, steps: int, numbers: dict[str, float]) -> None:
        if step % max(1, steps // 50) == 0 or step == steps:
            on_step(epoch, step, steps, numbers)

    return throttled


def _record(run: VariantRun, task: Task, folder: Path, setting: Setting) -> None:
    batch = collate(task.test[: setting.records]).to(setting.device)
    with torch.no_grad(), record(run.model.eval()) as found:
        run.model(batch)
    found.save(folder / "test.regard")


def epochs_for(budget: Mapping[str, Any], examples: int, batch: int, default: int) -> int:
    """The epochs of a budget: steps are rounded up to whole epochs."""
    if budget.get("steps"):
        return math.ceil(int(budget["steps"]) / math.ceil(examples / batch))
    return int(budget.get("epochs") or default)
