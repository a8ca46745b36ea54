"""One trial: a task, a variant and a seed become numbers. The same code for every engine.

This file imports nothing of Regard and nothing heavy, so that a worker of light tasks starts at once; a task brings
what it needs with it. Job and outcome are plain JSON.
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

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, the quota, the limit of a file
TRIVIAL = "trivial baselines"  # the trial that has what is reached without any of this
TOLD = ("options", "budget", "folder", "device", "devices", "precision", "threads", "records", "board")  # to its task
PACKAGES = ("regard", "torch", "numpy", "lightning", "torch_geometric", "scikit-learn")

Job = dict[str, Any]
Outcome = dict[str, Any]


@dataclass
class Setting:
    """What a task is told beside the variant and the seed.

    options   of the task, as the specification has them
    budget    steps or epochs, the same for every variant
    folder    where it may keep files: what a trial that is run again finds is what it left there
    tell      tell(share, note): how far it is, 0 to 1, for those who watch
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
    tell: Callable[[float, str], None] = lambda share, note: None


def run(job: Job, tell: Callable[[float, str], None] = lambda share, note: None) -> Outcome:
    """The outcome of a job: numbers and what they were reached with, or {"error": ...}. It never raises."""
    began = time.perf_counter()
    try:
        forget_peak()
        with importable(job.get("modules")):
            function = find(job["call"], job.get("modules"))
            seed_all(job["seed"])
            told = {name: job[name] for name in TOLD if name in job}
            setting = Setting(**told, judges=tuple(job["judges"]), tell=tell)
            found = tidy(function(job["variant"], job["seed"], setting))
    except Exception as problem:
        full = isinstance(problem, OSError) and problem.errno in FULL
        wanting = isinstance(problem, ModuleNotFoundError) or getattr(problem, "wanting", False)
        return {
            "error": f"{type(problem).__name__}: {problem}",
            "trace": traceback.format_exc()[-8000:],
            "full": full,
            "wanting": wanting,
        }
    return (
        {"seconds": time.perf_counter() - began}
        | found
        | {"peak": peak_memory(), "versions": versions(), "hardware": hardware(job["threads"])}
    )


@contextmanager
def importable(folder: str | None) -> Iterator[None]:
    """Modules of a folder can be imported meanwhile, after all others: none of them takes the place of a package."""
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
    """The function that "module:function" names; "trivial" is here. folder: where its module may stand."""
    if call == "trivial":
        return trivial
    module, _, name = call.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if folder is None or missing.name is None or missing.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise ModuleNotFoundError(
            f"No module named {missing.name!r} is installed, nor does one stand in {folder}", name=missing.name
        ) from missing
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError:
        where = getattr(sys.modules[module], "__file__", None) or "Python itself"
        mine = None if folder is None else os.path.join(folder, *module.split(".")) + ".py"
        hint = "write that function there"
        if mine is not None and os.path.isfile(mine) and not _same_file(mine, where):
            hint = f"{mine} has the name of a module that is installed, so give it another"
        raise AttributeError(f"the task {call!r}: the module {module} ({where}) has no {name!r}; {hint}.") from None
    return found


def _same_file(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def trivial(variant: str, seed: int, setting: Setting) -> dict[str, float]:
    """A task that costs nothing, for measuring what a study itself costs: numbers that follow from its arguments.

    options   milliseconds: how long it waits; work: how long it computes instead
    """
    draw = random.Random(f"{variant} {seed}")
    time.sleep(float(setting.options.get("milliseconds", 0)) / 1000)
    until = time.thread_time() + float(setting.options.get("work", 0)) / 1000
    while time.thread_time() < until:
        draw.random()
    return {"score": random.Random(f"{variant} {seed}").random()}


def tidy(found: Any) -> Outcome:
    """A task may return numbers by name alone, or those with scores and more; None and NaN are undefined.

    seconds   what it took without loading, where a task knows; the whole trial unless given
    """
    if not isinstance(found, Mapping):
        raise TypeError(f"the task returned {type(found).__name__}, expected numbers by name: {{'accuracy': 0.9}}.")
    if "numbers" not in found:
        found = {"numbers": found}
    strange = set(found) - {"numbers", "scores", "lengths", "parameters", "findings", "notes", "trivial", "seconds"}
    if strange:
        raise ValueError(f"the task returned {sorted(strange)[0]!r} beside its numbers, which no result has.")
    made = dict(found)
    made["numbers"] = {str(name): number(name, value) for name, value in found["numbers"].items()}
    made["scores"] = {str(name): [float(x) for x in values] for name, values in found.get("scores", {}).items()}
    return made


def number(name: str, value: Any) -> float | None:
    if value is None or math.isnan(value):
        return None
    if math.isinf(value):
        raise ValueError(f"{name} is {value}: the model did not learn, or the measure divides by nothing.")
    return float(value)


def seed_all(seed: int) -> None:
    """Whatever draws globally, of what is loaded: a warm process must not hand on its draws to the next trial."""
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def forget_peak() -> None:
    """Begin the peak of memory anew, where the system knows how (Linux)."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized():
        sys.modules["torch"].cuda.reset_peak_memory_stats()


def peak_memory() -> dict[str, int]:
    """Bytes: of this process since the trial began (where that cannot be told, since it started), of the GPU."""
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
