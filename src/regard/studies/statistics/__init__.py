"""The statistics of a study: paired tests, corrected for multiple comparisons, with a power analysis."""

import warnings
from typing import Any

from regard.judging.statistics.holm import holm
from regard.judging.statistics.sign_flip import seeds_for, sign_flip, smallest_p

from .analysis import Analysis, analyse
from .comparison import Comparison
from .effects import Effect, effect
from .improvement import probability_of_improvement
from .power import power, smallest_effect
from .power_check import SEEDS, PowerCheck, check_power
from .ranks import Ranks, ranks

__all__ = [
    "SEEDS",
    "Analysis",
    "Comparison",
    "Effect",
    "PowerCheck",
    "Ranks",
    "analyse",
    "check_power",
    "effect",
    "holm",
    "power",
    "probability_of_improvement",
    "ranks",
    "seeds_for",
    "sign_flip",
    "smallest_effect",
    "smallest_p",
]


def __getattr__(name: str) -> Any:
    if name != "foretell":
        raise AttributeError(f"module 'regard.studies.statistics' has no attribute {name!r}")
    warnings.warn(
        "regard.studies.statistics.foretell is now check_power; 0.3 drops it.", DeprecationWarning, stacklevel=2
    )
    return check_power
