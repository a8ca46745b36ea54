"""Results of a study that never ran: values are given, everything else follows."""

import numpy as np

from regard.models.training.experiment import Measure
from regard.studies.results import Missing, Results, Row

VARIANTS = ("mean", "gat", "mlp")


def made(
    values: np.ndarray,
    *,
    higher: bool = True,
    trivial: float | None = None,
    tasks: tuple[str, ...] | None = None,
    missing: tuple[Missing, ...] = (),
) -> Results:
    """values (tasks, variants, seeds), in shares; the measure shows per cent."""
    tasks = tasks or tuple(f"task {at}" for at in range(values.shape[0]))
    measures = {task: {"accuracy": Measure("accuracy, %", higher=higher)} for task in tasks}
    rows = [Row(tasks[t], VARIANTS[v], s, "accuracy", float(x)) for (t, v, s), x in np.ndenumerate(values)]
    beside = [] if trivial is None else [Row(task, "most frequent", 0, "accuracy", trivial) for task in tasks]
    return Results(
        "is it needed?",
        "mean",
        tasks,
        VARIANTS[: values.shape[1]],
        tuple(range(values.shape[2])),
        measures,
        rows,
        beside,
        parameters={tasks[0]: {"gat": 12345}},
        missing=missing,
    )


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return 0.8 + 0.01 * np.random.default_rng(seed).normal(size=shape)
