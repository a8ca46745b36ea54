"""Weights beside where people looked: rank correlation, divergence, NSS, AUC-Judd, and how well people agree."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..finding import Better, Finding
from ..statistics.comparison import compare
from ..statistics.scale import Scale
from ..wording import amount

Measure = Callable[[ArrayLike, ArrayLike], float]


def rank_correlation(weights: ArrayLike, human: ArrayLike) -> float:
    """Spearman's rho, ties by average ranks. Undefined (NaN) for fewer than two places or a constant map."""
    from scipy.stats import rankdata

    w, h = (rankdata(one) for one in _flat(weights, human))
    w, h = w - w.mean(), h - h.mean()
    size = np.sqrt((w @ w) * (h @ h))  # scipy's own function does much more, and takes ten times as long
    return float((w @ h) / size) if size > 0 else float("nan")


def partial_rank_correlation(weights: ArrayLike, human: ArrayLike, given: ArrayLike) -> float:
    """Spearman's rho of weights and people when a third map is known: the correlation of what its ranks leave of both.

        rho_wh.g = (rho_wh - rho_wg rho_hg) / sqrt((1 - rho_wg^2)(1 - rho_hg^2))

    0 where the weights agree with people only as far as the known map does. Undefined (NaN) for fewer than four places,
    a constant map, or where the known map tells one of the two completely.
    """
    w, h = _flat(weights, human)
    if len(w) < 4:
        return float("nan")
    both, mine, theirs = rank_correlation(w, h), rank_correlation(w, given), rank_correlation(h, given)
    rest = (1 - mine**2) * (1 - theirs**2)
    return float((both - mine * theirs) / np.sqrt(rest)) if rest > 1e-12 else float("nan")


def divergence(weights: ArrayLike, human: ArrayLike) -> float:
    """Kullback-Leibler divergence of the weights from people, in nats.

        KL(h || w) = sum_i h_i log(h_i / w_i)

    People come first: weights that miss a place where people looked are punished, without limit where they are 0 there.
    Both are divided by their sums; 0 when equal; undefined (NaN) where one of them is all zeros.
    """
    from scipy.stats import entropy

    w, h = _flat(weights, human)
    if (w < 0).any() or (h < 0).any():
        raise ValueError("divergence: expected weights and human values of 0 or more.")
    return float(entropy(h, w)) if w.sum() > 0 and h.sum() > 0 else float("nan")


def nss(weights: ArrayLike, fixated: ArrayLike) -> float:
    """Normalised scanpath saliency: the mean of the standardised map at the places looked at.

        NSS = mean over fixations of (w - mean(w)) / std(w)

    fixated: how often each place was looked at, the same shape. 0 is chance. Undefined (NaN) for a constant map or no
    fixation. Peters et al. 2005.
    """
    w, f = _flat(weights, fixated)
    if np.ptp(w) == 0 or f.sum() == 0:
        return float("nan")
    return float((f * (w - w.mean()) / w.std()).sum() / f.sum())


def auc_judd(weights: ArrayLike, fixated: ArrayLike) -> float:
    """The area under the ROC curve whose thresholds are the weights of the places looked at.

    Hits: the share of places looked at with at least that weight; false alarms: the share of all others. A place looked
    at twice counts once. A constant map gets .5; random weights (N + 2) / (2 (N + 1)) of N places looked at among many,
    since the curve is straight from one threshold to the next: .55 of ten. So a baseline is measured on the same
    places. Undefined (NaN) where all or none was looked at. Judd et al. 2009.
    """
    from sklearn.metrics import auc

    w, f = _flat(weights, fixated)
    looked = f > 0
    if looked.all() or not looked.any():
        return float("nan")
    levels = np.unique(w[looked])[::-1]
    hits = [(w[looked] >= level).mean() for level in levels]
    others = np.sort(w[~looked])
    alarms = 1 - np.searchsorted(others, levels, side="left") / len(others)
    return float(auc([0.0, *alarms, 1.0], [0.0, *hits, 1.0]))


def map_correlation(weights: ArrayLike, human: ArrayLike) -> float:
    """CC: Pearson's correlation of two maps, cell by cell. Undefined (NaN) where one of them is constant."""
    w, h = _flat(weights, human)
    w, h = w - w.mean(), h - h.mean()
    size = np.sqrt((w @ w) * (h @ h))
    return float((w @ h) / size) if size > 1e-15 else float("nan")


def fixation_map(places: ArrayLike, shape: tuple[int, int], sigma: float) -> np.ndarray:
    """Fixations (count, 2) as row and column  ->  a map of the shape, blurred by sigma pixels, sum 1 (0 if none)."""
    from scipy.ndimage import gaussian_filter

    blurred = gaussian_filter(count_map(places, shape), sigma, mode="constant")
    return blurred / blurred.sum() if blurred.sum() > 0 else blurred


def count_map(places: ArrayLike, shape: tuple[int, int]) -> np.ndarray:
    """How many fixations (count, 2), row and column, fall on each pixel."""
    at = np.floor(np.asarray(places, dtype=np.float64).reshape(-1, 2)).astype(int)
    if ((at < 0) | (at >= shape)).any():
        raise ValueError(f"fixations lie outside of a picture of shape {shape}: expected (row, column) within it.")
    counts = np.zeros(shape)
    np.add.at(counts, (at[:, 0], at[:, 1]), 1.0)
    return counts


