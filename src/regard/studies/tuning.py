"""Tuning: every variant of every task tries the same configurations; the best on validation is tested.

    c*(task, variant) = argbest_c mean over tuning seeds of validation(task, variant, c)

Random search (Bergstra & Bengio 2012), sampled by scikit-learn before the first trial, so that configurations are
ordinary trials of the store: they run in parallel and resume, and sampling depends on no result. The test part is not
used: tuning trials return their validation metric only.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

if TYPE_CHECKING:
    from .specification import Study
    from .trial_store import StoredTrial

MARK = " #"  # separates variant and configuration number in the name of a tuning trial
ENDED = ("done", "kept", "failed")  # statuses of trials that will not run again
DIGITS = 3  # significant digits of sampled numbers


class Range(BaseModel):
    """A uniform or log-uniform range; integers if both ends are."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    low: int | float
    high: int | float
    log: bool = False

    @model_validator(mode="after")
    def _check_range(self) -> "Range":
        if not self.low < self.high or (self.log and self.low <= 0):
            raise ValueError(f"low = {self.low}, high = {self.high}: expected low < high, above 0 with log = true.")
        return self


class Tuning(BaseModel):
    """The tuning budget, the same for every variant of every task.

    configurations   how many each variant tries; the first is the task's default
    seeds            number of seeds (the first of the study) for each
    search           by hyperparameter: a list of values, or {low = 1e-4, high = 1e-2, log = true}
    draw             the sampling seed
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    configurations: int = Field(ge=2)
    seeds: int = Field(1, ge=1)
    search: dict[str, tuple[bool | int | float | str, ...] | Range] = Field(min_length=1)
    draw: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _check_search(self) -> "Tuning":
        for name, values in self.search.items():
            if isinstance(values, tuple) and not values:
                raise ValueError(f"search.{name} is empty: list the values to try.")
        return self

    def configurations_drawn(self) -> list[dict[str, Any]]:
        """The configurations in order; the first is empty. Deterministic for a specification."""
        from scipy.stats import loguniform, randint, uniform
        from sklearn.model_selection import ParameterSampler

        def distribution(values: Any) -> Any:
            if not isinstance(values, Range):
                return list(values)
            if isinstance(values.low, int) and isinstance(values.high, int) and not values.log:
                return randint(values.low, values.high + 1)
            if values.log:
                return loguniform(values.low, values.high)
            return uniform(values.low, values.high - values.low)

        space = {name: distribution(values) for name, values in self.search.items()}
        count = self.configurations - 1
        finite = all(isinstance(values, tuple) for values in self.search.values())
        if finite:  # sampled without replacement: there may be fewer than requested
            size = 1
            for values in self.search.values():
                size *= len(values) if isinstance(values, tuple) else 1
            count = min(count, size)
        drawn = [_plain(one) for one in ParameterSampler(space, count, random_state=self.draw)]
        return [{}, *drawn]


def _plain(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Python numbers with few digits, sorted by name."""
    made = {}
    for name, value in sorted(configuration.items()):
        kind = getattr(value, "item", lambda value=value: value)()
        made[name] = float(f"{kind:.{DIGITS}g}") if isinstance(kind, float) else kind
    return made


class TunedConfiguration(NamedTuple):
    """The tuned configuration of a variant of a task, its validation metric, and how many were tried."""

    configuration: dict[str, Any]
    validation: float
    tried: int


def tuning_jobs(study: "Study") -> list[dict[str, Any]]:
    """The tuning trials as JSON: each variant with each configuration on the first seeds of the study."""
    assert study.tuning is not None
    drawn = study.tuning.configurations_drawn()
    jobs = []
    for job in study.plain_jobs():
        if job["seed"] in study.seeds[: study.tuning.seeds] and job["variant"] in study.variant_names().values():
            jobs += [
                job
                | {"variant": f"{job['variant']}{MARK}{number}", "of": job["variant"], "hyper": hyper, "tunes": True}
                for number, hyper in enumerate(drawn)
            ]
    return jobs


def choices(study: "Study", stored: "Iterable[StoredTrial]") -> dict[tuple[str, str], TunedConfiguration]:
    """By task and variant, the best configuration by its mean validation measure, once all have ended.

    Ties go to the first. Configurations with a failed trial are excluded; if all are, there is no
    choice.
    """
    assert study.tuning is not None
    drawn, seeds = study.tuning.configurations_drawn(), study.seeds[: study.tuning.seeds]
    names = tuple(study.variant_names().values())
    results = {
        (one.task, one.variant, one.seed): (one.result or {}).get("validation")
        for one in stored
        if MARK in one.variant and one.status in ENDED
    }
    made = {}
    for task, part in study.parts().items():
        sign = 1.0 if next(iter(part.measures.values())).higher else -1.0
        for variant in names:
            means = {}
            for number in range(len(drawn)):
                values = [results.get((task, f"{variant}{MARK}{number}", seed)) for seed in seeds]
                some = [value for value in values if value is not None]
                if len(some) == len(seeds):
                    means[number] = sum(some) / len(some)
            if means:
                best = max(means, key=lambda number: (sign * means[number], -number))
                made[task, variant] = TunedConfiguration(drawn[best], means[best], len(drawn))
    return made
