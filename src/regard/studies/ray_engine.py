"""The engine `ray`: the same workers as the local engine, each held by an actor somewhere in a cluster."""

import json
import os
from typing import Any

from ..core.errors import lacking
from .engine import Engine, Event
from .local_engine import LocalEngine
from .trial import Job


class Hand:
    """Lives on some node and has one worker process there: what goes to it and comes back is JSON text."""

    def __init__(self, threads: int, path: str):
        os.environ["PYTHONPATH"] = path
        self.engine = LocalEngine(1, threads)
        self.share: dict[str, Any] = {}

    def run(self, text: str) -> str:
        self.engine.submit(0, json.loads(text))
        while True:
            for event in self.engine.wait(60.0):
                if event.kind != "told":
                    return json.dumps({"kind": event.kind, "data": event.data})
                self.share = event.data

    def told(self) -> str:
        return json.dumps(self.share)


class OnRay(Engine):
    """workers: how many trials at a time; as many as the cluster's cores (or GPUs) allow unless given.

    address   of a running cluster ("auto", "host:6379", "ray://host:10001"); a cluster of this machine unless given
    A node that dies takes its trials with it: they are lost, and wait to be claimed again.
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
        self.ours = not self.ray.is_initialized()
        if self.ours:
            self.ray.init(address, log_to_driver=False, include_dashboard=False if address is None else None)
        self.threads, self.gpus = threads, devices * (device == "cuda")
        self.cores = threads * devices
        there = self.ray.cluster_resources()
        room = int(there.get("GPU", 0)) // self.gpus if self.gpus else int(there.get("CPU", 1)) // self.cores
        self.slots = workers or room
        if not self.slots:
            need = f"{self.gpus} GPUs" if self.gpus else f"{self.cores} cores"
            raise ValueError(f"No node of this Ray cluster has {need} for a trial; it has {dict(there)}.")
        self.hands: dict[int, Any] = {}
        self.running: dict[Any, int] = {}
        self.told: dict[int, Any] = {}

    def submit(self, slot: int, job: Job) -> None:
        if slot not in self.hands:
            path = os.environ.get("PYTHONPATH", "")
            kind = self.ray.remote(num_cpus=self.cores, num_gpus=self.gpus, max_restarts=0, max_concurrency=2)(Hand)
            self.hands[slot] = kind.remote(self.threads, path)
        self.running[self.hands[slot].run.remote(json.dumps(job))] = slot

    def wait(self, seconds: float) -> list[Event]:
        for slot in set(self.hands) - set(self.running.values()):
            self._drop(slot)  # nothing is left for it: its core may be what another waits for since a node is gone
        ready, _ = self.ray.wait(list(self.running), timeout=seconds, num_returns=1)
        made = [self._ended(reference) for reference in ready]
        return made if made else self._progress()

    def _ended(self, reference: Any) -> Event:
        slot = self.running.pop(reference)
        try:
            found = json.loads(self.ray.get(reference))
        except self.ray.exceptions.RayError as problem:
            self._drop(slot)
            return Event(slot, "lost", {"why": f"{type(problem).__name__}: {str(problem)[:500]}", "node": True})
        return Event(slot, found["kind"], found["data"])

    def _progress(self) -> list[Event]:
        """What those that are running said; nobody is waited for."""
        made = []
        for slot in self.running.values():
            if slot not in self.told:
                self.told[slot] = self.hands[slot].told.remote()
        ready, _ = self.ray.wait(list(self.told.values()), timeout=0, num_returns=max(1, len(self.told)))
        for slot, reference in [(slot, one) for slot, one in self.told.items() if one in ready]:
            del self.told[slot]
            try:
                said = json.loads(self.ray.get(reference))
            except self.ray.exceptions.RayError:
                continue  # the job itself tells that its worker is gone
            if said and slot in self.running.values():
                made.append(Event(slot, "told", said))
        return made

    def _drop(self, slot: int) -> None:
        hand = self.hands.pop(slot, None)
        self.told.pop(slot, None)
        if hand is not None:
            self.ray.kill(hand)

    def close(self) -> None:
        for slot in list(self.hands):
            self._drop(slot)
        self.running.clear()
        if self.ours:
            self.ray.shutdown()


def _ray() -> Any:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # a trial without GPUs leaves CUDA's list alone
    try:
        import ray
    except ModuleNotFoundError as missing:
        raise lacking("engine='ray'", "ray", "ray") from missing
    return ray
