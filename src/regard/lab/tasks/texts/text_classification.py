"""Text classification: SST, AG News, and the bag-of-words baseline."""

import itertools
from collections.abc import Sequence

from torch import nn

from regard.data.batch import Example
from regard.data.task import Task
from regard.models.builders import text_classifier
from regard.models.training.experiment import ExampleScores, Experiment, Measure, Result, answers, by_length
from regard.models.training.objectives import Classification, Objective
from regard.models.training.trainer import Training

from ...data.agnews import ag_news
from ...data.sst import sst


def words_of(example: Example) -> list[int]:
    return example.inputs[example.inputs > 0].tolist()


def bag_of_words(train: Sequence[Example], test: Sequence[Example]) -> float:
    """Accuracy of logistic regression on TF-IDF of words and pairs of words."""
    said = bag_answers(train, test)
    return sum(a == int(one.target) for a, one in zip(said, test, strict=True)) / len(test)


def bag_answers(train: Sequence[Example], test: Sequence[Example]) -> list[int]:
    """Predictions of the bag-of-words baseline."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    count = TfidfVectorizer(analyzer=_singles_and_pairs, sublinear_tf=True, min_df=2 if len(train) > 1000 else 1)
    learned = LogisticRegression(C=10.0, max_iter=1000)
    learned.fit(count.fit_transform([words_of(one) for one in train]), [int(one.target) for one in train])
    return [int(label) for label in learned.predict(count.transform([words_of(one) for one in test]))]


def _singles_and_pairs(words: list[int]) -> list[tuple[int, ...]]:
    return [*((word,) for word in words), *itertools.pairwise(words)]


def most_frequent_class(task: Task) -> float:
    targets = [int(one.target) for one in task.train]
    most = max(set(targets), key=targets.count)
    return sum(int(one.target) == most for one in task.test) / len(task.test)


class SentenceTask(Experiment):
    """A recurrent classifier; accuracy, also by length."""

    measures = {"accuracy": Measure("accuracy, %")}  # noqa: RUF012
    says = {"none": "none (last states)"}  # noqa: RUF012

    def objective(self) -> Objective:
        return Classification()

    def measure(self, model: nn.Module, task: Task, device: str) -> Result:
        lengths: list[int] = []
        found = ExampleScores()
        for places, batch, answer in answers(model, task.test, device):
            lengths += batch.lengths.tolist()
            found.add(places, accuracy=(answer.out.argmax(-1) == batch.target).float())
        return found.result(by_length(lengths, found.found["accuracy"]))

    def model(self, task: Task, attention: str) -> nn.Module:
        assert task.words is not None
        dim = 64 if self.small else 200
        dropout = 0.3 if self.small else 0.5
        return text_classifier(len(task.words), task.classes, attention, dim, dim, dropout=dropout)

    def baselines(self, task: Task) -> dict[str, dict[str, float]]:
        return {
            "TF-IDF and logistic regression": {"accuracy": bag_of_words(task.train, task.test)},
            "most frequent class": {"accuracy": most_frequent_class(task)},
        }


class SST(SentenceTask):
    """Sentences of film reviews, negative or positive; training includes phrases, unless the setting is small."""

    name = "sst"
    drawn = False

    def load(self, seed: int) -> Task:
        return sst(phrases=not self.small)

    @property
    def training(self) -> Training:
        if self.small:
            return Training(epochs=4, batch=64, rate=2e-3, patience=2)
        return Training(epochs=4, batch=128, rate=1e-3, decay=1e-4, schedule="cosine", patience=4)

    def baselines(self, task: Task) -> dict[str, dict[str, float]]:
        found = super().baselines(task)
        if not self.small:
            whole = {"accuracy": bag_of_words(sst(phrases=False).train, task.test)}
            found = {"TF-IDF and logistic regression, sentences alone": whole} | found
        return found


class AGNews(SentenceTask):
    """Four news topics, 5600 training items; every seed has its own split."""

    name = "agnews"
    overlap = 1000 / 5600

    def load(self, seed: int) -> Task:
        task = ag_news(split=seed)
        if self.small:
            task.train = task.train[:2000]
        return task

    @property
    def training(self) -> Training:
        return Training(
            epochs=4 if self.small else 12,
            batch=32,
            rate=2e-3 if self.small else 1e-3,
            decay=1e-4,
            schedule="cosine",
            patience=4,
        )
