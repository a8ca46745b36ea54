"""Slow work beside the page: it is followed, waited for and stopped, and never holds up a request.

Each lane is one thread that does its jobs in order, so that a long one of one kind waits for no other kind.
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

from regard.recording.pretrained import NoModel

log = logging.getLogger("regard.serve")

WAITING = 64  # jobs that may wait in a lane
KEPT = 256  # results that are kept
ROOM = 256_000_000  # bytes of results that are kept
UNKNOWN = "Something went wrong here; the terminal in which regard serve runs has the details."


class Stopped(Exception):
    """Someone said that this need not go on."""


class Busy(Exception):
    """Too much is waiting already."""


class Job:
    """One piece of work. `done` of `of` steps are behind it; `says` is what it is doing."""

    def __init__(self, lane: str, key: tuple[Any, ...], says: str, work: "Callable[[Job], Any]"):
        self.number, self.lane, self.key, self.says, self.work = secrets.token_hex(8), lane, key, says, work
        self.state, self.done, self.of, self.size = "waiting", 0, 0, 0
        self.result: Any = None
        self.error = ""
        self.notes: list[str] = []
        self._stop = threading.Event()
        self._ended: Future[None] = Future()

    def check(self) -> None:
        """Raises where the work is to stop: called between steps."""
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
        except (ValueError, IndexError, KeyError, OSError, NoModel) as problem:  # what a reader can put right
            self.error = str(problem.args[0]) if isinstance(problem, KeyError) and problem.args else str(problem)
            self.state = "failed"
        except Exception:
            log.exception("%s failed", self.says)
            self.error, self.state = UNKNOWN, "failed"
        finally:
            del self.work  # and what it holds
            self._ended.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Until it has ended, or for some seconds; the event loop goes on."""
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
    """All jobs: those that wait and run, and the results of the last ones."""

    def __init__(self) -> None:
        self._lanes: dict[str, deque[Job]] = {}
        self._threads: list[threading.Thread] = []
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._keys: dict[Any, Job] = {}
        self._change = threading.Condition()
        self._closed = False

    def ask(self, lane: str, key: tuple[Any, ...], says: str, work: Callable[[Job], Any]) -> Job:
        """A job of this key that is there and was not stopped and did not fail, or a new one."""
        with self._change:
            if self._closed:
                raise Busy("The server is ending.")
            found = self._keys.get(key)
            if found is not None and found.state not in ("failed", "stopped") and not found._stop.is_set():
                self._jobs.move_to_end(found.number)
                return found
            if lane not in self._lanes:
                self._lanes[lane] = deque()
                thread = threading.Thread(target=self._work, args=(lane,), name=f"regard {lane}", daemon=True)
                self._threads.append(thread)
                thread.start()
            if len(self._lanes[lane]) >= WAITING:
                raise Busy(f"{WAITING} jobs are waiting already: wait for some of them, or stop them.")
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
        """Until nothing of a lane is waiting or running, or the job is to stop."""
        while any(other.lane == lane for other in self.active()):
            job.check()
            time.sleep(0.01)

    def close(self) -> None:
        """Stop everything; threads end after the step they are in, and what waited has ended too."""
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
        """The oldest results, where there are too many."""
        ended = [job for job in self._jobs.values() if job.ended]
        size = sum(job.size for job in ended)
        for job in ended:
            if len(self._jobs) <= KEPT and size <= ROOM:
                return
            size -= job.size
            del self._jobs[job.number]
            if self._keys.get(job.key) is job:
                del self._keys[job.key]
