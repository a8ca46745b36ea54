"""An experiment: one task, its model with any attention, what it is measured by, and what it must beat."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
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
    """A number that a table shows: value * scale with so many digits."""

    says: str
    scale: float = 100.0
    digits: int = 1
    higher: bool = True


@dataclass
class Result:
    """What a model reached on the test part: numbers by measure; the main one also by length of the input.

    scores   by measure, of each test example in the order of the test part, where a measure has such
    """

    numbers: dict[str, float]
    lengths: dict[str, float] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)  # what it said, for those who want to measure it again
    scores: dict[str, list[float]] = field(default_factory=dict)


class Experiment(ABC):
    """A subclass says how to load, build, train and measure; `comparing.compare` does the rest.

    measures   by name; the first is the main one
    beside     ablations that are trained beside the attention asked for
    drawn      whether a seed also draws the data (their split, their noise)
    small      a setting for a CPU, done in minutes
    own        names of attention that mean something in this task alone: those of networks on graphs
    """

    name = ""
    measures: dict[str, Measure] = {}  # noqa: RUF012 a subclass has its own
    beside: tuple[str, ...] = ("uniform", "none")
    usual = "additive"
    own: tuple[str, ...] = ()
    drawn = True
    says: dict[str, str] = {}  # noqa: RUF012 what an attention is called in this task's table

    def __init__(self, small: bool = False, **options: Any):
        self.small, self.options = small, options

    @abstractmethod
    def load(self, seed: int) -> Task:
        """The task; where its split or its noise is drawn, a seed draws it."""

    @abstractmethod
    def model(self, task: Task, attention: str) -> nn.Module:
        """A fresh network with this attention."""

    @abstractmethod
    def objective(self) -> Objective:
        """The loss it is trained by."""

    @property
    @abstractmethod
    def training(self) -> Training:
        """How long and how fast."""

    @abstractmethod
    def measure(self, model: nn.Module, task: Task, device: str) -> Result:
        """Its numbers on what it was not trained on."""

    def baselines(self, task: Task) -> dict[str, dict[str, float]]:
        """What is reached without any of this: numbers by measure, for each trivial way."""
        return {}

    @property
    def main(self) -> str:
        return next(iter(self.measures))


@torch.no_grad()
def answers(
    model: nn.Module, examples: Sequence[Example], device: str, size: int = 64
) -> Iterator[tuple[list[int], Batch, Answer]]:
    """The model's answers, batch by batch: places of the examples, the batch, the answer."""
    model.eval()
    for chosen in batches(examples, size):
        batch = collate([examples[i] for i in chosen]).to(device)
        yield chosen, batch, model(batch)


class ExampleScores:
    """Numbers of each test example, gathered batch by batch and put back into the order of the test part."""

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
        """The means are the numbers."""
        means = {name: sum(values) / len(values) for name, values in self.found.items()}
        return Result(means | more, lengths or {}, scores=self.ordered())


def by_length(lengths: Sequence[int], values: Sequence[float], bins: int = 4) -> dict[str, float]:
    """The mean value in bins of about equal count, named by their lengths: {"2-11": .9, ...}."""
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
