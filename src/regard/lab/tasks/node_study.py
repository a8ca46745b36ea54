"""Nodes of one graph as the task of a study: `gat`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from regard.models.training.experiment import Measure
from regard.models.training.node_training import recipe_for, train
from regard.studies.tasks import StudyTask
from regard.studies.trial import Setting

from ..data.heterophilous import NAMES as HETEROPHILOUS
from ..data.heterophilous import heterophilous
from ..data.planetoid import planetoid
from ..data.planted import csbm

GAT = {
    "gat": "gat",
    "additive": "gat",
    "gatv2": "gatv2",
    "gcn": "gcn",
    "uniform": "mean",
    "mean": "mean",
    "none": "mlp",
}
CITATIONS = ("cora", "citeseer", "pubmed")


class OneGraph(StudyTask):
    """Nodes of one graph by the recipe of the GAT paper; options: data, and what `csbm` takes.

    cora, citeseer and pubmed have one split for all seeds; a heterophilous graph has ten (seed i takes split i), and
    csbm is drawn anew by each seed.
    """

    call = "regard.lab.tasks.node_study:run_graph"

    def __init__(self, part: Mapping[str, Any]):
        super().__init__(part)
        self.options = {"data": "cora"} | self.options
        known = (*CITATIONS, *HETEROPHILOUS, "csbm")
        if self.options["data"] not in known:
            raise ValueError(f"the task gat has no data {self.options['data']!r}: expected one of {', '.join(known)}.")
        self.drawn = self.options["data"] not in CITATIONS
        self.measures = {"accuracy": Measure("accuracy, %")}

    def checked(self, variant: str) -> str:
        if variant not in GAT:
            raise ValueError(
                f"the task gat has no variant {variant!r}; it has {', '.join(GAT)} (uniform and mean are "
                "the mean of neighbours, none is without edges)."
            )
        return variant


def graph_of(data: str, seed: int, **options: Any) -> Any:
    """The graph that a seed trains on."""
    if data in CITATIONS:
        return planetoid(data)
    return heterophilous(data, seed % 10) if data in HETEROPHILOUS else csbm(seed=seed, **options)


def run_graph(variant: str, seed: int, setting: Setting) -> dict[str, Any]:
    torch.set_num_threads(setting.threads)
    task = graph_of(seed=seed, **setting.options).to(setting.device)
    recipe = recipe_for(task.name)
    epochs = setting.budget.get("epochs") or setting.budget.get("steps")  # all nodes at once: a step is an epoch
    if epochs:
        recipe = replace(recipe, epochs=int(epochs), patience=int(epochs))
    model, found = train(GAT[variant], task, seed, recipe)
    with torch.no_grad():
        right = (model.eval()(task.x, task.edge_index).argmax(-1) == task.y)[task.test].float()
    return {
        "numbers": {"accuracy": found.test},
        "scores": {"accuracy": right.tolist()},
        "parameters": sum(p.numel() for p in model.parameters()),
    }
