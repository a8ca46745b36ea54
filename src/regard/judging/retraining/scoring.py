"""Right or wrong: accuracy and F1 as statistics of instances, so that they have intervals and differences."""

from collections.abc import Callable, Sequence

import numpy as np

from ..statistics.intervals import Statistic
from .reading import TrainedReadout


def f1(said: np.ndarray, wanted: np.ndarray) -> float:
    """Of the positive class (1) of two; of more, the mean over the classes that occur. NaN where nothing is wanted."""
    classes = [1] if max(said.max(initial=0), wanted.max(initial=0)) < 2 else sorted(set(wanted.tolist()))
    found = []
    for one in classes:
        total = (said == one).sum() + (wanted == one).sum()
        found.append(2 * ((said == one) & (wanted == one)).sum() / total if total else np.nan)
    return float(np.mean(found)) if found else float("nan")


def accuracy(said: np.ndarray, wanted: np.ndarray) -> float:
    return float((said == wanted).mean()) if len(wanted) else float("nan")


MEASURES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {"F1": f1, "accuracy": accuracy}


def table(labels: np.ndarray, *models: Sequence[TrainedReadout]) -> np.ndarray:
    """(seeds, instances, 1 + models): the class that is right, and the one that each model says."""
    rows = [[labels, *(each[seed].classes() for each in models)] for seed in range(len(models[0]))]
    return np.asarray(rows).transpose(0, 2, 1)


def of(measure: Callable[[np.ndarray, np.ndarray], float], model: int = 0, less: int | None = None) -> Statistic:
    """A measure of one model of `table`, less that of another."""

    def statistic(rows: np.ndarray) -> float:
        value = measure(rows[:, 1 + model], rows[:, 0])
        return value if less is None else value - measure(rows[:, 1 + less], rows[:, 0])

    return statistic
