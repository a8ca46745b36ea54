"""Experiments: the tasks of `regard train`, each with its model, its measures and its trivial baselines."""

from .experiment import Experiment
from .planted import Retrieval
from .texts import SST, AGNews

EXPERIMENTS: dict[str, type[Experiment]] = {one.name: one for one in (Retrieval, SST, AGNews)}

__all__ = ["EXPERIMENTS", "Experiment"]
