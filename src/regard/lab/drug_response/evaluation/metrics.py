"""How good predicted responses are: overall, within drugs, within cell lines, beyond the mean effects, as a ranking."""

import numpy as np

from regard.models.training.experiment import Measure

FEWEST = 10  # test responses that a drug or a cell line needs for a correlation of its own
TOP = 10  # drugs to which a cell line is most unusually sensitive

MEASURES = {
    "rmse": Measure("RMSE of ln IC50", 1.0, 3, higher=False),
    "within_drug": Measure("Pearson within a drug", 1.0, 3),
    "within_line": Measure("Pearson within a cell line", 1.0, 3),
    "pearson": Measure("Pearson", 1.0, 3),
    "explained": Measure("% of what the mean effects leave that is explained", 100.0, 1),
    "ranking": Measure("Spearman of drugs by unusual sensitivity, within a cell line", 1.0, 3),
    "top": Measure("% of a line's 10 most unusual drugs that are among the 10 predicted", 100.0, 1),
}


def measures(predicted: np.ndarray, measured: np.ndarray, test: np.ndarray, effects: np.ndarray) -> dict[str, float]:
    """All of `MEASURES` that are defined. (D, L) each; test: mask of the pairs to judge; effects: the mean effects.

    explained   1 - sum of squared errors over that of the mean effects: 0 for them, negative where it is worse
    within      correlations over the test responses of one drug (cell line), averaged; ten responses or more.
                A constant has no order and counts as 0
    ranking     by how far a response lies below the mean effects: which drugs does this line answer to unusually?
    """
    p, y, e = predicted[test], measured[test], effects[test]
    found = {
        "rmse": float(np.sqrt(np.mean((p - y) ** 2))),
        "explained": 1 - float(np.sum((p - y) ** 2) / np.sum((e - y) ** 2)),
    }
    whole = pearson(p, y)
    beyond_p, beyond_y = predicted - effects, measured - effects
    tables = {
        "pearson": [whole],
        "within_drug": by_row(predicted, measured, test),
        "within_line": by_row(predicted.T, measured.T, test.T),
        "ranking": by_row(beyond_p.T, beyond_y.T, test.T, ranks=True),
        "top": _top(beyond_p.T, beyond_y.T, test.T),
    }
    return found | {name: float(np.mean(values)) for name, values in tables.items() if len(values)}


def by_row(predicted: np.ndarray, measured: np.ndarray, test: np.ndarray, ranks: bool = False) -> list[float]:
    """Correlations of the rows with enough test responses."""
    from scipy.stats import rankdata

    found = []
    for p, y, judged in zip(predicted, measured, test, strict=True):
        if judged.sum() >= FEWEST:
            one, other = p[judged], y[judged]
            found.append(
                pearson(rankdata(one), rankdata(other)) if ranks and np.ptp(one) > EVEN else pearson(one, other)
            )
    return found


EVEN = 1e-6  # predictions that differ by less are one constant


def pearson(x: np.ndarray, y: np.ndarray) -> float:
    """0 where either side is constant: such a prediction says nothing of the order."""
    if len(x) < 2 or np.ptp(x) < EVEN or np.ptp(y) < EVEN:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])


def _top(predicted: np.ndarray, measured: np.ndarray, test: np.ndarray) -> list[float]:
    """The share of each line's TOP most negative deviations that are among its TOP predicted ones; chance where the
    predictions are constant. Lines with five times as many test responses."""
    found = []
    for p, y, judged in zip(predicted, measured, test, strict=True):
        count = int(judged.sum())
        if count < 5 * TOP:
            continue
        if np.ptp(p[judged]) < EVEN:
            found.append(TOP / count)
            continue
        chosen, true = (set(np.argsort(x[judged], kind="stable")[:TOP].tolist()) for x in (p, y))
        found.append(len(chosen & true) / TOP)
    return found
