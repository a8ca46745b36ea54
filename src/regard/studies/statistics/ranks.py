"""Ranks of several variants across tasks, and how far apart two must be."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Ranks:
    """What a rank plot shows.

    variants   names
    average    mean rank over tasks, 1 is best
    tasks      how many
    p          Friedman's test: all variants alike?  None with one task
    critical   average ranks that differ by less are not significantly different (Nemenyi); infinite with one task
    groups     variants that are not significantly different, best first; maximal runs of neighbours within `critical`
    """

    variants: tuple[str, ...]
    average: tuple[float, ...]
    tasks: int
    p: float | None
    critical: float
    groups: tuple[tuple[str, ...], ...]


def ranks(values: ArrayLike, variants: tuple[str, ...], *, higher: bool = True, alpha: float = 0.05) -> Ranks:
    """Average ranks with Friedman's test and Nemenyi's critical difference.

        CD = q sqrt(k (k + 1) / (6 N)),    q the studentized range of k means at 1 - alpha, over sqrt(2)

    values (variants, tasks), the mean over seeds; variants that tie share the mean of their ranks. Demsar 2006.
    The average ranks always sum to k (k + 1) / 2.
    """
    from scipy.stats import chi2, rankdata, studentized_range

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
    statistic = 12 * n / (k * (k + 1)) * float(((average - (k + 1) / 2) ** 2).sum())
    critical = float(studentized_range.ppf(1 - alpha, k, np.inf)) / math.sqrt(2) * math.sqrt(k * (k + 1) / (6 * n))
    return Ranks(
        variants,
        tuple(map(float, average)),
        n,
        float(chi2.sf(statistic, k - 1)),
        critical,
        _groups(_by(variants, average), np.sort(average), critical),
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
