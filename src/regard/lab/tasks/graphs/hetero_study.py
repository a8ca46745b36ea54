"""The study task `hetero`: node classification on a heterogeneous graph."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from regard.models.hetero_gnn import TYPED
from regard.models.training.experiment import Measure
from regard.models.training.hetero_checkpoint import load_typed
from regard.models.training.node_training import fit
from regard.studies.tasks import StudyTask
from regard.studies.trial import Setting

from .hetero_accuracy import RECIPE


class TypedGraph(StudyTask):
    """Networks on a heterogeneous graph with one recipe; options: data ("acm", or the path of your graph), labels
    (of acm), target, metapaths, split (`read_hetero_graph`)."""

    call = "regard.lab.tasks.graphs.hetero_study:run_typed"
    drawn = False

    def __init__(self, part: Mapping[str, Any]):
        super().__init__(part)
        self.options = {"data": "acm"} | self.options
        own = {"target", "metapaths", "split"} if self.options["data"] != "acm" else {"labels"}
        strange = [name for name in self.options if name not in {"data", *own}]
        if strange:
            raise ValueError(
                f"the task hetero has no option {strange[0]!r} here; it has data, {', '.join(sorted(own))}."
            )
        if self.options["data"] != "acm":
            load_typed(self.options)  # refuses with a sentence
            self.source = self.options["data"]
        self.measures = {"accuracy": Measure("accuracy, %")}

    def canonical(self, variant: str) -> str:
        if variant not in TYPED:
            raise ValueError(f"the task hetero has no variant {variant!r}; it has {', '.join(TYPED)}.")
        return variant


def run_typed(variant: str, seed: int, setting: Setting) -> dict[str, Any]:
    """One network from one seed."""
    torch.set_num_threads(setting.threads)
    seen = TYPED[variant].sees(load_typed(setting.options))
    epochs = setting.budget.get("epochs") or setting.budget.get("steps")  # all nodes at once: a step is an epoch
    recipe = replace(RECIPE, epochs=int(epochs), patience=int(epochs)) if epochs else RECIPE
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = TYPED[variant].make(seen, recipe)
        found = fit(model, seen, recipe)
    with torch.no_grad():
        right = (model.eval()(seen.x, seen.edge_index).argmax(-1) == seen.y)[seen.test].float()
    return {
        "numbers": {"accuracy": found.test},
        "scores": {"accuracy": right.tolist()},
        "parameters": sum(p.numel() for p in model.parameters()),
    }
