"""The Ray engine: the workers of the local engine, each owned by an actor on a node of the cluster."""

import json
import os
from typing import Any

from ..core.errors import lacking
from .engine_interface import Engine, Event
from .local_engine import LocalEngine
from .trial import Job


class RayWorker:
    """A Ray actor with one worker process on its node; jobs and outcomes travel as JSON."""

    def __init__(self, threads: int, path: str):
        os.environ["PYTHONPATH"] = path
        self.engine = LocalEngine(1, threads)
        self.latest: dict[str, Any] = {}

    def run(self, text: str) -> str:
        self.engine.submit(0, json.loads(text))
        while True:
            for event in self.engine.wait(60.0):
                if event.kind != "progress":
                    return json.dumps({"kind": event.kind, "data": event.data})
                self.latest = event.data

    def progress(self) -> str:
        return json.dumps(self.latest)


class RayEngine(Engine):
    """Runs trials on the nodes of a Ray cluster.

    workers   concurrent trials; by default as many as the cluster's cores (or GPUs) allow
    address   of a running cluster ("auto", "host:6379", "ray://host:10001"); by default one is started on this machine

    The trials of a node that dies are lost, and requeued.
    """

    def __init__(
        self,
        workers: int | None = None,
        threads: int = 1,
        device: str = "cpu",
        address: str | None = None,
        devices: int = 1,
    ):
        self.ray: Any = _ray()
        self.owns_cluster = not self.ray.is_initialized()
        if self.owns_cluster:
            self.ray.init(address, log_to_driver=False, include_dashboard=False if address is None else None)
        self.threads, self.gpus = threads, devices * (device == "cuda")
        self.cores = threads * devices
        resources = self.ray.cluster_resources()
        capacity = (
            int(resources.get("GPU", 0)) // self.gpus if self.gpus else int(resources.get("CPU", 1)) // self.cores
        )
        self.slots = workers or capacity
        if not self.slots:
            need = f"{self.gpus} GPUs" if self.gpus else f"{self.cores} cores"
            raise ValueError(f"No node of this Ray cluster has {need} for a trial; it has {dict(resources)}.")
        self.actors: dict[int, Any] = {}
        self.running: dict[Any, int] = {}
        self.polled: dict[int, Any] = {}

    def submit(self, slot: int, job: Job) -> None:
        if slot not in self.actors:
            path = os.environ.get("PYTHONPATH", "")
            actor_class = self.ray.remote(num_cpus=self.cores, num_gpus=self.gpus, max_restarts=0, max_concurrency=2)(
                RayWorker
            )
            self.actors[slot] = actor_class.remote(self.threads, path)
        self.running[self.actors[slot].run.remote(json.dumps(job))] = slot

    def wait(self, seconds: float) -> list[Event]:
        for slot in set(self.actors) - set(self.running.values()):
            self._drop(slot)  # no job is left for it: after a node was lost, another actor may be waiting for its core
        ready, _ = self.ray.wait(list(self.running), timeout=seconds, num_returns=1)
        events = [self._ended(reference) for reference in ready]
        return events if events else self._progress()

    def _ended(self, reference: Any) -> Event:
        slot = self.running.pop(reference)
        try:
            found = json.loads(self.ray.get(reference))
        except self.ray.exceptions.RayError as problem:
            self._drop(slot)
            return Event(slot, "lost", {"why": f"{type(problem).__name__}: {str(problem)[:500]}", "node": True})
        return Event(slot, found["kind"], found["data"])

    def _progress(self) -> list[Event]:
        """The latest progress of the running jobs, without blocking."""
        events = []
        for slot in self.running.values():
            if slot not in self.polled:
                self.polled[slot] = self.actors[slot].progress.remote()
        ready, _ = self.ray.wait(list(self.polled.values()), timeout=0, num_returns=max(1, len(self.polled)))
        for slot, reference in [(slot, one) for slot, one in self.polled.items() if one in ready]:
            del self.polled[slot]
            try:
                latest = json.loads(self.ray.get(reference))
            except self.ray.exceptions.RayError:
                continue  # the job's own result reports the lost worker
            if latest and slot in self.running.values():
                events.append(Event(slot, "progress", latest))
        return events

    def _drop(self, slot: int) -> None:
        actor = self.actors.pop(slot, None)
        self.polled.pop(slot, None)
        if actor is not None:
            self.ray.kill(actor)

    def close(self) -> None:
        for slot in list(self.actors):
            self._drop(slot)
        self.running.clear()
        if self.owns_cluster:
            self.ray.shutdown()


def _ray() -> Any:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # keep CUDA_VISIBLE_DEVICES
    try:
        import ray
    except ModuleNotFoundError as missing:
        raise lacking("engine='ray'", "ray", "ray") from missing
    return ray
