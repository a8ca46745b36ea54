"""A trial of an experiment: a model trained with the study's budget, judged, and kept."""

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
from ..models.training.run_variant import VariantRun, run
from ..models.training.trainer import Trainer
from ..recording import record
from ..recording.io.reading import BadRecord
from .trial import Setting

JUDGED = 200  # test examples that judges look at


def trained(experiment: Experiment, task: Task, variant: str, seed: int, setting: Setting) -> dict[str, Any]:
    torch.set_num_threads(setting.threads)
    usual = experiment.training
    epochs = epochs_for(setting.budget, len(task.train), usual.batch, usual.epochs)
    how = replace(usual, epochs=epochs, patience=epochs)  # no early stop: every variant spends the same

    def hear(epoch: int, step: int, steps: int, numbers: dict[str, float]) -> None:
        setting.tell(how.share(epoch, step, steps), f"epoch {epoch} of {epochs}")

    fabric_of(setting.device, setting.devices, setting.precision)  # loads it, which is no part of what a variant takes
    began = time.perf_counter()
    trainer = Trainer(
        how, setting.device, setting.devices, setting.precision, setting.folder, setting.board, _seldom(hear)
    )
    ran, notes = _from_checkpoint(experiment, task, variant, seed, trainer)
    found = {
        "numbers": ran.result.numbers,
        "scores": ran.result.scores,
        "lengths": ran.result.lengths,
        "notes": notes,
        "seconds": time.perf_counter() - began,
        "parameters": sum(p.numel() for p in ran.model.parameters() if p.requires_grad),
    }
    if setting.folder is not None and setting.records:
        _record(ran, task, Path(setting.folder), setting)
    if setting.judges:
        found["findings"] = judged(ran, task, setting, seed)
    return found


def judged(ran: VariantRun, task: Task, setting: Setting, seed: int) -> list[dict[str, Any]]:
    """The tests of the battery that the study asks for, on the first test examples; what has no meaning says so."""
    found = []
    try:
        adapter = Adapter(ran.model, task.test[:JUDGED], names=task.names)
    except (TypeError, ValueError) as why:
        return [
            {"name": name, "left_out": f"this task has no units to judge: {why}", "findings": []}
            for name in setting.judges
        ]
    for test in chosen(setting.judges):
        setting.tell(1.0, f"judging: {test.name}")
        one = judge(test, adapter, seed=seed)
        found.append(
            {"name": one.name, "left_out": one.left_out, "findings": [each.as_dict() for each in one.findings]}
        )
    return found


def _from_checkpoint(
    experiment: Experiment, task: Task, variant: str, seed: int, trainer: Trainer
) -> tuple[VariantRun, list[str]]:
    """Go on from what an attempt before left; what is damaged is put aside, and the trial begins anew."""
    try:
        return run(experiment, task, variant, seed, trainer), []
    except BadRecord as problem:
        assert trainer.folder is not None
        file = Path(trainer.folder) / "last.safetensors"
        file.replace(file.with_suffix(".damaged"))
        return run(experiment, task, variant, seed, trainer), [f"a damaged checkpoint was put aside: {problem}"]


def _seldom(hear: Any) -> Any:
    """Once for every fiftieth of an epoch: those who watch need no more."""

    def heard(epoch: int, step: int, steps: int, numbers: dict[str, float]) -> None:
        if step % max(1, steps // 50) == 0 or step == steps:
            hear(epoch, step, steps, numbers)

    return heard


def _record(ran: VariantRun, task: Task, folder: Path, setting: Setting) -> None:
    batch = collate(task.test[: setting.records]).to(setting.device)
    with torch.no_grad(), record(ran.model.eval()) as found:
        ran.model(batch)
    found.save(folder / "test.regard")


def epochs_for(budget: Mapping[str, Any], examples: int, batch: int, usual: int) -> int:
    """Whole epochs that a budget buys: steps are rounded up."""
    if budget.get("steps"):
        return math.ceil(int(budget["steps"]) / math.ceil(examples / batch))
    return int(budget.get("epochs") or usual)
