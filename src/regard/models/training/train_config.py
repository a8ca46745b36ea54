"""The configuration of a training run, and its history."""

import math
from dataclasses import dataclass, field

SCHEDULES = ("constant", "cosine", "root")


@dataclass(frozen=True)
class Training:
    """Hyperparameters: AdamW, gradient clipping by norm, early stopping `patience` epochs after the last improvement.

    batch        examples a step, over all devices and micro-batches
    accumulate   gradient accumulation: the number of micro-batches of a step; the sum is the same
    schedule     of the learning rate after warm-up: constant, cosine (to 0 at the last epoch), root (1 / sqrt)
    """

    epochs: int = 10
    batch: int = 32
    rate: float = 1e-3
    decay: float = 0.0
    clip: float = 5.0
    warmup: int = 0
    schedule: str = "constant"
    patience: int = 5
    accumulate: int = 1

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "patience", "accumulate"):
            if getattr(self, name) < 1:
                raise ValueError(f"Training({name}={getattr(self, name)}): expected 1 or more.")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"Training(schedule={self.schedule!r}): expected one of {', '.join(SCHEDULES)}.")

    def rate_at(self, step: int, steps: int) -> float:
        """The learning rate of a step (from 0) of `steps`."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        if self.schedule == "cosine":
            return self.rate * 0.5 * (1 + math.cos(math.pi * (step - self.warmup) / max(1, steps - self.warmup)))
        if self.schedule == "root":
            return self.rate * math.sqrt(max(1, self.warmup) / (step + 1))
        return self.rate

    def share(self, epoch: int, step: int, steps: int) -> float:
        """Progress, 0 to 1, after `step` of `steps` in an epoch (from 1)."""
        return (epoch - 1 + step / steps) / self.epochs


@dataclass
class Trained:
    """The history of a training run: metrics by epoch, the best epoch (`kept`, from 1), the loss of each step."""

    history: list[dict[str, float]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    kept: int = 0
    waited: int = 0
    seconds: float = 0.0

    @property
    def epochs(self) -> int:
        return len(self.history)

    @property
    def best(self) -> dict[str, float]:
        return self.history[self.kept - 1] if self.kept else {}
