"""Power analysis of a study before it runs."""

import math
from dataclasses import dataclass

from regard.core.plural import count_of
from regard.judging.statistics.sign_flip import seeds_for, smallest_p

from .power import smallest_effect

SEEDS = 10  # of a study by default
FEWEST = 6  # below so many seeds, points have no intervals


@dataclass(frozen=True)
class PowerCheck:
    """What a study of a given number of seeds and comparisons can detect.

    smallest   the smallest p it can reach after Holm's correction
    reachable  whether that is at most alpha
    needed     the fewest seeds for which it is; None if no number is enough (too many comparisons)
    effect     the minimum detectable effect, in standard deviations over seeds, at power .8; infinite if none
    """

    seeds: int
    comparisons: int
    alpha: float
    smallest: float
    reachable: bool
    needed: int | None
    effect: float

    @property
    def says(self) -> str:
        count = f"{count_of(self.seeds, 'seed')} and {count_of(self.comparisons, 'comparison')} with the baseline"
        least = f"{count}: the smallest reachable p after Holm's correction is {_small(self.smallest)}"
        if not self.reachable:
            more = "compare fewer variants" if self.needed is None else f"it takes {self.needed} seeds"
            return f"{least}, above {self.alpha:g}. This study is underpowered, and cannot reach significance: {more}."
        return (
            f"{least}. Power is .8 for a difference of {self.effect:.2g} standard deviations over seeds, and less for "
            "smaller ones."
        )


def check_power(seeds: int, comparisons: int, alpha: float = 0.05) -> PowerCheck:
    """Power analysis for a number of seeds and comparisons (variants besides the baseline, times tasks).

    check_power(3, 1).reachable is False: with three seeds p is never below .25.
    """
    least = smallest_p(seeds, comparisons)
    return PowerCheck(
        seeds,
        comparisons,
        alpha,
        least,
        least <= alpha,
        seeds_for(comparisons, alpha),
        smallest_effect(seeds, comparisons, alpha),
    )


def _small(p: float) -> str:
    return f"{p:.2g}" if not math.isclose(p, 1.0) else "1"
