"""Background jobs with progress and cancellation.

Each lane is one thread with a FIFO queue, so that long jobs of one kind do not delay those of another.
"""

import asyncio
import logging
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from regard.core.errors import Refused
from regard.recording.pretrained import NoModel

log = logging.getLogger("regard.serve")

MAX_QUEUED = 64  # jobs queued in a lane
MAX_RESULTS = 256  # cached results
MAX_RESULT_BYTES = 256_000_000  # bytes of cached results
USER_ERRORS = (ValueError, IndexError, KeyError, OSError, NoModel, Refused)  # what the user can correct
INTERNAL_ERROR = "Internal error: see the terminal in which regard serve runs."


class Stopped(Exception):
    """The job was cancelled."""


class Busy(Exception):
    """The queue of a lane is full."""


class Job:
    """One piece of work: `done` of `of` steps are complete, `says` describes what it is doing."""

    def __init__(self, lane: str, key: tuple[Any, ...], says: str, work: "Callable[[Job], Any]"):
        self.number, self.lane, self.key, self.says, self.work = secrets.token_hex(8), lane, key, says, work
        self.state, self.done, self.of, self.size = "waiting", 0, 0, 0
        self.result: Any = None
        self.error = ""
        self.notes: list[str] = []
        self._stop = threading.Event()
        self._ended: Future[None] = Future()

    def check(self) -> None:
        """Raise Stopped if the job was cancelled: called between steps."""
        if self._stop.is_set():
            raise Stopped

    def step(self, done: int, of: int) -> None:
        self.done, self.of = done, of
        self.check()

    def stop(self) -> None:
        self._stop.set()

    @property
    def ended(self) -> bool:
        return self.state in ("done", "failed", "stopped")

    def run(self) -> None:
        try:
            self.check()
            self.state = "running"
            self.result = self.work(self)
            self.size = len(self.result) if isinstance(self.result, bytes) else 0
            self.state = "done"
        except Stopped:
            self.state = "stopped"
        except USER_ERRORS as problem:
            self.error = str(problem.args[0]) if isinstance(problem, KeyError) and problem.args else str(problem)
            self.state = "failed"
        except Exception:
            log.exception("%s failed", self.says)
            self.error, self.state = INTERNAL_ERROR, "failed"
        finally:
            del self.work  # and release what it references
            self._ended.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Wait until it has ended, for at most some seconds, without blocking the event loop."""
        if not self.ended:
            await asyncio.wait({asyncio.shield(asyncio.wrap_future(self._ended))}, timeout=seconds)

    def about(self) -> dict[str, Any]:
        return {
            "job": self.number,
            "state": self.state,
            "says": self.says,
            "done": self.done,
            "of": self.of,
            "error": self.error,
            "notes": self.notes,
            "result": None if isinstance(self.result, bytes) else self.result,
        }


class Jobs:
    """Queued and running jobs, and a cache of recent results."""

    def __init__(self) -> None:
        self._lanes: dict[str, deque[Job]] = {}
        self._threads: list[threading.Thread] = []
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._keys: dict[Any, Job] = {}
        self._change = threading.Condition()
        self._closed = False

    def submit(self, lane: str, key: tuple[Any, ...], says: str, work: Callable[[Job], Any]) -> Job:
        """The job with this key unless it failed or was cancelled, or a new one."""
        with self._change:
            if self._closed:
                raise Busy("The server is shutting down.")
            found = self._keys.get(key)
            if found is not None and found.state not in ("failed", "stopped") and not found._stop.is_set():
                self._jobs.move_to_end(found.number)
                return found
            if lane not in self._lanes:
                self._lanes[lane] = deque()
                thread = threading.Thread(target=self._work, args=(lane,), name=f"regard {lane}", daemon=True)
                self._threads.append(thread)
                thread.start()
            if len(self._lanes[lane]) >= MAX_QUEUED:
                raise Busy(f"{MAX_QUEUED} jobs are queued already: wait for some of them, or cancel them.")
            job = Job(lane, key, says, work)
            self._lanes[lane].append(job)
            self._jobs[job.number] = self._keys[key] = job
            self._forget()
            self._change.notify_all()
            return job

    def __getitem__(self, number: str) -> Job:
        return self._jobs[number]

    def active(self) -> list[Job]:
        with self._change:
            return [job for job in self._jobs.values() if not job.ended]

    def stop(self, which: Callable[[Job], bool]) -> None:
        for job in self.active():
            if which(job):
                job.stop()

    def wait_for(self, lane: str, job: Job) -> None:
        """Block until a lane is idle, or the job is cancelled."""
        while any(other.lane == lane for other in self.active()):
            job.check()
            time.sleep(0.01)

    def close(self) -> None:
        """Cancel all jobs and join the threads, which end after their current step."""
        self.stop(lambda job: True)
        with self._change:
            self._closed = True
            self._change.notify_all()
        for thread in self._threads:
            thread.join(3)

    def _work(self, lane: str) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._closed or self._lanes[lane])
                if self._closed and not self._lanes[lane]:
                    return
                job = self._lanes[lane].popleft()
            job.run()

    def _forget(self) -> None:
        """Evict the oldest results beyond the limits."""
        ended = [job for job in self._jobs.values() if job.ended]
        size = sum(job.size for job in ended)
        for job in ended:
            if len(self._jobs) <= MAX_RESULTS and size <= MAX_RESULT_BYTES:
                return
            size -= job.size
            del self._jobs[job.number]
            if self._keys.get(job.key) is job:
                del self._keys[job.key]
