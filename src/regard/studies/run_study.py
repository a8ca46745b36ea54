"""Run a study: choose the folder, the store and the engine, run what is missing, aggregate the results."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .aggregate import collect
from .database import FILE
from .engine_interface import Engine
from .local_engine import LocalEngine
from .results import Results
from .trial import TRIVIAL
from .trial_runner import HEARTBEAT, LEASE_TIMEOUT, Runner, RunnerCallbacks
from .trial_store import Store
from .tuning import ENDED, choices, tuning_jobs

if TYPE_CHECKING:
    from .specification import Study

ENGINES = ("local", "ray")


def folder_for(study: str) -> Path:
    """The default folder of a study."""
    return Path(f"{study}-study")


def store_of(out: Path, store: str | None = None, create: bool = False, patience: float = 120.0) -> Store:
    """The store given by path or URL, else the file in the study's folder."""
    return Store(store or out / FILE, patience, create)


def engine_of(name: str, study: "Study", workers: int | None, address: str | None, logs: Path | None) -> Engine:
    if name not in ENGINES:
        raise ValueError(f"engine={name!r}: expected one of {', '.join(ENGINES)}.")
    if name == "local":
        if address is not None:
            raise ValueError("address= names a Ray cluster and needs engine='ray'.")
        trials = study.trial_count()
        engine = LocalEngine(workers, study.threads, study.device, logs, study.devices)
        engine.slots = min(engine.slots, trials)
        return engine
    from .ray_engine import RayEngine

    return RayEngine(workers, study.threads, study.device, address, study.devices)


def current_jobs(trials: Store, study: "Study") -> list[dict[str, Any]]:
    """The trials that can run now: tuning trials, and the others of each task and variant whose tuning is complete.

    The chosen configurations follow from the store, so every runner computes the same list.
    """
    if study.tuning is None:
        return study.jobs()
    tuning = tuning_jobs(study)
    stored = trials.trials(study.name, results=True) if study.name in trials.names() else []
    ended = {(one.task, one.variant, one.seed) for one in stored if one.status in ENDED}
    if any((job["task"], job["variant"], job["seed"]) not in ended for job in tuning):
        return tuning
    chosen = choices(study, stored)
    last = [job for job in study.jobs(chosen) if (job["task"], job["variant"]) in chosen or job["variant"] == TRIVIAL]
    return [*tuning, *last]


def _is_tuned(trials: Store, study: "Study") -> bool:
    """Whether the trials after tuning are in the store."""
    wanted = {(job["task"], job["variant"], job["seed"]) for job in current_jobs(trials, study)}
    return wanted <= {(one.task, one.variant, one.seed) for one in trials.trials(study.name)}


def run(
    study: "Study",
    out: "str | Path | None" = None,
    *,
    store: str | None = None,
    workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    callbacks: RunnerCallbacks | None = None,
    retry_failed: bool = False,
    patience: float = 120.0,
    heartbeat: float = HEARTBEAT,
    lease_timeout: float = LEASE_TIMEOUT,
) -> Results:
    """Run the trials of a study that are not done, and return its results, which list what is still missing.

    out            a folder for the store, checkpoints and records; by default <name>-study
    store          a URL (postgresql://...) or a file, instead of out/store.sqlite
    workers        concurrent trials; by default as many as the cores (or GPUs) allow
    retry_failed   also retry trials that have failed
    patience       seconds to keep retrying while the store is unavailable
    heartbeat      seconds between heartbeats; lease_timeout: seconds without one after which a lease expires
    """
    out = Path(out) if out is not None else folder_for(study.name)
    out.mkdir(parents=True, exist_ok=True)
    trials = store_of(out, store, True, patience)
    try:
        trials.add(study.name, study.plain(), current_jobs(trials, study))
        trials.cancel(study.name, False)
        if retry_failed:
            trials.reopen(study.name)

        def run_waiting() -> bool:
            return Runner(
                trials,
                study.name,
                engine_of(engine, study, workers, address, out),
                out.resolve(),
                study.retries,
                heartbeat,
                lease_timeout,
                Path(study.modules),
                callbacks or RunnerCallbacks(),
            ).run()

        if run_waiting() and study.tuning is not None and not _is_tuned(trials, study):
            trials.add(study.name, study.plain(), current_jobs(trials, study))
            run_waiting()
        return collect(trials, study)
    finally:
        trials.close()
