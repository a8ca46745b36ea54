"""What is known of tensors while a model runs: weights that are followed, what was before them, sums and products."""

from dataclasses import dataclass, field

from .late_division import LateDivision
from .lazy_origins import LazyOrigins
from .trace import Traces


@dataclass
class State:
    """live: weights. origins: scores, features and parameters. late: what exponentials are divided by.
    energies: whether there was a logsumexp of scores, whose gradient is attention."""

    live: Traces = field(default_factory=Traces)
    origins: LazyOrigins = field(default_factory=LazyOrigins)
    late: LateDivision = field(default_factory=LateDivision)
    energies: bool = False
