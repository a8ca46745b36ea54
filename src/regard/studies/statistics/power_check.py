"""Power check: what a study can show, computed before it runs."""

import math
from dataclasses import dataclass

from regard.core.plural import count_of

from .power import smallest_effect
from .sign_flip import seeds_for, smallest_p

SEEDS = 10  # what a study has unless it says otherwise
FEWEST = 6  # seeds below which points are shown without intervals


@dataclass(frozen=True)
class PowerCheck:
    """Before a study of so many seeds and comparisons runs.

    smallest   the smallest p after Holm's correction that it can reach
    reachable  whether that is at most alpha: otherwise nothing it finds is called significant
    needed     the fewest seeds that would do; None: none would, there are too many comparisons
    effect     the difference, in deviations between seeds, that it finds with a chance of .8; infinite: none
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
        least = f"{count}: the smallest p after Holm's correction is {_small(self.smallest)}"
        if not self.reachable:
            more = "compare fewer variants" if self.needed is None else f"it takes {self.needed} seeds"
            return f"{least}, above {self.alpha:g}. Nothing that this study finds can be called significant: {more}."
        return (
            f"{least}. A difference of {self.effect:.2g} deviations between seeds is found with a chance of .8; "
            "of smaller ones it may say nothing."
        )


def foretell(seeds: int, comparisons: int, alpha: float = 0.05) -> PowerCheck:
    """What so many seeds and comparisons (variants beside the baseline, times tasks) can show.

    foretell(3, 1).reachable is False: three seeds can never go below .25.
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
