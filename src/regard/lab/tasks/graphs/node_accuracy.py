"""Accuracy over seeds on citation graphs, with the paper's figure and baselines without attention or edges."""

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from regard.data import NodeTask
from regard.models.training.node_checkpoint import save_run
from regard.models.training.node_training import Fitted, Recipe, train

PAPER = {"cora": (83.0, 0.7), "citeseer": (72.5, 0.7), "pubmed": (79.0, 0.3)}  # Velickovic et al. 2018, table 2
SAYS = {"gat": "GAT", "mean": "mean of the neighbours (uniform weights)", "mlp": "MLP without edges"}
NETWORKS = SAYS | {
    "gcn": "GCN",
    "sage": "GraphSAGE",
    "gatv2": "GATv2",
    "transformer": "transformer over neighbours (UniMP)",
    "gps": "GPS",
    "exphormer": "Exphormer",
    "sgformer": "SGFormer",
    "polynormer": "Polynormer",
    "nodeformer": "NodeFormer",
    "esa": "set attention (ESA, on nodes)",
}


@dataclass
class Accuracy:
    """The runs of one kind of network on one data set, test accuracy in percent."""

    kind: str
    data: str
    runs: list[Fitted] = field(default_factory=list)

    @property
    def mean(self) -> float:
        return 100 * statistics.fmean(run.test for run in self.runs)

    @property
    def deviation(self) -> float:
        """Between seeds, with n - 1 below; 0 for one seed."""
        return 100 * statistics.stdev(run.test for run in self.runs) if len(self.runs) > 1 else 0.0

    @property
    def paper(self) -> tuple[float, float] | None:
        return PAPER.get(self.data) if self.kind == "gat" else None

    @property
    def reached(self) -> bool | None:
        """Whether the mean is at least the paper's minus its deviation."""
        return None if self.paper is None else self.mean >= self.paper[0] - self.paper[1]

    def as_dict(self) -> dict[str, object]:
        paper = None if self.paper is None else {"mean": self.paper[0], "deviation": self.paper[1]}
        return {
            "kind": self.kind,
            "data": self.data,
            "seeds": len(self.runs),
            "mean": self.mean,
            "deviation": self.deviation,
            "paper": paper,
            "reached": self.reached,
            "epochs": statistics.fmean(run.epochs for run in self.runs),
            "seconds": sum(run.seconds for run in self.runs),
            "test": [100 * run.test for run in self.runs],
        }


def accuracies(
    task: NodeTask,
    seeds: Iterable[int],
    kinds: Iterable[str] = tuple(SAYS),
    recipe: Recipe | None = None,
    after: Callable[[Accuracy], None] = lambda _: None,
    out: Path | None = None,
    task_of: Callable[[int], NodeTask] | None = None,
) -> list[Accuracy]:
    """Each kind of network trained from each seed; `after` is called after each run, `out` keeps the networks.

    task_of   the graph of a seed, if splits differ by seed
    """
    seeds, found = list(seeds), []
    for kind in kinds:
        found.append(Accuracy(kind, task.name))
        for seed in seeds:
            task = task if task_of is None else task_of(seed)
            model, fitted = train(kind, task, seed, recipe)
            found[-1].runs.append(fitted)
            if out is not None:
                save_run(out, task, kind, seed, model, recipe)
            after(found[-1])
    return found
