"""Aggregates the trials of a store into the results of a study."""

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..models.training.experiment import Measure
from .results import Missing, Results, Row
from .tasks import PLAIN
from .trial import TRIVIAL
from .trial_store import Store, StoredTrial
from .tuning import MARK, choices

if TYPE_CHECKING:
    from .specification import Study

TRIAL_ENTRIES = ("parameters", "validation", "curve", "width", "notes")  # of a result, that a table of trials shows


def collect(store: Store, study: "Study") -> Results:
    """The results so far. Independent of which runner ran the trials, and in which order."""
    parts, variants = study.parts(), tuple(study.variant_names().values())
    wanted = {(task, variant, seed) for task in parts for variant in (*variants, TRIVIAL) for seed in study.seeds}
    every = store.trials(study.name, results=True)
    stored = [one for one in every if (one.task, one.variant, one.seed) in wanted]
    measures: dict[str, dict[str, Measure]] = {name: dict(task.measures) for name, task in parts.items()}
    for one in stored:  # the metrics of a custom task may be unknown before its first result
        for name in (one.result or {}).get("numbers", {}):
            measures[one.task].setdefault(name, replace(PLAIN, says=name))
    if study.metrics:
        measures = {
            task: {name: found[name] for name in study.metrics if name in found} for task, found in measures.items()
        }
    position = {name: number for number, name in enumerate((*variants, TRIVIAL))}
    stored.sort(key=lambda one: (list(parts).index(one.task), one.seed, position[one.variant]))
    results = Results(
        study.name,
        study.baseline,
        tuple(parts),
        variants,
        study.seeds,
        measures,
        drawn=frozenset(name for name, task in parts.items() if task.drawn),
        splits={name: task.splits for name, task in parts.items() if task.splits},
        overlap={name: task.overlap for name, task in parts.items() if task.overlap},
    )
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    missing = []
    for one in stored:
        if one.status != "done":
            missing.append(Missing(one.task, one.variant, one.seed, missing_reason(store, one)))
            continue
        assert one.result is not None
        for says, numbers in one.result.get("trivial", {}).items():
            results.trivial += [
                Row(one.task, says, one.seed, name, numbers.get(name)) for name in measures[one.task] if name in numbers
            ]
        if one.variant == TRIVIAL:
            continue
        results.rows += _rows(one, measures[one.task])
        if one.result.get("findings"):
            results.judged.append(
                {"task": one.task, "variant": one.variant, "seed": one.seed, "tests": one.result["findings"]}
            )
        if one.result.get("parameters") is not None:
            results.parameters.setdefault(one.task, {})[one.variant] = int(one.result["parameters"])
        seconds[one.task, one.variant].append(one.seconds or 0.0)
        for name, value in one.result.get("lengths", {}).items():
            by_length = results.lengths.setdefault(one.task, {}).setdefault(one.variant, {})
            by_length.setdefault(name, []).append(value)
        results.trials.append(_trial(one))
    if study.tuning is not None:
        _add_tuning(results, study, every)
        begun = {(one.task, one.variant, one.seed) for one in stored}
        waiting = [(task, name, seed) for task in parts for name in variants for seed in study.seeds]
        missing += [Missing(*each, "waits for tuning") for each in waiting if each not in begun]
    for (task, variant), values in seconds.items():
        results.seconds.setdefault(task, {})[variant] = sum(values) / len(values)
    results.missing = tuple(missing)
    return results


def _rows(one: StoredTrial, measures: dict[str, Measure]) -> list[Row]:
    assert one.result is not None
    rows = []
    for name in measures:
        scores = one.result.get("scores", {}).get(name)
        value = one.result["numbers"].get(name)
        rows.append(Row(one.task, one.variant, one.seed, name, value, None if scores is None else tuple(scores)))
    return rows


def _trial(one: StoredTrial) -> dict[str, Any]:
    """Cost and course of a trial, as JSON."""
    result = one.result or {}
    found = {"task": one.task, "variant": one.variant, "seed": one.seed, "seconds": one.seconds, "peak": one.peak}
    return found | {name: result[name] for name in TRIAL_ENTRIES if name in result}


def _add_tuning(results: Results, study: "Study", stored: list[StoredTrial]) -> None:
    """The tuned configurations, how many were tried, and the cost of the search."""
    seconds: dict[tuple[str, str], float] = defaultdict(float)
    for one in stored:
        if MARK in one.variant:
            seconds[one.task, one.variant.rpartition(MARK)[0]] += one.seconds or 0.0
    for (task, variant), choice in choices(study, stored).items():
        results.tuned.setdefault(task, {})[variant] = {**choice._asdict(), "seconds": seconds[task, variant]}


def missing_reason(store: Store, one: StoredTrial) -> str:
    """Why a trial has no result: its status, or the first line of its last error."""
    if one.status != "failed":
        return one.status
    errors = [attempt["error"] for attempt in store.about(one.id)["attempts"] if attempt["error"]]
    return errors[-1].partition("\n")[0] if errors else "failed"
