"""From the trials of a store to the table of a study."""

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from ..models.training.experiment import Measure
from .results import Missing, Results, Row
from .tasks import PLAIN
from .trial import TRIVIAL
from .trial_store import Store, StoredTrial

if TYPE_CHECKING:
    from .specification import Study


def collect(store: Store, study: "Study") -> Results:
    """The results so far. The same trials give the same table, whoever ran them, in whatever order."""
    parts, variants = study.parts(), tuple(study.ways().values())
    wanted = {(task, variant, seed) for task in parts for variant in (*variants, TRIVIAL) for seed in study.seeds}
    kept = [one for one in store.trials(study.name, results=True) if (one.task, one.variant, one.seed) in wanted]
    measures: dict[str, dict[str, Measure]] = {name: dict(task.measures) for name, task in parts.items()}
    for one in kept:  # a function's metrics may be known only now
        for name in (one.result or {}).get("numbers", {}):
            measures[one.task].setdefault(name, replace(PLAIN, says=name))
    if study.metrics:
        measures = {
            task: {name: found[name] for name in study.metrics if name in found} for task, found in measures.items()
        }
    place = {name: number for number, name in enumerate((*variants, TRIVIAL))}
    kept.sort(key=lambda one: (list(parts).index(one.task), one.seed, place[one.variant]))
    made = Results(
        study.name,
        study.baseline,
        tuple(parts),
        variants,
        study.seeds,
        measures,
        drawn=frozenset(name for name, task in parts.items() if task.drawn),
    )
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    missing = []
    for one in kept:
        if one.status != "done":
            missing.append(Missing(one.task, one.variant, one.seed, why(store, one)))
            continue
        assert one.result is not None
        for says, numbers in one.result.get("trivial", {}).items():
            made.trivial += [
                Row(one.task, says, one.seed, name, numbers.get(name)) for name in measures[one.task] if name in numbers
            ]
        if one.variant == TRIVIAL:
            continue
        made.rows += _rows(one, measures[one.task])
        if one.result.get("findings"):
            made.judged.append(
                {"task": one.task, "variant": one.variant, "seed": one.seed, "tests": one.result["findings"]}
            )
        if one.result.get("parameters") is not None:
            made.parameters.setdefault(one.task, {})[one.variant] = int(one.result["parameters"])
        seconds[one.task, one.variant].append(one.seconds or 0.0)
        for name, value in one.result.get("lengths", {}).items():
            by_length = made.lengths.setdefault(one.task, {}).setdefault(one.variant, {})
            by_length.setdefault(name, []).append(value)
    for (task, variant), values in seconds.items():
        made.seconds.setdefault(task, {})[variant] = sum(values) / len(values)
    made.missing = tuple(missing)
    return made


def _rows(one: StoredTrial, measures: dict[str, Measure]) -> list[Row]:
    assert one.result is not None
    made = []
    for name in measures:
        scores = one.result.get("scores", {}).get(name)
        value = one.result["numbers"].get(name)
        made.append(Row(one.task, one.variant, one.seed, name, value, None if scores is None else tuple(scores)))
    return made


def why(store: Store, one: StoredTrial) -> str:
    """Why a trial has no result."""
    if one.status != "failed":
        return one.status
    errors = [attempt["error"] for attempt in store.about(one.id)["attempts"] if attempt["error"]]
    return errors[-1].partition("\n")[0] if errors else "failed"
