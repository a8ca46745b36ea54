"""A metric that was prepared: what each instance contributes, and the figure of all of them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..finding import Better
from ..statistics.scale import Scale


@dataclass(frozen=True)
class Measured:
    """table (instances, ...): what each instance contributes; statistic: the figure of a table, NaN where undefined.

    scale   what is known of it beforehand (`statistics.scale`)
    strata  (instances,) the classes that a resample has as often as the data; for figures that average over classes
    """

    name: str
    table: np.ndarray
    statistic: Callable[[np.ndarray], float]
    better: Better
    says: str
    unit: str = ""
    scale: Scale = "real"
    strata: np.ndarray | None = None


def ratio(table: np.ndarray) -> float:
    """Sum of the first column / sum of the second; undefined where that is 0."""
    above, below = table.sum(0)
    return float(above / below) if below else float("nan")


def percent(statistic: Callable[[np.ndarray], float]) -> Callable[[np.ndarray], float]:
    return lambda table: 100 * statistic(table)
