"""The local engine: a pool of worker processes on this machine, each with its share of the cores or GPUs."""

import contextlib
import json
import os
import selectors
import subprocess
import sys
from pathlib import Path
from typing import Any

from .engine_interface import Engine, Event
from .trial import Job

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS")


def available_cores() -> int:
    """The cores that this process may use (its CPU affinity)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpu_count() -> int:
    import torch

    return torch.cuda.device_count()


class _Worker:
    """One worker process; jobs, progress and outcomes are lines of JSON on its pipes."""

    def __init__(self, environment: dict[str, str], log: Path | None):
        with open(log, "ab") if log is not None else contextlib.nullcontext(subprocess.DEVNULL) as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-P", str(Path(__file__).with_name("worker.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                start_new_session=True,  # Ctrl-C reaches the runner alone, which then terminates its workers
            )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self.buffer = b""

    def send(self, job: Job) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the process died: reading its output reports that
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()

    def receive(self) -> list[dict[str, Any]] | None:
        """The messages since the last call; None if the process died."""
        assert self.process.stdout is not None
        try:
            data = os.read(self.process.stdout.fileno(), 1 << 20)
        except BlockingIOError:
            return []
        if not data:
            return None
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def kill(self) -> int:
        """Kill the process; returns its exit status."""
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        return self.process.wait()


class LocalEngine(Engine):
    """A pool of worker processes; each runs many trials.

    workers   concurrent trials; by default the cores divided by the threads of a trial, or the number of GPUs

    On GPUs, worker i sees GPU i modulo their number alone (with devices=2, two of them).
    """

    def __init__(
        self,
        workers: int | None = None,
        threads: int = 1,
        device: str = "cpu",
        logs: Path | None = None,
        devices: int = 1,
    ):
        self.gpus = gpu_count() if device == "cuda" else 0
        if device == "cuda" and not self.gpus:
            raise ValueError('device = "cuda": this machine has no GPU that torch can use; write device = "cpu".')
        if self.gpus and devices > self.gpus:
            raise ValueError(f"devices = {devices}: this machine has {self.gpus} GPUs; write a smaller number.")
        self.slots = workers or self.gpus // devices or max(1, available_cores() // (threads * devices))
        self.threads, self.logs, self.devices = threads, logs, devices
        self.workers: dict[int, _Worker] = {}
        self.busy: set[int] = set()
        self.selector = selectors.DefaultSelector()

    def submit(self, slot: int, job: Job) -> None:
        if slot not in self.workers:
            self._start(slot)
        self.busy.add(slot)
        self.workers[slot].send(job)

    def _start(self, slot: int) -> None:
        environment = dict(os.environ) | dict.fromkeys(THREADS, str(self.threads))
        if "PYTHONPATH" in environment:  # an empty entry, as in "$PYTHONPATH:/more", would be the current folder
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, environment["PYTHONPATH"].split(os.pathsep)))
        if self.gpus:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
            names = [name for name in visible.split(",") if name] or [str(gpu) for gpu in range(self.gpus)]
            first = slot % (self.gpus // self.devices) * self.devices
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(names[first : first + self.devices])
        log = None if self.logs is None else self.logs / f"worker-{slot}.log"
        worker = self.workers[slot] = _Worker(environment, log)
        assert worker.process.stdout is not None
        self.selector.register(worker.process.stdout, selectors.EVENT_READ, slot)

    def wait(self, seconds: float) -> list[Event]:
        events: list[Event] = []
        for key, _ in self.selector.select(seconds):
            slot = key.data
            messages = self.workers[slot].receive()
            if messages is None:
                events += self._lost(slot)
                continue
            for one in messages:
                if "outcome" in one:
                    self.busy.discard(slot)
                    events.append(Event(slot, "ended", one["outcome"]))
                elif "share" in one:
                    events.append(Event(slot, "progress", one))
        return events

    def _lost(self, slot: int) -> list[Event]:
        worker = self.workers.pop(slot)
        assert worker.process.stdout is not None
        self.selector.unregister(worker.process.stdout)
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(5)  # it closed its output: the exit status follows soon
        status = worker.kill()
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
            worker.kill()
        self.busy.clear()
        self.selector.close()
