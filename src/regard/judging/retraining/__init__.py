"""Judges that train models again: is attention needed, is it the same each time, does it carry over?"""

from .guides import guides
from .reading import TrainedReadout
from .retraining import Retraining
from .seeds import seed_variance
from .trained_adversary import trained_adversary
from .uniform import uniform_retraining

__all__ = ["Retraining", "TrainedReadout", "guides", "seed_variance", "trained_adversary", "uniform_retraining"]
