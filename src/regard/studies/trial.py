"""One trial: run the function of a task for a variant and a seed. The same code on every engine.

This file imports nothing of Regard and nothing heavy, so that workers start fast; a task imports what it needs. Job and
outcome are plain JSON.
"""

import errno
import importlib
import math
import os
import platform
import random
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no space, quota exceeded, file too large
TRIVIAL = "trivial baselines"  # the trial that measures these, named as a variant
SETTING_KEYS = (
    "options",
    "budget",
    "folder",
    "device",
    "devices",
    "precision",
    "threads",
    "records",
    "board",
    "hyper",
    "match",
    "tunes",
)
ENTRIES = {
    "numbers",
    "scores",
    "lengths",
    "parameters",
    "findings",
    "notes",
    "trivial",
    "seconds",
    "validation",
    "curve",
    "width",
}
PACKAGES = ("regard", "torch", "numpy", "lightning", "torch_geometric", "scikit-learn")

Job = dict[str, Any]
Outcome = dict[str, Any]


@dataclass
class Setting:
    """What the function of a task gets beside the variant and the seed.

    options   of the task, from the specification
    budget    steps or epochs, the same for every variant
    folder    for checkpoints and other files; kept for retries
    hyper     hyperparameters from tuning; others keep the task's defaults
    match     {"by": a width among the hyperparameters, "baseline": the variant whose parameter count to match,
              "hyper": its tuned configuration, or that of this trial}
    tunes     whether this is a tuning trial, of which only the validation metric is used
    report    report(share, note): progress, 0 to 1, for the progress bars
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=dict)
    folder: str | None = None
    device: str = "cpu"
    devices: int = 1
    precision: str = "32-true"
    threads: int = 1
    judges: tuple[str, ...] = ()
    records: int = 0
    board: bool = False
    hyper: Mapping[str, Any] = field(default_factory=dict)
    match: Mapping[str, Any] = field(default_factory=dict)
    tunes: bool = False
    report: Callable[[float, str], None] = lambda share, note: None


def run(job: Job, report: Callable[[float, str], None] = lambda share, note: None) -> Outcome:
    """The outcome of a job: metrics, time, memory, versions; or {"error": ...}. Never raises."""
    began = time.perf_counter()
    try:
        reset_peak_memory()
        with importable(job.get("modules")):
            function = find(job["call"], job.get("modules"))
            seed_all(job["seed"])
            entries = {name: job[name] for name in SETTING_KEYS if name in job}
            setting = Setting(**entries, judges=tuple(job["judges"]), report=report)
            result = normalised(function(job.get("of", job["variant"]), job["seed"], setting))
    except Exception as problem:
        full = isinstance(problem, OSError) and problem.errno in FULL
        missing = isinstance(problem, ModuleNotFoundError) or getattr(problem, "missing_requirement", False)
        return {
            "error": f"{type(problem).__name__}: {problem}",
            "trace": traceback.format_exc()[-8000:],
            "full": full,
            "missing_requirement": missing,
        }
    return (
        {"seconds": time.perf_counter() - began}
        | result
        | {"peak": peak_memory(), "versions": versions(), "hardware": hardware(job["threads"])}
    )


@contextmanager
def importable(folder: str | None) -> Iterator[None]:
    """Append a folder to sys.path for the time of the context: its modules cannot shadow installed packages."""
    if folder is None:
        yield
        return
    sys.path.append(folder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        with suppress(ValueError):  # the task may have changed the path
            del sys.path[len(sys.path) - 1 - sys.path[::-1].index(folder)]


def find(call: str, folder: str | None = None) -> Callable[..., Any]:
    """The function "module:function"; folder: where its module may be. "trivial" is defined here."""
    if call == "trivial":
        return trivial
    module, _, name = call.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if (current := _moved(call)) is not None:
            return current
        if folder is None or missing.name is None or missing.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise ModuleNotFoundError(
            f"No module named {missing.name!r} is installed, nor is one in {folder}", name=missing.name
        ) from missing
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError:
        where = getattr(sys.modules[module], "__file__", None) or "Python itself"
        own = None if folder is None else os.path.join(folder, *module.split(".")) + ".py"
        hint = "define the function there"
        if own is not None and os.path.isfile(own) and not _same_file(own, where):
            hint = f"{own} has the name of an installed module: rename it"
        raise AttributeError(f"the task {call!r}: the module {module} ({where}) has no {name!r}; {hint}.") from None
    return found


def _moved(call: str) -> Callable[..., Any] | None:
    """The function of a stored study that has moved to another module; None if no plugin declares the move."""
    moved = importlib.import_module("regard.data.registry").MOVED  # by name: a worker has this file alone
    if call not in moved:
        return None
    function: Callable[..., Any] = moved[call]
    return function


def _same_file(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def trivial(variant: str, seed: int, setting: Setting) -> dict[str, float]:
    """A deterministic task that computes nothing, for measuring the overhead of a study.

    options   milliseconds: how long it sleeps; work: how many milliseconds it computes
    """
    draw = random.Random(f"{variant} {seed}")
    time.sleep(float(setting.options.get("milliseconds", 0)) / 1000)
    until = time.thread_time() + float(setting.options.get("work", 0)) / 1000
    while time.thread_time() < until:
        draw.random()
    return {"score": random.Random(f"{variant} {seed}").random()}


def normalised(found: Any) -> Outcome:
    """The result of a task in its full form: metrics by name, or {"numbers": metrics, "scores": ...}; NaN becomes None.

    seconds      the time without loading data, if the task measures it; by default that of the whole trial
    validation   the first metric on the validation part, used by tuning
    curve        that metric by epoch or step
    width        the value of a matched hyperparameter
    """
    if not isinstance(found, Mapping):
        raise TypeError(f"the task returned {type(found).__name__}, expected metrics by name: {{'accuracy': 0.9}}.")
    if "numbers" not in found:
        found = {"numbers": found}
    unknown = set(found) - ENTRIES
    if unknown:
        raise ValueError(f"the task returned the entry {sorted(unknown)[0]!r}, which a result cannot have.")
    result = dict(found)
    result["numbers"] = {str(name): number(name, value) for name, value in found["numbers"].items()}
    if "validation" in found:
        result["validation"] = number("validation", found["validation"])
    result["scores"] = {str(name): [float(x) for x in values] for name, values in found.get("scores", {}).items()}
    return result


def number(name: str, value: Any) -> float | None:
    if value is None or math.isnan(value):
        return None
    if math.isinf(value):
        raise ValueError(f"{name} is {value}: training diverged, or the metric divides by zero.")
    return float(value)


def seed_all(seed: int) -> None:
    """Seed the global generators of all loaded libraries: worker processes run many trials."""
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def reset_peak_memory() -> None:
    """Reset the peak memory counters (of the process on Linux only)."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized():
        sys.modules["torch"].cuda.reset_peak_memory_stats()


def peak_memory() -> dict[str, int]:
    """Peak memory in bytes, of the process and the GPU, since the reset; without one, since the process started."""
    found = {"process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)}
    try:
        with open("/proc/self/status") as file:
            lines = [line.split() for line in file if line.startswith("VmHWM")]
        found["process"] = int(lines[0][1]) * 1024
    except (OSError, IndexError, ValueError):
        pass
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized():
        found["gpu"] = int(sys.modules["torch"].cuda.max_memory_allocated())
    return found


_versions: dict[str, str] = {}


def versions() -> dict[str, str]:
    if not _versions:
        _versions["python"] = platform.python_version()
        for name in PACKAGES:
            try:
                _versions[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                continue
    return dict(_versions)


def hardware(threads: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "host": platform.node(),
        "machine": platform.machine(),
        "system": platform.system(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": threads,
    }
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized():
        found["gpu"] = sys.modules["torch"].cuda.get_device_name()
    return found


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
