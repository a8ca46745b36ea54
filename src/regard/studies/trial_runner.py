"""The runner: leases trials from the store, runs them on an engine, saves the results. Runners may share a store."""

import contextlib
import os
import platform
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .database import DamagedStore, StoreUnavailable
from .engine_interface import Engine, Event
from .tasks import folder_of, is_custom
from .trial import Job
from .trial_store import Lease, Store

HEARTBEAT = 2.0  # seconds between two heartbeats
LEASE_TIMEOUT = 60.0  # seconds without a heartbeat after which a lease expires
LIVE_RUNNERS: set[str] = set()  # ids of the runners of this process that have not ended


class DiskFull(OSError):
    """The disk is full: no trial can continue until space is freed."""


class MissingRequirement(OSError):
    """A package or a data set is missing; retrying cannot help."""


@dataclass
class RunnerCallbacks:
    """Callbacks of a runner; each is a no-op by default."""

    started: Callable[[int, Lease], None] = lambda slot, lease: None
    progress: Callable[[int, float, str], None] = lambda slot, share, note: None
    ended: Callable[[int, Lease, str, float, str], None] = lambda slot, lease, outcome, seconds, reason: None
    counted: Callable[[dict[str, int]], None] = lambda counts: None


@dataclass
class Runner:
    """Runs the trials of a study until each is done or has failed, or the study is cancelled.

    folder          where trials save checkpoints and records
    modules         the folder with the modules of custom tasks; by default the current one
    lease_timeout   seconds without a heartbeat after which a trial of another runner is requeued; a dead runner on
                    this machine is detected at once
    """

    store: Store
    study: str
    engine: Engine
    folder: Path
    retries: int = 2
    heartbeat: float = HEARTBEAT
    lease_timeout: float = LEASE_TIMEOUT
    modules: Path = field(default_factory=Path)
    callbacks: RunnerCallbacks = field(default_factory=RunnerCallbacks)
    leases: dict[int, Lease] = field(default_factory=dict)
    progress: dict[str, tuple[float, str]] = field(default_factory=dict)
    began: dict[int, float] = field(default_factory=dict)

    def run(self) -> bool:
        """Run to the end; False if the study was cancelled."""
        runner_id, last = uuid.uuid4().hex[:8], 0.0
        me = f"{identity()}|{runner_id}"
        LIVE_RUNNERS.add(runner_id)
        try:
            while True:
                if time.monotonic() - last >= self.heartbeat:
                    last = time.monotonic()
                    if self.store.cancelled(self.study):
                        return False
                    self._send_heartbeats()
                    self.store.reap(self.study, self.lease_timeout, is_dead)
                    self.callbacks.counted(self.store.counts(self.study))
                leased = self._fill_slots(me)
                if not self.leases and not leased:
                    counts = self.store.counts(self.study)
                    if not (counts["running"] or counts["waiting"]):  # waiting ones included
                        self.callbacks.counted(counts)
                        return True
                    time.sleep(min(0.2, self.heartbeat))  # other runners hold the remaining trials
                    continue
                for event in self.engine.wait(max(0.0, last + self.heartbeat - time.monotonic())):
                    self._handle(event)
        finally:
            self.engine.close()
            self._release_all()
            LIVE_RUNNERS.discard(runner_id)

    def _release_all(self) -> None:
        """Release all leases; if the store is unavailable, the next runner detects that this one is dead."""
        self.store.patience = min(self.store.patience, 5.0)
        with contextlib.suppress(StoreUnavailable, DamagedStore):
            for lease in self.leases.values():
                self.store.release(lease, "the runner stopped")
        self.leases.clear()

    def _fill_slots(self, me: str) -> bool:
        """Lease a trial for every idle slot; whether any was leased."""
        leased = False
        for slot in range(self.engine.slots):
            if slot in self.leases:
                continue
            lease = self.store.claim(self.study, f"{me}/{slot}")
            if lease is None:
                break
            leased = True
            self.leases[slot], self.began[slot] = lease, time.monotonic()
            self.engine.submit(slot, lease.job | self._paths(lease.job))
            self.callbacks.started(slot, lease)
        return leased

    def _paths(self, job: Job) -> dict[str, str | None]:
        """The folder of the trial, and the folder of its module if it is a custom task."""
        modules = str(self.modules.resolve()) if is_custom(job["call"]) else None
        return {"folder": str(folder_of(self.folder, job)), "modules": modules}

    def _handle(self, event: Event) -> None:
        lease = self.leases.get(event.slot)
        if lease is None:
            return
        if event.kind == "progress":
            self.progress[lease.token] = (float(event.data["share"]), str(event.data["note"]))
            self.callbacks.progress(event.slot, float(event.data["share"]), str(event.data["note"]))
            return
        reason = str(event.data.get("error", ""))
        if event.kind == "lost":
            reason = str(event.data["why"])
            outcome = (self.store.lose if event.data.get("node") else self.store.crash)(lease, reason)
            outcome = "lost" if outcome == "waiting" else outcome
        elif event.data.get("full"):
            self._free(event.slot)
            self.store.release(lease, reason)
            raise DiskFull(
                f"The disk is full ({reason}). Finished trials are saved: free some space, then `regard study resume`."
            )
        elif event.data.get("missing_requirement"):
            self._free(event.slot)
            self.store.release(lease, reason)
            raise MissingRequirement(
                f"{lease.task} cannot run here. {reason.partition(': ')[2].rstrip('.')}. Finished trials are saved: "
                "fix that, then `regard study resume`."
            )
        elif "error" in event.data:
            outcome = self.store.fail(lease, f"{reason}\n{event.data['trace']}", self.retries)
            outcome = "retried" if outcome == "waiting" else outcome
        else:
            outcome = "done" if self.store.finish(lease, event.data) else "superseded"
        seconds = time.monotonic() - self.began[event.slot]
        self._free(event.slot)
        self.callbacks.ended(event.slot, lease, outcome, seconds, reason)

    def _free(self, slot: int) -> None:
        self.progress.pop(self.leases.pop(slot).token, None)

    def _send_heartbeats(self) -> None:
        """Heartbeats for all leases. A trial whose lease expired keeps running, but its result will be refused."""
        self.store.heartbeat(self.leases.values(), self.progress)


def identity() -> str:
    """Identity of this process: host, PID namespace, PID and start time."""
    return f"{platform.node()[:80]}|{_pid_namespace()}|{os.getpid()}|{_start_time(os.getpid())}"


def worker_name(worker: str) -> str:
    """A readable name of a worker: its number, process and host."""
    runner, _, number = worker.rpartition("/")
    node, _, rest = runner.partition("|")
    process = rest.partition("|")[2].partition("|")[0]
    return f"worker {number} of process {process} on {node}" if process else worker


def is_dead(worker: str) -> bool:
    """Whether the runner of a worker ran on this machine and has ended. For other machines: False."""
    runner = worker.rpartition("/")[0]
    node, _, rest = runner.partition("|")
    namespace, _, process = rest.partition("|")
    pid, _, times = process.partition("|")
    start, _, runner_id = times.partition("|")
    if node != platform.node()[:80] or namespace != _pid_namespace() or not pid.isdecimal():
        return False
    if int(pid) == os.getpid() and start == _start_time(os.getpid()):
        return bool(runner_id) and runner_id not in LIVE_RUNNERS
    return _start_time(int(pid)) != start


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _start_time(process: int) -> str:
    """When a process started, in clock ticks; "" if there is none, "there" if it exists but its start is unknown."""
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
