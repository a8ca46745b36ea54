"""Accuracies over seeds: mean, deviation, paired interval, and the sentence that follows from them."""

from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True)
class Spread:
    """Accuracies, one a seed."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values)

    @property
    def deviation(self) -> float:
        if len(self.values) < 2:
            return 0.0
        return sqrt(sum((value - self.mean) ** 2 for value in self.values) / (len(self.values) - 1))

    def __sub__(self, other: "Spread") -> "Spread":
        return Spread(tuple(a - b for a, b in zip(self.values, other.values, strict=True)))

    @property
    def interval(self) -> tuple[float, float]:
        """95% by Student's t over the seeds; unbounded for one seed."""
        from scipy.stats import t

        if len(self.values) < 2:
            return float("-inf"), float("inf")
        half = float(t.ppf(0.975, len(self.values) - 1)) * self.deviation / sqrt(len(self.values))
        return self.mean - half, self.mean + half


def around(spread: Spread) -> str:
    """The standard deviation over the seeds, in points; "" for one seed."""
    return f" ± {100 * spread.deviation:.1f}" if len(spread.values) > 1 else ""


def points(share: float) -> str:
    return f"{100 * share:+.1f}".replace("-", "−")


def verdict(attention: Spread, uniform: Spread) -> str:
    """One sentence for a pair of networks that differ in their alignment only."""
    difference = attention - uniform
    low, high = difference.interval
    if len(difference.values) < 2:
        return f"One seed: a difference of {points(difference.mean)} points, without an interval."
    measured = f"{points(difference.mean)} points (95% interval {points(low)} to {points(high)})"
    if low > 0:
        return f"Attention is worth {measured}."
    if high < 0:
        return f"Uniform weights are better, attention costs accuracy: {measured}."
    return f"No significant difference: {measured}."
