"""Drug response: ln IC50 of drugs on cell lines, with baselines of drug and cell-line means."""

import numpy as np
from torch import nn

from regard.data.batch import Example
from regard.data.task import Task
from regard.models.training.experiment import Experiment, Measure, Result, answers
from regard.models.training.objectives import Objective, Regression
from regard.models.training.trainer import Training

from ...data.drugs import DrugTask, drug_graphs
from .drug_model import DrugResponse

FEWEST = 10  # test responses that a drug needs for a correlation of its own


def agreement(predicted: np.ndarray, measured: np.ndarray, drugs: np.ndarray) -> dict[str, float]:
    """RMSE, Pearson over all responses, and Pearson within each drug, averaged.

    Correlations with a constant are undefined and skipped; a drug needs 10 responses.
    """
    found = {"rmse": float(np.sqrt(np.mean((predicted - measured) ** 2)))}
    whole = _pearson(predicted, measured)
    each = [
        _pearson(predicted[drugs == one], measured[drugs == one])
        for one, count in zip(*np.unique(drugs, return_counts=True), strict=True)
        if count >= FEWEST
    ]
    known = [one for one in each if one is not None]
    return (
        found
        | ({} if whole is None else {"pearson": whole})
        | ({} if not known else {"per_drug": float(np.mean(known))})
    )


def means(task: Task, drug: bool, cell: bool, shrink: float = 5.0, rounds: int = 10) -> np.ndarray:
    """An additive model: each test response as the sum of its drug and cell-line effects in the training split.

        y = mean + a_drug + b_cell,  fitted alternately, shrunk as if with 5 more responses at 0

    Unseen drugs and cell lines have effect 0.
    """
    pairs, y = _table(task.train)
    asked, _ = _table(task.test)
    sizes = np.maximum(pairs.max(0), asked.max(0)) + 1
    effects = [np.zeros(size) for size in sizes]
    centre = y.mean()
    for _ in range(rounds):
        for side in (side for side, wanted in enumerate((drug, cell)) if wanted):
            other = 1 - side
            left = y - centre - effects[other][pairs[:, other]]
            sums = np.bincount(pairs[:, side], left, minlength=sizes[side])
            effects[side] = sums / (np.bincount(pairs[:, side], minlength=sizes[side]) + shrink)
    return centre + effects[0][asked[:, 0]] + effects[1][asked[:, 1]]


class Drugs(Experiment):
    """Is attention all one needs for drug response? held_out: pairs, drugs or cells, split by the seed."""

    name = "drugs"
    overlap = 1 / 8  # one tenth test, eight tenths train
    usual = "gat"
    own = ("gat", "gatv2", "edge", "global", "co", "gcn", "uniform", "none")
    beside = ("gatv2", "edge", "global", "co", "gcn", "uniform", "none")
    measures = {  # noqa: RUF012
        "rmse": Measure("RMSE of ln IC50", 1.0, 3, higher=False),
        "pearson": Measure("Pearson", 1.0, 3),
        "per_drug": Measure("Pearson within a drug", 1.0, 3),
    }
    says = {  # noqa: RUF012
        "gat": "GAT",
        "gatv2": "GATv2",
        "edge": "edge attention (GATv2 with bonds)",
        "global": "GCN, global attention",
        "co": "GCN, co-attention with the cell line",
        "gcn": "GCN, mean of atoms",
        "uniform": "mean of neighbours, mean of atoms",
        "none": "no bonds, mean of atoms",
    }

    def load(self, seed: int) -> Task:
        return drug_graphs(
            held_out=self.options.get("held_out", "pairs"),
            seed=seed,
            compounds=80 if self.small else None,
            cell_lines=100 if self.small else None,
        )

    def model(self, task: Task, attention: str) -> nn.Module:
        assert isinstance(task, DrugTask)
        return DrugResponse(task, attention, 32 if self.small else 64, 64 if self.small else 256)

    def objective(self) -> Objective:
        return Regression()

    @property
    def training(self) -> Training:
        if self.small:
            return Training(epochs=15, batch=512, rate=5e-3, decay=1e-4, schedule="cosine", patience=20)
        return Training(epochs=60, batch=512, rate=1e-3, decay=1e-4, schedule="cosine", patience=60)

    def measure(self, model: nn.Module, task: Task, device: str) -> Result:
        predicted = np.zeros(len(task.test))
        for chosen, _, answer in answers(model, task.test, device, 2048):
            predicted[chosen] = answer.out.double().cpu().numpy()
        pairs, y = _table(task.test)
        return Result(agreement(predicted, y, pairs[:, 0]))

    def baselines(self, task: Task) -> dict[str, dict[str, float]]:
        pairs, y = _table(task.test)
        ways = {
            "means of drugs and cell lines": (True, True),
            "means of drugs": (True, False),
            "means of cell lines": (False, True),
        }
        return {says: agreement(means(task, *way), y, pairs[:, 0]) for says, way in ways.items()}


def _table(part: list[Example]) -> tuple[np.ndarray, np.ndarray]:
    """(responses, 2) drug and cell line; (responses,) ln IC50."""
    return np.stack([one.inputs.numpy() for one in part]), np.array([float(one.target) for one in part])


def _pearson(x: np.ndarray, y: np.ndarray) -> float | None:
    if len(x) < 2 or x.std() < 1e-9 or y.std() < 1e-9:
        return None
    return float(np.corrcoef(x, y)[0, 1])
