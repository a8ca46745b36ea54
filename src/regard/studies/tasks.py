"""The tasks of a study: what each measures, which variants it accepts, and the function that a trial calls."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..data.registry import STUDY_TASKS, TASKS
from ..models.attention_spec import parse_attention
from ..models.training.experiment import Experiment, Measure, build_experiment
from .trial import TRIVIAL, Setting, find

PLAIN = Measure("score", 1.0, 4)


class StudyTask:
    """A task of a study.

    call       the function that a trial runs, "module:function"
    measures   its metrics; the first is the main one
    trivial    whether it has trivial baselines
    drawn      whether its test instances depend on the seed
    hyperparameters   tunable: the function reads them from `setting.hyper` and returns "validation", its first metric
                      on the validation part
    """

    name = ""
    call = ""
    source = ""  # the path of the user's own data
    trivial = False
    drawn = True
    splits, overlap = 0, 0.0  # as of an Experiment
    hyperparameters: tuple[str, ...] = ()

    def __init__(self, part: Mapping[str, Any]):
        self.name = part.get("name") or part["task"]
        self.measures: dict[str, Measure] = {}
        self.options: dict[str, Any] = dict(part["options"])

    def canonical(self, variant: str) -> str:
        """The canonical name of a variant; raises if the task does not support it."""
        return variant


class ExperimentTask(StudyTask):
    """An experiment of `regard train`; its training may be tuned."""

    call, trivial = "regard.studies.tasks:run_experiment", True
    hyperparameters = ("rate", "decay", "batch", "clip", "warmup", "schedule")

    def __init__(self, part: Mapping[str, Any]):
        super().__init__(part)
        experiment = build_experiment(part["task"], TASKS[part["task"]], part["small"], self.options)
        self.measures, self.drawn, self.own = dict(experiment.measures), experiment.drawn, experiment.own
        self.splits, self.overlap = experiment.splits, experiment.overlap
        self.source = experiment.source
        self.options = {"experiment": part["task"], "small": part["small"], "options": self.options}

    def canonical(self, variant: str) -> str:
        if not self.own:
            return str(parse_attention(variant))
        if variant not in self.own:
            raise ValueError(
                f"the task {self.options['experiment']} has no variant {variant!r}; it has {', '.join(self.own)}."
            )
        return variant


class FunctionTask(StudyTask):
    """A custom function, module:function(variant, seed, setting) -> metrics; it interprets variants itself."""

    def __init__(self, part: Mapping[str, Any]):
        super().__init__(part)
        self.call, self.drawn = part["task"], part["drawn"]
        self.splits, self.overlap = part["splits"], part["overlap"]
        self.hyperparameters = tuple(part.get("tunable", ()))
        if part["task"] == "trivial":
            self.measures = {"score": PLAIN}
        for name, better in part["metrics"].items():
            self.measures[name] = replace(PLAIN, says=name, higher=better == "higher")


def task_of(part: Mapping[str, Any]) -> StudyTask:
    """The task of an entry of the specification."""
    kind = part["task"]
    if kind in TASKS:
        return ExperimentTask(part)
    if kind in STUDY_TASKS:
        task: StudyTask = STUDY_TASKS[kind](part)
        return task
    module, colon, name = kind.partition(":")
    if kind == "trivial" or (colon and module and name):
        return FunctionTask(part)
    names = ", ".join((*TASKS, *STUDY_TASKS, "trivial"))
    raise ValueError(f"there is no task {kind!r}: expected one of {names}, or your own function, 'module:function'.")


@lru_cache(maxsize=2)
def _load(name: str, small: bool, options: tuple[tuple[str, Any], ...], seed: int) -> tuple[Experiment, Any]:
    """An experiment and its data, cached: the next variant uses the same."""
    experiment = TASKS[name](small, **dict(options))
    return experiment, experiment.load(seed)


def run_experiment(variant: str, seed: int, setting: Setting) -> dict[str, Any]:
    """Train and judge a variant; or measure the trivial baselines."""
    from .training import train_trial  # imports torch

    options = tuple(sorted(setting.options["options"].items()))
    drawn = TASKS[setting.options["experiment"]].drawn
    experiment, task = _load(setting.options["experiment"], setting.options["small"], options, seed if drawn else 0)
    if variant == TRIVIAL:
        return {"numbers": {}, "trivial": experiment.baselines(task)}
    return train_trial(experiment, task, variant, seed, setting)


def run_graph(variant: str, seed: int, setting: Setting) -> dict[str, Any]:
    """The task `gat`, by its name in older stores."""
    found: dict[str, Any] = find(STUDY_TASKS["gat"].call)(variant, seed, setting)
    return found


def is_custom(call: str) -> bool:
    """Whether the function of a trial is the user's."""
    return call != "trivial" and not call.startswith(f"{__name__}:")


def folder_of(root: "str | Path", job: Mapping[str, Any]) -> Path:
    """The folder of a trial: portable names, unique to the trial."""
    return Path(root) / "trials" / _file_name(str(job["task"])) / _file_name(f"{job['variant']}-{job['seed']}")


def _file_name(name: str) -> str:
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "+=.-") else "_" for c in name)[:80]
    return safe if safe == name else f"{safe}-{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}"
