"""Progress callbacks of judges that train, for a progress bar."""

from collections.abc import Callable

from ..models.training.train_config import Training

ProgressCallback = Callable[[str, float, int | None], None]  # description, completed, total (None: unknown)
EpochCallback = Callable[[int, int, int, dict[str, float]], None]  # a trainer's: epoch, step, steps, metrics


def no_progress(what: str, done: float, of: int | None) -> None:
    """No-op progress callback."""


def nested_progress(on_progress: ProgressCallback, before: int, whole: int) -> ProgressCallback:
    """The callback of one part of the work: offsets what the part completed by what was completed before it."""
    return lambda what, done, of: on_progress(what, before + done, whole)


def epoch_progress(on_progress: ProgressCallback, what: str, done: int, of: int, training: Training) -> EpochCallback:
    """The callback of one trainer among `of`: after `done` models, counts the share of this one's epochs."""

    def step(epoch: int, at: int, steps: int, numbers: dict[str, float]) -> None:
        on_progress(what, done + training.share(epoch, at, steps), of)

    return step
