"""The study task `scenes`: attention supervised by fixations on photographs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from regard.data.readers.fixations import Scene, read_fixations
from regard.models.training.experiment import Measure
from regard.studies.tasks import StudyTask
from regard.studies.trial import Setting

from ...data.eye_tracking import scenes
from ...human_agreement.scene_model import GazeTraining
from ...human_agreement.scenes import NAMES, judge_scenes

VARIANTS = {
    "attention": True,
    "picture": False,
}  # whether to use the mean fixation map of training photographs as a prior


class Photographs(StudyTask):
    """Attention over patches supervised by fixations, cross-validated; options: data ("scenes", or the path of your
    folder, `read_fixations`) and parts, the number of folds."""

    call = "regard.lab.tasks.images.scene_study:run_scenes"

    def __init__(self, part: Mapping[str, Any]):
        super().__init__(part)
        self.options = {"data": "scenes", "parts": 5, **self.options}
        strange = [name for name in self.options if name not in ("data", "parts")]
        if strange:
            raise ValueError(f"the task scenes has no option {strange[0]!r}; it has data, parts.")
        if self.options["data"] != "scenes":
            read_fixations(self.options["data"])  # raises where something is wrong with it
            self.source = self.options["data"]
        self.measures = {name: Measure(name, 1.0, 3, higher=name != "divergence from people") for name in NAMES}

    def canonical(self, variant: str) -> str:
        if variant not in VARIANTS:
            raise ValueError(
                f"the task scenes has no variant {variant!r}; it has attention (which begins from where people look) "
                "and picture (the picture alone)."
            )
        return variant


def photographs_of(data: str) -> list[Scene]:
    """Photographs by name, or a user's own by the path of their folder."""
    return scenes() if data == "scenes" else read_fixations(data)


def run_scenes(variant: str, seed: int, setting: Setting) -> dict[str, Any]:
    """Cross-validation over the parts, from one seed."""
    torch.set_num_threads(setting.threads)
    how = GazeTraining(prior=VARIANTS[variant], device=setting.device)
    epochs = setting.budget.get("epochs")
    if epochs:
        how = replace(how, training=replace(how.training, epochs=int(epochs), patience=int(epochs)))
    found = judge_scenes(
        photographs_of(setting.options["data"]),
        parts=int(setting.options["parts"]),
        seeds=1,
        seed=seed,
        resamples=1,
        how={variant: how},
    )
    values = {one.name: one.value for one in found}
    numbers = {name: values[f"{name}: {variant}"] for name in NAMES}
    return {"numbers": {name: value for name, value in numbers.items() if value is not None}}
