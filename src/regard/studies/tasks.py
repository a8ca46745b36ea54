"""The tasks of a study: what each measures, which variants it takes, and the function that a trial calls."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..data.registry import STUDY_TASKS, TASKS
from ..models.attention_spec import parse_attention
from ..models.training.experiment import Experiment, Measure
from .trial import TRIVIAL, Setting, find

PLAIN = Measure("score", 1.0, 4)


class StudyTask:
    """call: the function of a trial; measures: what it gives, the first is the main one; trivial: whether it has what
    is reached without any of this."""

    call = ""
    trivial = False
    drawn = True

    def __init__(self, part: Mapping[str, Any]):
        self.measures: dict[str, Measure] = {}
        self.options: dict[str, Any] = dict(part["options"])

    def checked(self, variant: str) -> str:
        """The variant by its shortest name; one that the task cannot have is refused."""
        return variant


class FromExperiment(StudyTask):
    """An experiment of `regard train`."""

    call, trivial = "regard.studies.tasks:run_experiment", True

    def __init__(self, part: Mapping[str, Any]):
        super().__init__(part)
        experiment = TASKS[part["task"]](part["small"], **self.options)
        self.measures, self.drawn, self.own = dict(experiment.measures), experiment.drawn, experiment.own
        self.options = {"experiment": part["task"], "small": part["small"], "options": self.options}

    def checked(self, variant: str) -> str:
        if not self.own:
            return str(parse_attention(variant))
        if variant not in self.own:
            raise ValueError(
                f"the task {self.options['experiment']} has no variant {variant!r}; it has {', '.join(self.own)}."
            )
        return variant


class FromFunction(StudyTask):
    """A function of one's own, module:function(variant, seed, setting) -> numbers; a variant is any name it knows."""

    def __init__(self, part: Mapping[str, Any]):
        super().__init__(part)
        self.call, self.drawn = part["task"], part["drawn"]
        if part["task"] == "trivial":
            self.measures = {"score": PLAIN}
        for name, better in part["metrics"].items():
            self.measures[name] = replace(PLAIN, says=name, higher=better == "higher")


def task_of(part: Mapping[str, Any]) -> StudyTask:
    """The task that a part of the specification names."""
    kind = part["task"]
    if kind in TASKS:
        return FromExperiment(part)
    if kind in STUDY_TASKS:
        task: StudyTask = STUDY_TASKS[kind](part)
        return task
    module, colon, name = kind.partition(":")
    if kind == "trivial" or (colon and module and name):
        return FromFunction(part)
    known = ", ".join((*TASKS, *STUDY_TASKS, "trivial"))
    raise ValueError(f"there is no task {kind!r}: expected one of {known}, or a function of yours, 'module:function'.")


@lru_cache(maxsize=2)
def _loaded(name: str, small: bool, options: tuple[tuple[str, Any], ...], seed: int) -> tuple[Experiment, Any]:
    """Data that the next variant needs too."""
    experiment = TASKS[name](small, **dict(options))
    return experiment, experiment.load(seed)


def run_experiment(variant: str, seed: int, setting: Setting) -> dict[str, Any]:
    """Train and judge; or, for the trivial baselines of a task, those."""
    from .training import trained  # torch and its friends

    options = tuple(sorted(setting.options["options"].items()))
    drawn = TASKS[setting.options["experiment"]].drawn
    experiment, task = _loaded(setting.options["experiment"], setting.options["small"], options, seed if drawn else 0)
    if variant == TRIVIAL:
        return {"numbers": {}, "trivial": experiment.baselines(task)}
    return trained(experiment, task, variant, seed, setting)


def run_graph(variant: str, seed: int, setting: Setting) -> dict[str, Any]:
    """What stores of before name as the call of the task `gat`."""
    found: dict[str, Any] = find(STUDY_TASKS["gat"].call)(variant, seed, setting)
    return found


def is_own(call: str) -> bool:
    """Whether the function of a trial is one of the user's."""
    return call != "trivial" and not call.startswith(f"{__name__}:")


def folder_of(root: "str | Path", job: Mapping[str, Any]) -> Path:
    """Where a trial keeps its files: names that any file system takes, and no two trials share."""
    return Path(root) / "trials" / _plain(str(job["task"])) / _plain(f"{job['variant']}-{job['seed']}")


def _plain(name: str) -> str:
    made = "".join(c if c.isascii() and (c.isalnum() or c in "+=.-") else "_" for c in name)[:80]
    return made if made == name else f"{made}-{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}"
