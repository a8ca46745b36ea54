"""Experiments: the tasks of `regard train`, each with its model, its measures and its trivial baselines."""

from regard.models.training.experiment import Experiment

from .documents import Movies
from .drugs import Drugs
from .graphs import TU, Molecules, Motifs
from .images import Clutter, Denoise
from .planted import Retrieval
from .speech import Spoken
from .texts import SST, AGNews
from .translation import Cipher, Multi30k

_ALL = (SST, Movies, AGNews, Multi30k, Spoken, Denoise, TU, Molecules, Drugs, Retrieval, Cipher, Clutter, Motifs)
EXPERIMENTS: dict[str, type[Experiment]] = {one.name: one for one in _ALL}

__all__ = ["EXPERIMENTS", "Experiment"]