def centre_bias(shape: tuple[int, int], share: float = 0.25) -> np.ndarray:
    """The baseline that saw no picture: a Gaussian at the centre, deviation `share` of each side; sum 1."""
    sides = [np.exp(-0.5 * ((np.arange(n) + 0.5 - n / 2) / (share * n)) ** 2) for n in shape]
    bias = sides[0][:, None] * sides[1]
    return bias / bias.sum()


def human_ceiling(
    people: Sequence[ArrayLike], measure: Measure, predict: Callable[[np.ndarray], np.ndarray] | None = None
) -> float:
    """How well people predict each other: the mean over persons of measure(the others, that person).

    people: a map of each, all of one shape. predict: makes a map of the others' sum (a blur, for fixations); else it is
    the sum itself. Undefined (NaN) for fewer than two people. One person is a noisier target than the crowd that a
    model is measured against, so this is a cautious ceiling: a model may lie above it.
    """
    each = np.stack([np.asarray(one, dtype=np.float64) for one in people]) if len(people) else np.zeros((0, 1))
    if len(each) < 2:
        return float("nan")
    total = each.sum(0)
    others = [(total - one) if predict is None else predict(total - one) for one in each]
    values = np.array([measure(other, one) for other, one in zip(others, each, strict=True)])
    return float(np.nanmean(values)) if (~np.isnan(values)).any() else float("nan")


SCALES: dict[str, Scale] = {
    "rank correlation": (-1.0, 1.0),
    "divergence from people": "skewed",
    "NSS": "real",
    "CC": (-1.0, 1.0),
    "AUC-Judd": (0.0, 1.0),
}
MEASURES: dict[str, tuple[Measure, Better, str, str]] = {
    "rank correlation": (rank_correlation, "higher", "Spearman rho", "The orders by weight and by people agree by {}."),
    "divergence from people": (divergence, "lower", "KL in nats", "The weights miss {} nats of where people looked."),
    "NSS": (nss, "higher", "standard deviations", "Where people look, the map lies {} deviations above its mean."),
    "CC": (map_correlation, "higher", "Pearson r", "The map and people's map correlate by {}."),
    "AUC-Judd": (
        auc_judd,
        "higher",
        "",
        "The area under Judd's curve is {}, 1 where all places looked at come first.",
    ),
}


def judge_fixations(
    weights: Sequence[ArrayLike],
    human: Sequence[ArrayLike],
    measures: Sequence[str] = ("rank correlation",),
    baselines: Mapping[str, Sequence[ArrayLike]] | None = None,
    ceiling: Mapping[str, float] | None = None,
    seed: int = 0,
    resamples: int = 2000,
) -> list[Finding]:
    """Each measure, averaged over texts or pictures, beside baselines of the same form (word length, centre bias ...).

    weights, human: one map an instance; human holds durations or counts (NSS and AUC-Judd take counts above 0).
    ceiling: by measure, what people reach among themselves (`human_ceiling`), told as the baseline "people".
    """
    made = []
    for name in measures:
        if name not in MEASURES:
            raise ValueError(f"judge_fixations(measures={name!r}): expected some of {', '.join(MEASURES)}.")
        measure, better, unit, _ = MEASURES[name]

        def over(some: Sequence[ArrayLike], measure: Measure = measure) -> list[float]:
            if len(some) != len(human):
                raise ValueError(f"judge_fixations: {len(some)} maps, but {len(human)} of people.")
            return [measure(one, theirs) for one, theirs in zip(some, human, strict=True)]

        tested = {other: over(some) for other, some in (baselines or {}).items()}
        found = compare(over(weights), tested, scale=SCALES[name], seed=seed, resamples=resamples)
        beside: dict[str, float | None] = {}
        if ceiling and name in ceiling:
            beside["people"] = None if np.isnan(ceiling[name]) else ceiling[name]
        told = _undefined(name, len(human)) if found.value is None else told_of(name, found.value)
        made.append(Finding.of(found, name=name, says=told, better=better, test="people", unit=unit, baselines=beside))
    return made


def told_of(name: str, value: float) -> str:
    """The sentence of a measure's value."""
    if name == "NSS" and value < 0:
        return f"Where people look, the map lies {amount(-value, 2)} deviations below its mean."
    if name == "divergence from people" and value == float("inf"):
        return "The weights are 0 at places where people looked: the divergence has no limit."
    return MEASURES[name][3].format(amount(value, 2))


def _undefined(name: str, instances: int) -> str:
    return f"undefined: {name} is defined on none of {instances} instances." if instances else "undefined: no instance."


def _flat(weights: ArrayLike, human: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    w, h = np.asarray(weights, dtype=np.float64), np.asarray(human, dtype=np.float64)
    if w.shape != h.shape:
        raise ValueError(f"weights have shape {w.shape}, people's map {h.shape}: expected the same.")
    if not (np.isfinite(w).all() and np.isfinite(h).all()):
        raise ValueError("weights and people's map must be finite: leave padding out of both.")
    return w.ravel(), h.ravel()
