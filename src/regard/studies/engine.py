"""What an engine is: some slots, each of which runs one job at a time and tells what becomes of it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal

from .trial import Job


@dataclass(frozen=True)
class Event:
    """told: share and note of a running job; ended: its outcome (numbers, or an error); lost: the worker is
    gone, and "node" says whether the machine under it is."""

    slot: int
    kind: Literal["told", "ended", "lost"]
    data: dict[str, Any] = field(default_factory=dict)


class Engine(ABC):
    """The runner claims trials and writes results; an engine only runs jobs. So every engine gives the same numbers."""

    slots: int

    @abstractmethod
    def submit(self, slot: int, job: Job) -> None:
        """Begin a job in a slot that has none. A worker that was lost is started anew."""

    @abstractmethod
    def wait(self, seconds: float) -> list[Event]:
        """What happened, waiting for so long at most where nothing has."""

    @abstractmethod
    def close(self) -> None:
        """End every worker, whatever it is doing."""
