"""An experiment: one task, its model with any attention, its metrics and its trivial baselines."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.batch import Batch, Example, collate
from regard.data.task import Task, batches

from ..model_output import Answer
from .objectives import Objective
from .trainer import Training


@dataclass(frozen=True)
class Measure:
    """How a metric is shown: its label, value * scale, number of digits; and its direction."""

    says: str
    scale: float = 100.0
    digits: int = 1
    higher: bool = True


@dataclass
class Result:
    """The result of a model on the test split: metrics; the main one also by length of the input.

    scores   by metric, of each test example in the order of the test split, if the metric has them
    """

    numbers: dict[str, float]
    lengths: dict[str, float] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)  # the outputs, for further metrics
    scores: dict[str, list[float]] = field(default_factory=dict)


class Experiment(ABC):
    """A subclass defines how to load, build, train and evaluate; `lab.tasks.compare` runs it over seeds.

    measures   metrics by name; the first is the main one
    beside     ablations that are trained beside the requested attention
    drawn      whether the data (split, noise) depend on the seed
    splits     how many divisions into training and test part there are: seed i has number i % splits; 0: one a seed
    overlap    test examples over training examples where seeds divide one set of data: their tests are not independent
    small      a setting for a CPU, done in minutes
    own        attention names of this task alone: those of graph networks
    source     the path of the user's own data; "" where the data have a name
    """

    name = ""
    measures: dict[str, Measure] = {}  # noqa: RUF012 a subclass has its own
    beside: tuple[str, ...] = ("uniform", "none")
    usual = "additive"
    own: tuple[str, ...] = ()
    source = ""
    drawn = True
    splits = 0
    overlap = 0.0
    says: dict[str, str] = {}  # noqa: RUF012 what an attention is called in this task's table

    def __init__(self, small: bool = False, **options: Any):
        self.small, self.options = small, options

    @abstractmethod
    def load(self, seed: int) -> Task:
        """The task; a random split or noise is drawn from the seed."""

    @abstractmethod
    def model(self, task: Task, attention: str) -> nn.Module:
        """A new network with this attention."""

    @abstractmethod
    def objective(self) -> Objective:
        """The training objective."""

    @property
    @abstractmethod
    def training(self) -> Training:
        """The hyperparameters."""

    @abstractmethod
    def measure(self, model: nn.Module, task: Task, device: str) -> Result:
        """The metrics on the test split."""

    def baselines(self, task: Task) -> dict[str, dict[str, float]]:
        """Trivial baselines: metrics by name, for each."""
        return {}

    @property
    def main(self) -> str:
        return next(iter(self.measures))


def build_experiment(name: str, kind: "type[Experiment]", small: bool, options: Mapping[str, Any]) -> Experiment:
    """An experiment with its options; one that it does not have is a ValueError that lists those that it has."""
    there = inspect.signature(kind)
    try:
        there.bind(small, **options)
    except TypeError as wrong:
        known = ", ".join(one for one in there.parameters if one != "small")
        raise ValueError(f"The task {name}: {wrong}. Its options: {known}.") from None
    return kind(small, **options)


@torch.no_grad()
def answers(
    model: nn.Module, examples: Sequence[Example], device: str, size: int = 64
) -> Iterator[tuple[list[int], Batch, Answer]]:
    """Predictions batch by batch: indices of the examples, the batch, the output."""
    model.eval()
    for chosen in batches(examples, size):
        batch = collate([examples[i] for i in chosen]).to(device)
        yield chosen, batch, model(batch)


class ExampleScores:
    """Metrics of each test example, collected by batch and restored to the order of the test split."""

    def __init__(self) -> None:
        self.places: list[int] = []
        self.found: dict[str, list[float]] = {}

    def add(self, places: Sequence[int], **values: "Tensor | Sequence[float]") -> None:
        self.places += places
        for name, value in values.items():
            self.found.setdefault(name, []).extend(value.tolist() if isinstance(value, Tensor) else value)

    def ordered(self) -> dict[str, list[float]]:
        order = sorted(range(len(self.places)), key=self.places.__getitem__)
        return {name: [values[i] for i in order] for name, values in self.found.items()}

    def result(self, lengths: dict[str, float] | None = None, **more: float) -> Result:
        """The result whose metrics are the means."""
        means = {name: sum(values) / len(values) for name, values in self.found.items()}
        return Result(means | more, lengths or {}, scores=self.ordered())


def by_length(lengths: Sequence[int], values: Sequence[float], bins: int = 4) -> dict[str, float]:
    """The mean value in bins of about equal count, named by their range of lengths: {"2-11": .9, ...}."""
    size = torch.tensor(lengths, dtype=torch.float64)
    value = torch.tensor(values, dtype=torch.float64)
    cuts = torch.quantile(size, torch.linspace(0, 1, bins + 1, dtype=torch.float64)).floor().unique()
    cuts = cuts if len(cuts) > 1 else cuts.repeat(2)
    made = {}
    for place in range(len(cuts) - 1):
        low, high = int(cuts[place]) + (place > 0), int(cuts[place + 1])
        inside = (size >= low) & (size <= high)
        if bool(inside.any()):
            made[f"{low}-{high}"] = float(value[inside].mean())
    return made
