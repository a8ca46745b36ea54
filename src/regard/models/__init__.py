"""Task models: feature model, query model, attention, output head; whole networks; and the trainer."""

import warnings
from typing import Any

from . import builders, features, output_heads, queries
from .beam_search import generate
from .decoder import Seq2Seq
from .gat import GAT, GATv2
from .graph_networks.network import GraphNetwork
from .graph_networks.polynormer import Polynormer
from .graph_networks.sgformer import SGFormer
from .mlp import MLP
from .model_output import Answer
from .task_model import TaskModel
from .training.attention_losses import score_function_loss, supervised
from .training.objectives import Classification, Objective, Regression, Restoration, Sequences
from .training.run_checkpoint import Run, open_run
from .training.trainer import Trained, Trainer, Training
from .transformer import Transformer
from .two_inputs import TwoInputs

__all__ = [
    "GAT",
    "MLP",
    "Answer",
    "Classification",
    "GATv2",
    "GraphNetwork",
    "Objective",
    "Polynormer",
    "Regression",
    "Restoration",
    "Run",
    "SGFormer",
    "Seq2Seq",
    "Sequences",
    "TaskModel",
    "Trained",
    "Trainer",
    "Training",
    "Transformer",
    "TwoInputs",
    "builders",
    "features",
    "generate",
    "open_run",
    "output_heads",
    "queries",
    "score_function_loss",
    "supervised",
]

RENAMED = {
    "ready": "builders",
    "outputs": "output_heads",
    "rewarded": "score_function_loss",
    "say": "generate",
    "Sequencer": "Seq2Seq",
}  # until 0.3


def __getattr__(name: str) -> Any:
    if name not in RENAMED:
        raise AttributeError(f"module 'regard.models' has no attribute {name!r}")
    new = RENAMED[name]
    warnings.warn(f"regard.models.{name} is now regard.models.{new}; 0.3 drops it.", DeprecationWarning, stacklevel=2)
    return globals()[new]
