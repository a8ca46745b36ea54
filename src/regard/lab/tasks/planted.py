"""Retrieval: a task that only query-based attention can solve."""

from torch import nn

from regard.data.task import Task
from regard.models.builders import retriever
from regard.models.training.experiment import ExampleScores, Experiment, Measure, Result, answers
from regard.models.training.objectives import Classification, Objective
from regard.models.training.trainer import Training

from ..data.planted.retrieval import most_frequent, retrieval

KEYS, VALUES = 16, 8


class Retrieval(Experiment):
    """The value of the queried key. `truth` is the weight on the correct pair."""

    name = "retrieval"
    measures = {"accuracy": Measure("accuracy, %"), "truth": Measure("weight on the answer, %")}  # noqa: RUF012
    beside = ("uniform",)

    def load(self, seed: int) -> Task:
        parts = {"train": 2000, "val": 300, "test": 500} if self.small else {}
        return retrieval(8, KEYS, VALUES, seed=seed, **parts)

    def model(self, task: Task, attention: str) -> nn.Module:
        return retriever(KEYS, VALUES, attention)

    def objective(self) -> Objective:
        return Classification()

    @property
    def training(self) -> Training:
        return Training(epochs=6 if self.small else 12, batch=64, rate=5e-3, patience=12)

    def measure(self, model: nn.Module, task: Task, device: str) -> Result:
        found = ExampleScores()
        for places, batch, answer in answers(model, task.test, device):
            assert batch.gold is not None
            more = {"truth": (answer.mean_weights()[:, 0] * batch.gold).sum(-1)} if answer.maps else {}
            found.add(places, accuracy=(answer.out.argmax(-1) == batch.target).float(), **more)
        return found.result()

    def baselines(self, task: Task) -> dict[str, dict[str, float]]:
        return {"the most frequent value of the table": {"accuracy": most_frequent(task.test, VALUES)}}
