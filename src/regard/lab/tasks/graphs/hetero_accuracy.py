"""Accuracy over seeds on heterogeneous graphs: networks with types, without types, and without edges."""

from collections.abc import Callable, Iterable

import torch
from torch import nn

from regard.data import TypedTask
from regard.models.hetero_gnn import TYPED
from regard.models.training.node_training import Recipe, fit

from .node_accuracy import Accuracy

# One recipe for all networks, fixed before any run on the test papers.
RECIPE = Recipe(hidden=8, heads=8, dropout=0.5, rate=0.005, decay=5e-4, patience=30, epochs=200)


def typed_accuracies(
    task: TypedTask,
    seeds: Iterable[int],
    kinds: Iterable[str] = tuple(TYPED),
    recipe: Recipe | None = None,
    after: Callable[[Accuracy], None] = lambda _: None,
    keep: Callable[[Recipe, str, int, nn.Module], None] = lambda *_: None,
) -> list[Accuracy]:
    """Each kind of network trained from each seed; `after` is called after each run, `keep` with each network."""
    seeds, found, recipe = list(seeds), [], RECIPE if recipe is None else recipe
    for kind in kinds:
        seen = TYPED[kind].sees(task)
        found.append(Accuracy(kind, task.name))
        for seed in seeds:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                model = TYPED[kind].make(seen, recipe)
                found[-1].runs.append(fit(model, seen, recipe))
            keep(recipe, kind, seed, model)
            after(found[-1])
    return found
