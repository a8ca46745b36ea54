"""Do attributions agree with one another? Kendall's tau of every two: a matrix, never one verdict."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..adapters.adapter import Adapter
from ..adapters.inputs import Inputs
from ..artifacts import Grid, add_artifact
from ..attribution.importance import Importance, chance, importances
from ..finding import Finding
from ..registry import asks
from ..statistics.intervals import estimate
from ..wording import amount
from .correlation import kendall

TEST = "agreement"
JOINED = " with "


@dataclass(frozen=True)
class Matrix:
    """names, and (k, k) each: mean tau, the ends of its interval; NaN where undefined. Symmetric, 1 on the diagonal."""

    names: tuple[str, ...]
    tau: np.ndarray
    low: np.ndarray
    high: np.ndarray


@asks("Do the attributions agree with one another?", first=0)  # a matrix, not a verdict
def agreement(adapter: Adapter, names: Sequence[str] | None = None, *, seed: int = 0) -> list[Finding]:
    """Kendall's tau-b of every two importances over the units of an instance, mean of the instances.

    Importances are ordered as they are: those with a sign have what speaks for the prediction first. Low numbers are
    usual on transformers, between any two (Neely et al. 2022): that two disagree does not say which of them is wrong.
    `matrix` puts the findings into a table.
    """
    measures, _ = importances(adapter, names)
    measures = measures | {"random": chance(seed + 1)}
    tau = taus_of(adapter, measures)
    made = []
    for (i, one), (j, other) in itertools.combinations(enumerate(measures), 2):
        value = estimate(tau[:, i, j], scale=(-1.0, 1.0), seed=seed)
        made.append(
            Finding.of(
                value,
                name=f"{one}{JOINED}{other}",
                better="neither",
                test=TEST,
                unit="Kendall tau-b",
                says=f"undefined: no instance has three units that both {one} and {other} rank."
                if value.value is None
                else f"{one[0].upper() + one[1:]} and {other} rank the units with a tau of "
                f"{amount(value.value, 2)}, where 1 is the same order and 0 chance.",
                baselines={"chance": 0.0},
            )
        )
    table = matrix(made)
    add_artifact(
        Grid(
            "Agreement of attributions",
            table.names,
            table.names,
            list(table.tau),
            "Kendall tau-b",
            "1 is the same order, 0 is chance; that two disagree does not say which of them is wrong.",
            down="importance",
            across="importance",
        )
    )
    return made


def taus_of(adapter: Adapter, measures: Mapping[str, Importance]) -> np.ndarray:
    """(instances, k, k): tau-b of every two measures over the units; NaN where undefined, 1 on the diagonal else."""

    def of_batch(inputs: Inputs) -> list[np.ndarray]:
        scores = [measure(adapter, inputs) for measure in measures.values()]
        made = []
        for item, some in enumerate(inputs.units):
            own = [score[item][some].double().cpu().numpy() for score in scores]
            table = np.empty((len(own), len(own)))
            for i, j in itertools.combinations_with_replacement(range(len(own)), 2):
                table[i, j] = table[j, i] = kendall(own[i], own[j])[0]
            made.append(table)
        return made

    return np.asarray(adapter.each(of_batch), dtype=np.float64).reshape(-1, len(measures), len(measures))


def matrix(findings: Iterable[Finding]) -> Matrix:
    """What `agreement` found, also when it was read from a file, as a matrix."""
    found = {tuple(one.name.split(JOINED)): one for one in findings if one.test == TEST}
    names = tuple(dict.fromkeys(name for pair in found for name in pair))
    tau, low, high = (np.full((len(names), len(names)), np.nan) for _ in range(3))
    for table in (tau, low, high):
        np.fill_diagonal(table, 1.0)
    for pair, one in found.items():
        i, j = (names.index(name) for name in pair)
        ends = one.interval or (np.nan, np.nan)
        for table, value in ((tau, one.value), (low, ends[0]), (high, ends[1])):
            table[i, j] = table[j, i] = np.nan if value is None else value
    return Matrix(names, tau, low, high)
