"""Task models: feature model, query model, attention, output model; whole networks; and the trainer."""

from . import builders as ready
from . import features, outputs, queries
from .beam_search import say
from .decoder import Sequencer
from .gat import GAT, GATv2
from .mlp import MLP
from .model_output import Answer
from .task_model import TaskModel
from .training.losses import rewarded, supervised
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
