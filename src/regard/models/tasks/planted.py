"""Retrieval: the task that only attention by a question solves."""

from torch import nn

from ...data.planted.retrieval import most_frequent, retrieval
from ...data.task import Task
from ..objectives import Classification, Objective
from ..ready import retriever
from ..trainer import Training
from .experiment import Experiment, Measure, Result, answers

KEYS, VALUES = 16, 8


class Retrieval(Experiment):
    """The value of the key asked for. `truth` is the weight on the pair that has the answer."""

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

    def judge(self, model: nn.Module, task: Task, device: str) -> Result:
        right = weight = 0.0
        for _, batch, answer in answers(model, task.test, device):
            right += float((answer.out.argmax(-1) == batch.target).sum())
            if answer.maps and batch.gold is not None:
                weight += float((answer.weights()[:, 0, 0] * batch.gold).sum())
        return Result({"accuracy": right / len(task.test), "truth": weight / len(task.test)})

    def baselines(self, task: Task) -> dict[str, dict[str, float]]:
        return {"the most frequent value of the table": {"accuracy": most_frequent(task.test, VALUES)}}
