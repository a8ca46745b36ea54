"""Training the same model again: with other weights, from another seed, guided, or against itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batch import Batch, Example
from regard.data.task import Task
from regard.models.model_output import Answer
from regard.models.training.experiment import answers
from regard.models.training.objectives import Classification, Objective
from regard.models.training.trainer import Trainer, Training

from ..statistics.divergence import kl, tvd
from .reading import PARTS, TrainedReadout

Build = Callable[[str, bool], nn.Module]
Also = Callable[[nn.Module], Mapping[str, np.ndarray]]
Examples = Mapping[str, Sequence[Example]]


@dataclass
class Retraining:
    """A task, who builds a model for it, and how that is trained.

    build      function(attention, context) -> model(batch) -> Answer with logits (B, classes). attention: a score,
               "uniform", or "given" (it looks where the gold of a batch says, `models.imposed`); context=False: the
               same without anything but attention that joins the units
    objective  what is learned, and what is looked at while choosing
    folder     where what was read of each model is kept; one that is there is not trained again
    on_progress  called with (model, share done from 0 to 1, what is under way)

    An epoch is chosen by the validation part alone. The test part is read once, afterwards.
    """

    task: Task
    build: Build
    training: Training
    objective: Callable[[], Objective] = Classification
    optimise: Callable[[nn.Module], torch.optim.Optimizer] | None = None
    earliest: int = 1
    device: str = "cpu"
    folder: Path | None = None
    on_progress: Callable[[str, float, str], None] = lambda model, share, now: None

    @property
    def labels(self) -> np.ndarray:
        """(N,): the classes of the test part."""
        return np.asarray([int(one.target) for one in self.task.test])

    def trained(
        self, attention: str = "additive", seed: int = 0, *, context: bool = True, also: Also | None = None
    ) -> TrainedReadout:
        """A model with attention of its own. also(model): what else is measured of it, kept in `more`."""
        name = f"{attention}{'' if context else ' alone'}"
        return self._read(name, lambda: self.build(attention, context), self.objective(), self._parts(), seed, also)

    def guided(self, name: str, guide: "Mapping[str, Sequence[np.ndarray]]", seed: int = 0) -> TrainedReadout:
        """A model without context that is told where to look; guide: weights of each example, by part."""
        parts = {
            part: [
                replace(one, gold=torch.as_tensor(np.asarray(w), dtype=torch.float32))
                for one, w in zip(some, guide[part], strict=True)
            ]
            for part, some in self._parts().items()
        }
        return self._read(f"guided by {name}", lambda: self.build("given", False), self.objective(), parts, seed)

    def adversary(
        self, base: TrainedReadout, strength: float, seed: int = 0, attention: str = "additive"
    ) -> TrainedReadout:
        """A model that says what `base` says and looks elsewhere: L = TVD(y, y_b) - strength KL(a, a_b)."""
        parts, said, first = {}, [], 0
        for part, some in self._parts().items():
            parts[part] = [
                replace(one, id=first + place, gold=torch.as_tensor(w, dtype=torch.float32))
                for place, (one, w) in enumerate(zip(some, base.weights[part], strict=True))
            ]
            said.append(torch.as_tensor(base.said[part]))
            first += len(some)
        objective = Against(torch.cat(said), strength)
        name = f"adversary of {attention} at {strength:g}"
        return self._read(name, lambda: self.build(attention, True), objective, parts, seed)

    def _parts(self) -> dict[str, Sequence[Example]]:
        return {part: getattr(self.task, part) for part in PARTS}

    def _read(
        self,
        name: str,
        build: Callable[[], nn.Module],
        objective: Objective,
        parts: Examples,
        seed: int,
        also: Also | None = None,
    ) -> TrainedReadout:
        file = None if self.folder is None else self.folder / f"{name.replace(' ', '-')}-{seed}.npz"
        told = f"{name}, seed {seed}"
        if file is not None and file.is_file():
            self.on_progress(told, 1.0, "")
            return TrainedReadout.load(file)
        self.on_progress(told, 0.0, "")
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = build()
        kept = self._fit(model, objective, parts, seed, told)
        said, weights = {}, {}
        for part, some in parts.items():
            said[part], weights[part] = self._look(model, some)
        made = TrainedReadout(said, weights, kept, {} if also is None else dict(also(model)))
        if file is not None:
            made.save(file)
        self.on_progress(told, 1.0, "")
        return made

    def _fit(self, model: nn.Module, objective: Objective, parts: Examples, seed: int, told: str) -> int:
        def report_epoch(epoch: int, step: int, steps: int, numbers: dict[str, float]) -> None:
            self.on_progress(told, self.training.share(epoch, step, steps), f"epoch {epoch} of {self.training.epochs}")

        trainer = Trainer(
            self.training,
            self.device,
            optimise=self.optimise,
            earliest=self.earliest,
            on_step=report_epoch,
            together=len(parts["val"]),
        )
        return trainer.fit(model, objective, parts["train"], parts["val"], seed).kept

    @torch.no_grad()
    def _look(self, model: nn.Module, examples: Sequence[Example]) -> tuple[np.ndarray, list[np.ndarray]]:
        said: list[np.ndarray] = [np.zeros(0)] * len(examples)
        weights = list(said)
        for chosen, batch, answer in answers(model, examples, self.device):
            rows, shares = (
                first_row_weights(answer).double().cpu().numpy(),
                answer.out.double().softmax(-1).cpu().numpy(),
            )
            for place, row, share, length in zip(chosen, rows, shares, batch.lengths.tolist(), strict=True):
                said[place], weights[place] = share, row[:length]
        return np.stack(said), weights


class Against(Objective):
    """The trained adversary's loss; `said` (N, classes) is what the base model says of the example of each number, and
    the gold of a batch where it looks."""

    def __init__(self, said: Tensor, strength: float):
        super().__init__()
        self.strength = strength
        self.register_buffer("said", said.float())
        self.said: Tensor

    def rows(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        assert batch.gold is not None
        losses = against(
            answer.out.softmax(-1), self.said[batch.ids], first_row_weights(answer), batch.gold, self.strength
        )[:, None]
        return losses, torch.ones_like(losses, dtype=torch.bool)


def against(said: Tensor, base_said: Tensor, weights: Tensor, base_weights: Tensor, strength: float) -> Tensor:
    """TVD(y_a, y_b) - strength KL(a_a || a_b), (B,): the adversary's own weights come first in the divergence, so that
    it pays to look where the base does not. Wiegreffe & Pinter 2019, section 4."""
    return tvd(said, base_said) - strength * kl(weights, base_weights)


def first_row_weights(answer: Answer) -> Tensor:
    """(B, n): the weights of the first row, mean of heads, with gradients where they are on."""
    return answer.weights(grad=torch.is_grad_enabled()).mean(1)[:, 0]
