"""What a judge that trains tells while it works, for a progress bar."""

from collections.abc import Callable

from ..models.training.train_config import Training

Hear = Callable[[str, float, int | None], None]  # what is under way, how much is done, of how many (None: not known)
Epochs = Callable[[int, int, int, dict[str, float]], None]  # as a trainer has it: epoch, step, of how many, numbers


def nobody(what: str, done: float, of: int | None) -> None:
    """Who hears nothing."""


def part_of(hear: Hear, before: int, whole: int) -> Hear:
    """For a part of the work: what is done of it comes behind what was done before."""
    return lambda what, done, of: hear(what, before + done, whole)


def epochs_of(hear: Hear, what: str, done: int, of: int, training: Training) -> Epochs:
    """For a trainer: after `done` models of so many, this one counts by the share of its epochs."""

    def step(epoch: int, at: int, steps: int, numbers: dict[str, float]) -> None:
        hear(what, done + training.share(epoch, at, steps), of)

    return step
