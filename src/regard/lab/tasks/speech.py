"""Recognition of spoken digit strings of an unseen speaker."""

from dataclasses import replace

from torch import nn

from regard.data.task import Task
from regard.models.builders import spoken_recogniser
from regard.models.training.experiment import Experiment, Measure, Result
from regard.models.training.objectives import Objective, Sequences
from regard.models.training.trainer import Training

from ..data.spoken_digits import DIGITS, spoken_strings
from .translation.translation import said_for

BANDS = 40


def word_errors(said: list[str], wanted: list[str]) -> float:
    """Word error rate: word edits / reference words."""
    from torchmetrics.functional.text import word_error_rate

    return float(word_error_rate(said, wanted))


class Spoken(Experiment):
    """3 to 7 digits; `wer` is the word error rate, lower is better."""

    name = "spoken"
    measures = {"wer": Measure("word error rate, %", higher=False), "exact": Measure("strings right, %")}  # noqa: RUF012
    says = {"none": "none (last state of the encoder)"}  # noqa: RUF012

    def load(self, seed: int) -> Task:
        held_out = self.options.get("held_out", "theo")
        if self.small:
            return spoken_strings(held_out=held_out, train=600, val=60, test=60, seed=seed)
        return spoken_strings(held_out=held_out, train=8000, val=400, test=400, seed=seed)

    def model(self, task: Task, attention: str) -> nn.Module:
        assert task.target_words is not None
        size = 48 if self.small else 128
        order = self.options.get("order", "luong")
        return spoken_recogniser(BANDS, len(task.target_words), attention, size, size, order)

    def objective(self) -> Objective:
        return Sequences(smoothing=0.0 if self.small else 0.1)

    @property
    def training(self) -> Training:
        usual = Training(epochs=14, batch=32, rate=2e-3, clip=1.0, warmup=100, schedule="cosine", patience=14)
        return replace(usual, epochs=8, batch=16, rate=3e-3) if self.small else usual

    def measure(self, model: nn.Module, task: Task, device: str) -> Result:
        assert task.target_words is not None
        said = [" ".join(words) for words in said_for(model, task, device, 12, 1)]
        wanted = [" ".join(task.target_words.decode(one.target)) for one in task.test]
        by: dict[str, list[int]] = {}
        for place, line in enumerate(wanted):
            count = len(line.split())
            by.setdefault(f"{count}-{count}", []).append(place)
        lengths = {
            name: word_errors([said[i] for i in places], [wanted[i] for i in places]) for name, places in by.items()
        }
        exact = sum(a == b for a, b in zip(said, wanted, strict=True)) / len(said)
        return Result({"wer": word_errors(said, wanted), "exact": exact}, lengths, said)

    def baselines(self, task: Task) -> dict[str, dict[str, float]]:
        assert task.target_words is not None
        wanted = [" ".join(task.target_words.decode(one.target)) for one in task.test]
        best = min(
            (word_errors([" ".join([digit] * count)] * len(wanted), wanted), f"{digit} {count} times")
            for digit in DIGITS
            for count in (1, 5)
        )
        return {f"always '{best[1]}'": {"wer": best[0], "exact": 0.0}}
