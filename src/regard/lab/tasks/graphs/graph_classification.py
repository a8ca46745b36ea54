"""Graph classification: molecules and proteins (TU), and synthetic motifs with known nodes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from regard.data.batch import Example
from regard.data.readers.graph_set import read_graphs
from regard.data.readers.user_file import is_path
from regard.data.task import Task
from regard.models.builders import graph_classifier
from regard.models.graph_networks.layers import LAYERS
from regard.models.training.experiment import ExampleScores, Experiment, Measure, Result, answers
from regard.models.training.objectives import Classification, Objective
from regard.models.training.trainer import Training
from regard.nn.graph import GATConv

from ...data.molecules import molecules
from ...data.planted.motifs import motifs
from ...data.tu_graphs import NAMES as TU_NAMES
from ...data.tu_graphs import tu
from ..texts.text_classification import most_frequent_class

MOLECULES = {
    "benzene": Training(epochs=3, batch=64, rate=3e-3, schedule="cosine", patience=3),
    "logic10": Training(epochs=15, batch=32, rate=1e-3, patience=15),
}


def count_answers(train: Sequence[Example], test: Sequence[Example]) -> list[int]:
    """Predictions of logistic regression on counts of node types, without edges."""
    from sklearn.linear_model import LogisticRegression

    def table(part: Sequence[Example]) -> list[list[float]]:
        return [one.inputs.sum(0).tolist() for one in part]

    learned = LogisticRegression(max_iter=2000).fit(table(train), [int(one.target) for one in train])
    return [int(label) for label in learned.predict(table(test))]


def counts_of_nodes(task: Task) -> float:
    """Accuracy of `count_answers`."""
    said = count_answers(task.train, task.test)
    return sum(a == int(one.target) for a, one in zip(said, task.test, strict=True)) / len(task.test)


class Graphs(Experiment):
    """Classification of whole graphs."""

    measures = {"accuracy": Measure("accuracy, %")}  # noqa: RUF012
    says = {"uniform": "uniform (means of neighbours and nodes)", "none": "none (no edges, mean of nodes)"}  # noqa: RUF012

    def model(self, task: Task, attention: str) -> nn.Module:
        width = task.train[0].inputs.shape[1]
        return graph_classifier(width, task.classes, attention, 32 if self.small else 64, network=self.network)

    @property
    def network(self) -> str:
        """Layers by name instead of GATv2's: gps, exphormer, gcn, esa, ..."""
        return str(self.options.get("network", ""))

    def objective(self) -> Objective:
        return Classification()

    def baselines(self, task: Task) -> dict[str, dict[str, float]]:
        return {
            "counts of nodes and logistic regression": {"accuracy": counts_of_nodes(task)},
            "most frequent class": {"accuracy": most_frequent_class(task)},
        }

    def measure(self, model: nn.Module, task: Task, device: str) -> Result:
        found = ExampleScores()
        for places, batch, answer in answers(model, task.test, device):
            found.add(places, accuracy=(answer.out.argmax(-1) == batch.target).float())
        return found.result()


class TU(Graphs):
    """Seed i is tested on fold i of ten; the next fold is the validation set.

    data     a name, or the path of your own graphs (`read_graphs`), whose masks, if any, are the split of all seeds
    network  layers by name (`models.builders.graph_classifier`); GATv2's unless given
    """

    name = "tu"
    splits, overlap = 10, 1 / 8  # folds: one test, eight train

    def __init__(self, small: bool = False, data: str = "MUTAG", network: str = ""):
        super().__init__(small, data=data, **_network(network))
        if data not in TU_NAMES and is_path(data):
            self.source = data
            if _test_ids(self.load(0)) == _test_ids(self.load(1)):  # the file has a split of its own
                self.drawn, self.splits, self.overlap = False, 0, 0.0
        elif data not in TU_NAMES:
            raise ValueError(
                f"data={data!r}: expected one of {', '.join(TU_NAMES)}, or a path: a TU folder (./{data}) or an .npz."
            )

    def load(self, seed: int) -> Task:
        return read_graphs(self.source, seed % 10) if self.source else tu(self.options["data"], seed % 10)

    @property
    def training(self) -> Training:
        return Training(
            epochs=60 if self.small else 150, batch=32, rate=3e-3 if self.small else 1e-3, decay=1e-4, patience=60
        )


def _network(name: str) -> dict[str, str]:
    """The option of that name, where it is given."""
    if name and name not in LAYERS:
        raise ValueError(f"network={name!r}: expected one of {', '.join(LAYERS)}.")
    return {"network": name} if name else {}


def _test_ids(task: Task) -> list[int]:
    return [one.id for one in task.test]


class Molecules(Graphs):
    """Labels by a known rule, with the atoms that cause them: benzene, logic10. GAT layers with bond features."""

    name = "molecules"

    def __init__(self, small: bool = False, **options: Any):
        super().__init__(small, **options)
        if self.data not in MOLECULES:
            raise ValueError(f"molecules(data={self.data!r}): expected one of {', '.join(MOLECULES)}.")
        _network(self.network)

    @property
    def data(self) -> str:
        return str(self.options.get("data", "benzene"))

    def load(self, seed: int) -> Task:
        task = molecules(self.data, bonds=True)
        return replace(task, train=task.train[:3000]) if self.small else task

    def model(self, task: Task, attention: str) -> nn.Module:
        return graph_classifier(
            task.train[0].inputs.shape[1], task.classes, attention, 32, layer=GATConv, network=self.network
        )

    @property
    def training(self) -> Training:
        return MOLECULES[self.data]


class Motifs(Graphs):
    """House or crossing; `mass` is the share of the readout's attention on the nodes of the motif."""

    name = "motifs"
    measures = {"accuracy": Measure("accuracy, %"), "mass": Measure("attention on the motif, %")}  # noqa: RUF012

    def load(self, seed: int) -> Task:
        if self.small:
            return motifs(nodes=10, train=600, val=100, test=200, seed=seed)
        return motifs(train=2000, val=300, test=500, seed=seed)

    @property
    def training(self) -> Training:
        return Training(epochs=10 if self.small else 30, batch=32, rate=3e-3, schedule="cosine", patience=30)

    def measure(self, model: nn.Module, task: Task, device: str) -> Result:
        found, mass = super().measure(model, task, device), 0.0
        for _, batch, answer in answers(model, task.test, device):
            assert batch.gold is not None
            mass += float(
                (answer.mean_weights()[0].sum(0) * batch.gold).sum()
            )  # only nodes of its own graph have weight
        found.numbers["mass"] = mass / len(task.test)
        return found

    def baselines(self, task: Task) -> dict[str, dict[str, float]]:
        share = sum(float(torch.mean(one.gold)) for one in task.test if one.gold is not None) / len(task.test)
        made = super().baselines(task)
        made["most frequent class"]["mass"] = share
        return made
