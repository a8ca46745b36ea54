"""The statistics of a study: paired, corrected, and silent where the seeds are too few to speak."""

from .analysis import Analysis, analyse
from .comparison import Comparison
from .effects import Effect, effect
from .holm import holm
from .improvement import probability_of_improvement
from .power import power, smallest_effect
from .power_check import SEEDS, PowerCheck, foretell
from .ranks import Ranks, ranks
from .sign_flip import seeds_for, sign_flip, smallest_p

__all__ = [
    "SEEDS",
    "Analysis",
    "Comparison",
    "Effect",
    "PowerCheck",
    "Ranks",
    "analyse",
    "effect",
    "foretell",
    "holm",
    "power",
    "probability_of_improvement",
    "ranks",
    "seeds_for",
    "sign_flip",
    "smallest_effect",
    "smallest_p",
]
