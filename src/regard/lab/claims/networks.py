"""Networks of one kind and depth, trained from a seed: what the claims compare."""

from typing import Any

import torch

from regard.data import NodeTask
from regard.models.deep_gnn import DeepGNN
from regard.models.training.node_training import Fitted, Recipe, fit

SAYS = {"gat": "GAT", "gatv2": "GATv2", "mean": "mean of neighbours", "gcn": "GCN", "mlp": "MLP without edges"}
RECIPE = Recipe(dropout=0.0, rate=0.01, decay=5e-4, patience=30, epochs=150)


def trained(
    kind: str, task: NodeTask, seed: int, recipe: Recipe = RECIPE, *, width: int = 32, **options: Any
) -> tuple[DeepGNN, Fitted]:
    """A `DeepGNN` network trained on a task by validation. The caller's random numbers are left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = DeepGNN(task.x.shape[1], width, task.classes, kind, dropout=recipe.dropout, **options)
        return model, fit(model, task, recipe)
