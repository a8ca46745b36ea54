"""Labels and numbers: accuracy, precision, recall, F1, AUC; RMSE and Pearson's correlation."""

from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..statistics.intervals import mean
from .metric import Measured
from .plain_labels import plain_labels, same_kind


def classification(
    said: Sequence[Hashable],
    wanted: Sequence[Hashable],
    scores: ArrayLike | None = None,
    classes: Sequence[Hashable] | None = None,
    positive: Hashable | None = None,
) -> list[Measured]:
    """Accuracy, precision, recall and F1 (macro), F1 (micro), and AUC where scores are given.

    scores    (n,) of the second of two classes, or (n, classes): AUC is the mean over classes of one against the rest
    classes   their order in `scores`; else all that are said or wanted, sorted
    positive  a class whose own precision, recall and F1 are told too

    Macro: the mean over the classes that occur in what is said or wanted; micro: over all instances, which for one
    label each equals accuracy. A class never said has precision 0, one never wanted recall 0. With one class AUC is
    undefined.
    """
    said, wanted = plain_labels(said, "said"), plain_labels(wanted, "wanted")
    same_kind(said, wanted)
    classes = None if classes is None else plain_labels(classes, "classes")
    positive = None if positive is None else plain_labels([positive], "positive")[0]
    there = {*said, *wanted}
    order = list(classes) if classes is not None else sorted(there, key=lambda label: (type(label).__name__, label))
    place = {label: i for i, label in enumerate(order)}
    if strange := there - set(order):
        raise ValueError(f"classification: {strange.pop()!r} is said or wanted, but is not among classes={order}.")
    if positive is not None and positive not in place:
        raise ValueError(f"classification(positive={positive!r}): expected one of the classes {order}.")
    table = np.array([[place[a], place[b]] for a, b in zip(said, wanted, strict=True)], dtype=np.float64).reshape(-1, 2)
    right, classes_wanted = (table[:, 0] == table[:, 1]).astype(np.float64), table[:, 1]
    says = "Accuracy is {}."
    made = [Measured("accuracy", right, mean, "higher", says, scale="share")]
    for which, name in enumerate(("precision", "recall", "F1")):
        made.append(
            Measured(
                f"{name}, macro",
                table,
                _of(which, "macro"),
                "higher",
                f"Macro-averaged {name} is {{}}.",
                scale=(0.0, 1.0),
                strata=classes_wanted,
            )
        )
    says = "Micro-averaged F1 is {}; with one label per instance it equals accuracy."
    made.append(Measured("F1, micro", right, mean, "higher", says, scale="share"))
    for which, name in enumerate(("precision", "recall", "F1")) if positive is not None else ():
        own = _of(which, "class", place[positive])
        says = f"{name[0].upper()}{name[1:]} of class {positive} is {{}}."
        made.append(
            Measured(f"{name} of {positive}", table, own, "higher", says, scale=(0.0, 1.0), strata=classes_wanted)
        )
    if scores is not None:
        given = np.asarray(scores, dtype=np.float64)
        given = given.reshape(len(table), -1)
        if given.shape[1] not in (1, len(order)) or (given.shape[1] == 1 and len(order) > 2):
            raise ValueError(
                f"classification: scores have shape {np.shape(scores)}; expected {len(table)} of them for "
                f"two classes, or ({len(table)}, {len(order)})."
            )
        wide = np.concatenate([table[:, 1:], given], 1)
        says = "An instance of a class scores above one of another class with probability {}."
        made.append(Measured("AUC", wide, _auc, "higher", says, scale=(0.0, 1.0), strata=classes_wanted))
    return made


def commonest(wanted: Sequence[Hashable]) -> list[Hashable]:
    """The trivial answer: always the label that is wanted most; of equal ones the first."""
    wanted = plain_labels(wanted, "wanted")
    counts: dict[Hashable, int] = {}
    for label in wanted:
        counts[label] = counts.get(label, 0) + 1
    return [max(counts, key=lambda label: counts[label])] * len(wanted) if counts else []


def answers_at_random(wanted: Sequence[Hashable], draw: np.random.Generator) -> list[Hashable]:
    """What a blind answer with the class shares says: the labels that are wanted, dealt out anew."""
    return [wanted[place] for place in draw.permutation(len(wanted))]


def regression(said: ArrayLike, wanted: ArrayLike) -> list[Measured]:
    """Root mean squared error, and Pearson's correlation (scipy), undefined for constants and for fewer than two."""
    a, b = np.asarray(said, dtype=np.float64).ravel(), np.asarray(wanted, dtype=np.float64).ravel()
    if a.shape != b.shape:
        raise ValueError(f"regression: {len(a)} numbers said, {len(b)} wanted: expected as many.")
    table = np.stack([a, b], 1)
    return [
        Measured("RMSE", table, _rmse, "lower", "The root mean squared error is {}."),
        Measured("Pearson", table, _pearson, "higher", "Pearson's correlation with the truth is {}."),
    ]


def _of(which: int, average: str, label: int | None = None) -> Callable[[np.ndarray], float]:
    """Precision (0), recall (1) or F1 (2) of said and wanted labels, as scikit-learn has them with zero_division=0.

    Written out, since a thousand resamples through scikit-learn's checks take a hundred times as long.
    """

    def statistic(table: np.ndarray) -> float:
        said, wanted = table.astype(np.int64).T
        size = int(table.max()) + 1 if table.size else 0
        counts = np.stack([np.bincount(x, minlength=size) for x in (said[said == wanted], said, wanted)]).astype(float)
        if label is not None:
            counts = counts[:, [label]] if label < size else np.zeros((3, 1))
        else:  # macro: the classes that occur
            counts = counts[:, counts[1:].sum(0) > 0]
        right, below = counts[0], (counts[1], counts[2], counts[1:].mean(0))[which]
        found = np.divide(right, below, out=np.zeros_like(right), where=below > 0)
        return float(found.mean()) if found.size else float("nan")

    return statistic


def _auc(table: np.ndarray) -> float:
    """Mann & Whitney: the share of pairs in which the class scores above the rest, ties as a half; NaN of NaN."""
    wanted, scores = table[:, 0], table[:, 1:]
    if np.isnan(scores).any():
        return float("nan")
    columns = [(1, 0)] if scores.shape[1] == 1 else [(each, each) for each in range(scores.shape[1])]
    found = []
    for label, column in columns:
        inside = wanted == label
        n, others = int(inside.sum()), int((~inside).sum())
        if n and others:
            rest = np.sort(scores[~inside, column])
            below, up_to = (np.searchsorted(rest, scores[inside, column], side=side) for side in ("left", "right"))
            found.append((below + up_to).sum() / (2 * n * others))
    return float(np.mean(found)) if found else float("nan")


def _rmse(table: np.ndarray) -> float:
    return float(np.sqrt(np.mean((table[:, 0] - table[:, 1]) ** 2))) if len(table) else float("nan")


def _pearson(table: np.ndarray) -> float:
    from scipy.stats import pearsonr

    if len(table) < 2 or (np.ptp(table, axis=0) == 0).any():
        return float("nan")
    return float(pearsonr(table[:, 0], table[:, 1]).statistic)
