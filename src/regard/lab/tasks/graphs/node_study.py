"""The study task `gat`: node classification by the recipe of the GAT paper."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from regard.data.readers.user_file import is_path
from regard.models.training.experiment import Measure
from regard.models.training.node_training import KINDS, recipe_for, train
from regard.studies.tasks import StudyTask
from regard.studies.trial import Setting

from ...data.heterophilous import NAMES as HETEROPHILOUS
from ...data.heterophilous import heterophilous
from ...data.planetoid import NAMES as CITATIONS
from ...data.planetoid import one_graph
from ...data.planted import csbm

GAT = {kind: kind for kind in KINDS} | {"additive": "gat", "uniform": "mean", "none": "mlp"}
RECIPE = ("hidden", "heads", "layers", "dropout", "norm", "residual", "rate", "decay", "patience")  # options of a study


class OneGraph(StudyTask):
    """Nodes of one graph by the recipe of the GAT paper; options: data, what `csbm` takes, and what the recipe says:
    hidden, heads, layers, dropout, norm, residual, rate, decay, patience.

    cora, citeseer and pubmed have one split for all seeds; a heterophilous graph has ten (seed i takes split i), and
    csbm is drawn anew by each seed. The path of one's own graph (`read_graph`) has the split of its masks, or one that
    the option `split` draws.
    """

    call = "regard.lab.tasks.graphs.node_study:run_graph"

    def __init__(self, part: Mapping[str, Any]):
        super().__init__(part)
        self.options = {"data": "cora"} | self.options
        known, data = (*CITATIONS, *HETEROPHILOUS, "csbm"), self.options["data"]
        own = data not in known and is_path(data)
        if data not in known and not own:
            raise ValueError(
                f"the task gat has no data {data!r}: expected one of {', '.join(known)}, or the path of an .npz file."
            )
        if own:
            one_graph(data)  # refuses with a sentence
            self.source = data
        self.drawn = data not in CITATIONS and not own
        if self.options["data"] in HETEROPHILOUS:
            self.splits, self.overlap = 10, 0.2 / 0.48  # test over training nodes
        self.measures = {"accuracy": Measure("accuracy, %")}

    def canonical(self, variant: str) -> str:
        if variant not in GAT:
            raise ValueError(
                f"the task gat has no variant {variant!r}; it has {', '.join(GAT)} (uniform and mean are "
                "the mean of neighbours, none is without edges)."
            )
        return variant


def graph_of(data: str, seed: int, **options: Any) -> Any:
    """The graph of a seed."""
    if data in HETEROPHILOUS:
        return heterophilous(data, seed % 10)
    return csbm(seed=seed, **options) if data == "csbm" else one_graph(data, **options)


def run_graph(variant: str, seed: int, setting: Setting) -> dict[str, Any]:
    torch.set_num_threads(setting.threads)
    options = dict(setting.options)
    chosen = {name: options.pop(name) for name in RECIPE if name in options}
    task = graph_of(seed=seed, **options).to(setting.device)
    recipe = replace(recipe_for(task.name), **chosen)
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
