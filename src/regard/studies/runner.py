"""The runner: claims trials, has an engine run them, and keeps what they give. Any number may share a store."""

import contextlib
import os
import platform
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .database import DamagedStore, StoreAway
from .engine import Engine, Event
from .tasks import folder_of, is_own
from .trial import Job
from .trial_store import Lease, Store

BEAT = 2.0  # seconds between two signs of life
SILENT = 60.0  # after so long without one, a trial is lost
ALIVE: set[str] = set()  # runners of this process that have not ended


class DiskFull(OSError):
    """No trial can go on until there is room."""


class Wanting(OSError):
    """A package or a data set is missing, and no other attempt would find it."""


@dataclass
class RunnerCallbacks:
    """What a runner tells those who watch; each does nothing unless given."""

    started: Callable[[int, Lease], None] = lambda slot, claim: None
    told: Callable[[int, float, str], None] = lambda slot, share, note: None
    ended: Callable[[int, Lease, str, float, str], None] = lambda slot, claim, how, seconds, why: None
    counted: Callable[[dict[str, int]], None] = lambda counts: None


@dataclass
class Runner:
    """Runs what is missing of a study, until every trial is done or has failed, or the study is cancelled.

    folder   where trials keep checkpoints and records
    modules  where modules of tasks of one's own stand; the current folder unless given
    silent   seconds after which a trial of another runner that gave no sign of life is taken over; a runner of this
             machine that is no longer there is noticed at once
    """

    store: Store
    study: str
    engine: Engine
    folder: Path
    retries: int = 2
    beat: float = BEAT
    silent: float = SILENT
    modules: Path = field(default_factory=Path)
    watch: RunnerCallbacks = field(default_factory=RunnerCallbacks)
    held: dict[int, Lease] = field(default_factory=dict)
    shares: dict[str, tuple[float, str]] = field(default_factory=dict)
    began: dict[int, float] = field(default_factory=dict)

    def run(self) -> bool:
        """Whether all that could be run was run: False when the study was cancelled."""
        number, last = uuid.uuid4().hex[:8], 0.0
        me = f"{identity()}|{number}"
        ALIVE.add(number)
        try:
            while True:
                if time.monotonic() - last >= self.beat:
                    last = time.monotonic()
                    if self.store.cancelled(self.study):
                        return False
                    self._sign()
                    self.store.reap(self.study, self.silent, gone)
                    self.watch.counted(self.store.counts(self.study))
                more = self._fill(me)
                if not self.held and not more:
                    counts = self.store.counts(self.study)
                    if not (counts["running"] or counts["waiting"]):  # what another is about to claim still waits
                        self.watch.counted(counts)
                        return True
                    time.sleep(min(0.2, self.beat))  # others have the rest
                    continue
                for event in self.engine.wait(max(0.0, last + self.beat - time.monotonic())):
                    self._heard(event)
        finally:
            self.engine.close()
            self._leave()
            ALIVE.discard(number)

    def _leave(self) -> None:
        """Give back what is held; where the store is away, the next runner sees that this one is gone."""
        self.store.patience = min(self.store.patience, 5.0)
        with contextlib.suppress(StoreAway, DamagedStore):
            for claim in self.held.values():
                self.store.release(claim, "the runner stopped")
        self.held.clear()

    def _fill(self, me: str) -> bool:
        """Give every free slot a trial; whether any got one."""
        found = False
        for slot in range(self.engine.slots):
            if slot in self.held:
                continue
            claim = self.store.claim(self.study, f"{me}/{slot}")
            if claim is None:
                break
            found = True
            self.held[slot], self.began[slot] = claim, time.monotonic()
            self.engine.submit(slot, claim.job | self._places(claim.job))
            self.watch.started(slot, claim)
        return found

    def _places(self, job: Job) -> dict[str, str | None]:
        """Where the trial keeps its files, and where its function is found if it is of one's own."""
        modules = str(self.modules.resolve()) if is_own(job["call"]) else None
        return {"folder": str(folder_of(self.folder, job)), "modules": modules}

    def _heard(self, event: Event) -> None:
        claim = self.held.get(event.slot)
        if claim is None:
            return
        if event.kind == "told":
            self.shares[claim.token] = (float(event.data["share"]), str(event.data["note"]))
            self.watch.told(event.slot, float(event.data["share"]), str(event.data["note"]))
            return
        why = str(event.data.get("error", ""))
        if event.kind == "lost":
            why = str(event.data["why"])
            how = (self.store.lose if event.data.get("node") else self.store.crash)(claim, why)
            how = "lost" if how == "waiting" else how
        elif event.data.get("full"):
            self._drop(event.slot)
            self.store.release(claim, why)
            raise DiskFull(f"The disk is full ({why}). What is done is kept: make room, then `regard study resume`.")
        elif event.data.get("wanting"):
            self._drop(event.slot)
            self.store.release(claim, why)
            raise Wanting(
                f"{claim.task} cannot run here. {why.partition(': ')[2].rstrip('.')}. What is done is kept: "
                "put that right, then `regard study resume`."
            )
        elif "error" in event.data:
            how = self.store.fail(claim, f"{why}\n{event.data['trace']}", self.retries)
            how = "again" if how == "waiting" else how
        else:
            how = "done" if self.store.finish(claim, event.data) else "taken"
        seconds = time.monotonic() - self.began[event.slot]
        self._drop(event.slot)
        self.watch.ended(event.slot, claim, how, seconds, why)

    def _drop(self, slot: int) -> None:
        self.shares.pop(self.held.pop(slot).token, None)

    def _sign(self) -> None:
        """Signs of life for all that is held. What was taken from us is let run: its result will not be kept."""
        self.store.beat(self.held.values(), self.shares)


def identity() -> str:
    """Identity of this process: machine, namespace of processes, number, and when it began."""
    return f"{platform.node()[:80]}|{_space()}|{os.getpid()}|{_began(os.getpid())}"


def called(worker: str) -> str:
    """A worker as people call it: machine, process, and which of that process's workers it is."""
    runner, _, number = worker.rpartition("/")
    node, _, rest = runner.partition("|")
    process = rest.partition("|")[2].partition("|")[0]
    return f"worker {number} of process {process} on {node}" if process else worker


def gone(worker: str) -> bool:
    """Whether a worker's runner was on this machine and is no more. Of other machines nothing is known."""
    runner = worker.rpartition("/")[0]
    node, _, rest = runner.partition("|")
    space, _, process = rest.partition("|")
    number, _, times = process.partition("|")
    began, _, mine = times.partition("|")
    if node != platform.node()[:80] or space != _space() or not number.isdecimal():
        return False
    if int(number) == os.getpid() and began == _began(os.getpid()):
        return bool(mine) and mine not in ALIVE
    return _began(int(number)) != began


def _space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _began(process: int) -> str:
    """When a process began, in ticks; "" where there is none, "there" where that cannot be told."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
        state, *rest = text.rpartition(")")[2].split()
        return "" if state in "ZX" else rest[18]
    except (OSError, IndexError):
        pass
    if Path("/proc/self/stat").exists():
        return ""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "there"
