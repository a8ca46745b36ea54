"""The local engine: warm processes on this machine, each with its share of the cores or a GPU of its own."""

import contextlib
import json
import os
import selectors
import subprocess
import sys
from pathlib import Path
from typing import Any

from .engine import Engine, Event
from .trial import Job

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS")


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus() -> int:
    import torch

    return torch.cuda.device_count()


class _Worker:
    """One process; lines of JSON go in and come out."""

    def __init__(self, environment: dict[str, str], log: Path | None):
        with open(log, "ab") if log is not None else contextlib.nullcontext(subprocess.DEVNULL) as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-P", str(Path(__file__).with_name("worker.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                start_new_session=True,  # an interrupt is for the runner, which then ends its workers
            )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self.rest = b""

    def give(self, job: Job) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is gone, and its output says so
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()

    def take(self) -> list[dict[str, Any]] | None:
        """What it has said since; None when it is gone."""
        assert self.process.stdout is not None
        try:
            found = os.read(self.process.stdout.fileno(), 1 << 20)
        except BlockingIOError:
            return []
        if not found:
            return None
        *lines, self.rest = (self.rest + found).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self) -> int:
        """Its exit status."""
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        return self.process.wait()


class LocalEngine(Engine):
    """workers: how many trials at a time; the cores divided by the threads of a trial unless given, or the GPUs.

    A worker takes many trials. On GPUs, worker i sees the GPU i modulo their number (with devices=2 two of them), and
    no other.
    """

    def __init__(
        self,
        workers: int | None = None,
        threads: int = 1,
        device: str = "cpu",
        logs: Path | None = None,
        devices: int = 1,
    ):
        self.cards = gpus() if device == "cuda" else 0
        if device == "cuda" and not self.cards:
            raise ValueError('device = "cuda": this machine has no GPU that torch can use; say device = "cpu".')
        if self.cards and devices > self.cards:
            raise ValueError(f"devices = {devices}: this machine has {self.cards} GPUs; say so many or fewer.")
        self.slots = workers or self.cards // devices or max(1, cores() // (threads * devices))
        self.threads, self.logs, self.devices = threads, logs, devices
        self.workers: dict[int, _Worker] = {}
        self.busy: set[int] = set()
        self.selector = selectors.DefaultSelector()

    def submit(self, slot: int, job: Job) -> None:
        if slot not in self.workers:
            self._start(slot)
        self.busy.add(slot)
        self.workers[slot].give(job)

    def _start(self, slot: int) -> None:
        environment = dict(os.environ) | dict.fromkeys(THREADS, str(self.threads))
        if "PYTHONPATH" in environment:  # an empty entry, as in "$PYTHONPATH:/more", would be the current folder
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, environment["PYTHONPATH"].split(os.pathsep)))
        if self.cards:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
            names = [name for name in visible.split(",") if name] or [str(card) for card in range(self.cards)]
            first = slot % (self.cards // self.devices) * self.devices
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(names[first : first + self.devices])
        log = None if self.logs is None else self.logs / f"worker-{slot}.log"
        worker = self.workers[slot] = _Worker(environment, log)
        assert worker.process.stdout is not None
        self.selector.register(worker.process.stdout, selectors.EVENT_READ, slot)

    def wait(self, seconds: float) -> list[Event]:
        made: list[Event] = []
        for key, _ in self.selector.select(seconds):
            slot = key.data
            said = self.workers[slot].take()
            if said is None:
                made += self._gone(slot)
                continue
            for one in said:
                if "outcome" in one:
                    self.busy.discard(slot)
                    made.append(Event(slot, "ended", one["outcome"]))
                elif "share" in one:
                    made.append(Event(slot, "told", one))
        return made

    def _gone(self, slot: int) -> list[Event]:
        worker = self.workers.pop(slot)
        assert worker.process.stdout is not None
        self.selector.unregister(worker.process.stdout)
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(5)  # it closed its output: how it ended is about to be known
        status = worker.end()
        how = f"by signal {-status}" if status < 0 else f"with status {status}"
        if slot not in self.busy:
            return []
        self.busy.discard(slot)
        return [Event(slot, "lost", {"why": f"the worker process ended {how}"})]

    def close(self) -> None:
        for slot in list(self.workers):
            worker = self.workers.pop(slot)
            assert worker.process.stdout is not None
            self.selector.unregister(worker.process.stdout)
            worker.end()
        self.busy.clear()
        self.selector.close()
