"""Average ranks of variants across tasks, with Friedman's test and Nemenyi's critical difference."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Ranks:
    """The data of a critical-difference diagram.

    variants   names
    average    mean rank over tasks, 1 is best
    tasks      how many
    p          of Friedman's test that all variants are equal; None with one task
    p_f        of Iman and Davenport's F_F, which is less conservative; None with one task
    critical   average ranks that differ by less are not significantly different (Nemenyi); infinite with one task
    groups     variants that are not significantly different, best first; maximal runs of neighbours within `critical`
    """

    variants: tuple[str, ...]
    average: tuple[float, ...]
    tasks: int
    p: float | None
    critical: float
    groups: tuple[tuple[str, ...], ...]
    p_f: float | None = None


def ranks(values: ArrayLike, variants: tuple[str, ...], *, higher: bool = True, alpha: float = 0.05) -> Ranks:
    """Average ranks with Friedman's test and Nemenyi's critical difference.

        chi2 = 12 N / (k (k + 1)) sum_j (R_j - (k + 1) / 2)^2 / C,    C = 1 - sum (t^3 - t) / (N k (k^2 - 1))
        F_F = (N - 1) chi2 / (N (k - 1) - chi2),   F with k - 1 and (k - 1) (N - 1) degrees
        CD = q sqrt(k (k + 1) / (6 N)),    q the studentized range of k means at 1 - alpha, over sqrt(2)

    values (variants, tasks), the mean over seeds; variants that tie share the mean of their ranks, and C
    corrects for ties of t variants on a task. Demsar 2006; Iman & Davenport 1980.
    The average ranks always sum to k (k + 1) / 2.
    """
    from scipy.stats import chi2, f, rankdata, studentized_range

    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != len(variants) or table.shape[0] < 2 or table.shape[1] < 1:
        raise ValueError(
            f"ranks(values of shape {table.shape}, {len(variants)} variants): expected (variants, tasks), "
            "two variants or more."
        )
    if not np.isfinite(table).all():
        raise ValueError("ranks(values): some are not finite; leave out tasks that not every variant has run.")
    k, n = table.shape
    each = rankdata(-table if higher else table, axis=0)  # (k, n)
    average = each.mean(1)
    if n < 2:
        return Ranks(variants, tuple(map(float, average)), n, None, math.inf, (_by(variants, average),))
    sizes = [np.unique(task, return_counts=True)[1] for task in each.T]
    ties = 1 - sum(float((t**3 - t).sum()) for t in sizes) / (n * k * (k**2 - 1))
    statistic = 12 * n / (k * (k + 1)) * float(((average - (k + 1) / 2) ** 2).sum()) / ties if ties > 0 else 0.0
    left = n * (k - 1) - statistic
    p_f = float(f.sf((n - 1) * statistic / left, k - 1, (k - 1) * (n - 1))) if left > 1e-9 else 0.0
    critical = float(studentized_range.ppf(1 - alpha, k, np.inf)) / math.sqrt(2) * math.sqrt(k * (k + 1) / (6 * n))
    return Ranks(
        variants,
        tuple(map(float, average)),
        n,
        float(chi2.sf(statistic, k - 1)),
        critical,
        _groups(_by(variants, average), np.sort(average), critical),
        p_f,
    )


def _by(variants: tuple[str, ...], average: np.ndarray) -> tuple[str, ...]:
    return tuple(variants[place] for place in np.argsort(average, kind="stable"))


def _groups(names: tuple[str, ...], average: np.ndarray, critical: float) -> tuple[tuple[str, ...], ...]:
    found: list[tuple[int, int]] = []
    for start in range(len(names)):
        end = int(np.searchsorted(average, average[start] + critical, side="left"))
        if end - start > 1 and (not found or end > found[-1][1]):
            found.append((start, end))
    return tuple(names[a:b] for a, b in found)
