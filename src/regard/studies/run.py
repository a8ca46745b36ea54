"""A study from its specification to its table: where it is kept, and which engine runs it."""

from pathlib import Path
from typing import TYPE_CHECKING

from .aggregate import collect
from .database import FILE
from .engine import Engine
from .local_engine import LocalEngine
from .results import Results
from .runner import BEAT, SILENT, Runner, RunnerCallbacks
from .trial_store import Store

if TYPE_CHECKING:
    from .specification import Study

ENGINES = ("local", "ray")


def folder_for(study: str) -> Path:
    """Where a study is kept unless one says where: a folder of its name."""
    return Path(f"{study}-study")


def store_of(out: Path, store: str | None = None, create: bool = False, patience: float = 120.0) -> Store:
    """The store that was named, or the file in the study's folder."""
    return Store(store or out / FILE, patience, create)


def engine_of(name: str, study: "Study", workers: int | None, address: str | None, logs: Path | None) -> Engine:
    if name not in ENGINES:
        raise ValueError(f"engine={name!r}: expected one of {', '.join(ENGINES)}.")
    if name == "local":
        if address is not None:
            raise ValueError("address= is that of a Ray cluster: it goes with engine='ray'.")
        trials = len(study.jobs())
        engine = LocalEngine(workers, study.threads, study.device, logs, study.devices)
        engine.slots = min(engine.slots, trials)
        return engine
    from .ray_engine import OnRay

    return OnRay(workers, study.threads, study.device, address, study.devices)


def run(
    study: "Study",
    out: "str | Path | None" = None,
    *,
    store: str | None = None,
    workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    watch: RunnerCallbacks | None = None,
    again: bool = False,
    patience: float = 120.0,
    beat: float = BEAT,
    silent: float = SILENT,
) -> Results:
    """Run what is missing of a study and return its table, which says what is missing still.

    out       a folder for the store, checkpoints and records; <name>-study unless given
    store     a URL (postgresql://...) or a file, instead of out/store.sqlite
    workers   how many trials at a time; as many as the cores (or GPUs) allow unless given
    again     also try trials that had failed
    """
    out = Path(out) if out is not None else folder_for(study.name)
    out.mkdir(parents=True, exist_ok=True)
    kept = store_of(out, store, True, patience)
    try:
        kept.add(study.name, study.plain(), study.jobs())
        kept.cancel(study.name, False)
        if again:
            kept.reopen(study.name)
        chosen = engine_of(engine, study, workers, address, out)
        Runner(
            kept,
            study.name,
            chosen,
            out.resolve(),
            study.retries,
            beat,
            silent,
            Path(study.modules),
            watch or RunnerCallbacks(),
        ).run()
        return collect(kept, study)
    finally:
        kept.close()
