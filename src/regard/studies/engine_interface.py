"""The interface of engines: a number of slots, each running one job at a time and reporting its events."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal

from .trial import Job


@dataclass(frozen=True)
class Event:
    """What happened in a slot.

    progress   of a running job: share (0 to 1) and note
    ended      its outcome: metrics, or an error
    lost       the worker process died; "node" in data: its whole machine did
    """

    slot: int
    kind: Literal["progress", "ended", "lost"]
    data: dict[str, Any] = field(default_factory=dict)


class Engine(ABC):
    """Runs jobs. Claiming trials and writing results is left to the runner, so every engine gives the same numbers."""

    slots: int

    @abstractmethod
    def submit(self, slot: int, job: Job) -> None:
        """Start a job in an idle slot. A lost worker is restarted."""

    @abstractmethod
    def wait(self, seconds: float) -> list[Event]:
        """The events since the last call; waits for at most `seconds` if there are none."""

    @abstractmethod
    def close(self) -> None:
        """Terminate every worker, running jobs included."""
