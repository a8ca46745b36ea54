"""ERASER Movies: classification of long reviews, and agreement of attention with human rationales."""

import torch
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.data.task import Task
from regard.models.builders import document_classifier
from regard.models.model_output import Answer
from regard.models.training.experiment import ExampleScores, Experiment, Measure, Result, answers, by_length
from regard.models.training.objectives import Classification, Objective
from regard.models.training.trainer import Training

from ...data.movies import movies
from .text_classification import bag_of_words, most_frequent_class


class Movies(Experiment):
    """`rationale` is the share of attention on words in human rationales, `marked` the share of words in them, which is
    the chance level."""

    name = "movies"
    drawn = False
    measures = {  # noqa: RUF012
        "accuracy": Measure("accuracy, %"),
        "rationale": Measure("attention on rationales, %"),
        "marked": Measure("words in rationales, %"),
    }
    says = {"none": "none (last states)"}  # noqa: RUF012

    def load(self, seed: int) -> Task:
        if not self.small:
            return movies()
        task = movies(sentences=12, words=30)
        task.train, task.test = task.train[::4], task.test[::2]
        return task

    def model(self, task: Task, attention: str) -> nn.Module:
        assert task.words is not None
        size = {"dim": 50, "width": 32} if self.small else {"dim": 200, "width": 100, "dropout": 0.5}
        return document_classifier(len(task.words), 2, attention, **size)

    def objective(self) -> Objective:
        return Classification()

    @property
    def training(self) -> Training:
        if self.small:
            return Training(epochs=6, batch=16, rate=3e-3, patience=3)
        return Training(epochs=8, batch=16, rate=1e-3, decay=1e-4, schedule="cosine", patience=4)

    def measure(self, model: nn.Module, task: Task, device: str) -> Result:
        lengths: list[int] = []
        found, marked = ExampleScores(), []
        for places, batch, answer in answers(model, task.test, device, 16):
            assert batch.parts is not None and batch.gold is not None
            lengths += batch.parts.sum(1).tolist()
            more = {"rationale": (word_weights(answer, batch) * batch.gold).sum((1, 2))} if answer.maps else {}
            found.add(places, accuracy=(answer.out.argmax(-1) == batch.target).float(), **more)
            marked += (batch.gold.sum((1, 2)) / batch.parts.sum(1)).tolist()
        return found.result(by_length(lengths, found.found["accuracy"]), marked=sum(marked) / len(marked))

    def baselines(self, task: Task) -> dict[str, dict[str, float]]:
        return {
            "TF-IDF and logistic regression": {"accuracy": bag_of_words(task.train, task.test)},
            "most frequent class": {"accuracy": most_frequent_class(task)},
        }


def word_weights(answer: Answer, batch: Batch) -> Tensor:
    """(B, sentences, words): the weight of a sentence times that of a word in it; sums to one over a document."""
    assert batch.parts is not None
    upper = answer.mean_weights()[:, 0]
    whole = torch.zeros(batch.inputs.shape, device=upper.device, dtype=upper.dtype)
    inner = Answer(answer.out, answer.inner).mean_weights()[:, 0]
    whole[batch.real & (batch.parts > 0)] = inner
    return upper[..., None] * whole
