"""Task models: feature model, query model, attention, output model; whole networks; and the trainer."""

from . import features, outputs, queries, ready
from .answer import Answer
from .decoder import Sequencer
from .gat import GAT, GATv2
from .losses import rewarded, supervised
from .mlp import MLP
from .objectives import Classification, Objective, Regression, Restoration, Sequences
from .search import say
from .task_model import TaskModel
from .tasks.saved import Run, open_run
from .trainer import Trained, Trainer, Training
from .transformer import Transformer
from .two_inputs import TwoInputs

__all__ = [
    "GAT",
    "MLP",
    "Answer",
    "Classification",
    "GATv2",
    "Objective",
    "Regression",
    "Restoration",
    "Run",
    "Sequencer",
    "Sequences",
    "TaskModel",
    "Trained",
    "Trainer",
    "Training",
    "Transformer",
    "TwoInputs",
    "features",
    "open_run",
    "outputs",
    "queries",
    "ready",
    "rewarded",
    "say",
    "supervised",
]
