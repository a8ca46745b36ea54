"""How a model is trained, and what its training left."""

import math
from dataclasses import dataclass, field

SCHEDULES = ("constant", "cosine", "root")


@dataclass(frozen=True)
class Training:
    """How a model is trained: AdamW, gradients cut to a norm, stopped `patience` epochs after the last improvement.

    batch        examples a step, over all devices and parts
    accumulate   a step's examples go through in so many parts, one after the other; the sum is the same
    schedule     of the rate after the warm-up steps: constant, cosine (down to 0 at the last epoch), root (1 / sqrt)
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
        """The rate of a step, counted from 0, of so many."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        if self.schedule == "cosine":
            return self.rate * 0.5 * (1 + math.cos(math.pi * (step - self.warmup) / max(1, steps - self.warmup)))
        if self.schedule == "root":
            return self.rate * math.sqrt(max(1, self.warmup) / (step + 1))
        return self.rate

    def share(self, epoch: int, step: int, steps: int) -> float:
        """How much of all epochs is done after so many steps of this one, counted from 1."""
        return (epoch - 1 + step / steps) / self.epochs


@dataclass
class Trained:
    """What training left: one row of numbers an epoch, the epoch that was kept (from 1), the loss of every step."""

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
