"""One logger for the places where people keep their curves: CSV, TensorBoard, Weights & Biases, MLflow."""

import csv
import io
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from regard.core.errors import lacking

from .alarms import Alarm
from .head_statistics import COLUMNS, HeadStatistics

Sites = Mapping[str, HeadStatistics]
HEADER = ("step", "site", "head", *COLUMNS)


class Target(Protocol):
    """Where statistics go."""

    def write(self, step: int, sites: Sites, alarms: Sequence[Alarm]) -> None:
        """The statistics of one step, and the alarms that it raised."""

    def close(self) -> None:
        """Nothing more will come."""


class Logger:
    """Writes the statistics of a Monitor to every target that it is given.

        Logger("attention.csv", "tensorboard:runs/1", wandb.run)

    "name.csv"             a line for each step, site and head, on the disk as soon as the step was looked at
    "tensorboard:folder"   scalars for each site: a mean over its heads, the largest logit, dead heads, duplicates
    "wandb:project"        the same, as a run of Weights & Biases
    "mlflow:experiment"    the same, as a run of MLflow
    objects                a SummaryWriter, a run of Weights & Biases, the module mlflow, a logger of Lightning: what is
                           yours stays open when the monitor ends
    heads                  also a curve for each head, which are many
    """

    def __init__(self, *targets: Any, heads: bool = False):
        self.targets: list[Target] = [_target(target, heads) for target in targets]

    def write(self, step: int, sites: Sites, alarms: Sequence[Alarm] = ()) -> None:
        """The statistics of one step, by site."""
        for target in self.targets:
            target.write(step, sites, alarms)

    def close(self) -> None:
        for target in self.targets:
            target.close()


class CsvTarget:
    """A line for each step, site and head. A file that is there is continued; a line that a kill tore is cut off."""

    def __init__(self, path: "str | os.PathLike[str]"):
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = not self.path.exists() or self.path.stat().st_size == 0
        if not fresh:
            _mend(self.path)
            with self.path.open(encoding="utf-8", newline="") as file:
                header = tuple(next(csv.reader(file), ()))
            fresh = not header
            if header and header != HEADER:
                raise ValueError(
                    f"{self.path} has the columns {', '.join(header[:4])}, ...: it was not written by this version of "
                    "regard.Monitor. Give another file."
                )
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        if fresh:
            self._append([HEADER])

    def write(self, step: int, sites: Sites, alarms: Sequence[Alarm]) -> None:
        self._append(rows_of(step, sites))

    def _append(self, rows: Sequence[Sequence[Any]]) -> None:
        """All lines of a step by one call of the system."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        left = memoryview(text.getvalue().encode())
        while left:
            left = left[os.write(self._file, left) :]

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _mend(path: Path) -> None:
    """Cut off what follows the last end of a line."""
    with path.open("r+b") as file:
        raw = file.read()
        if not raw.endswith(b"\n"):
            file.truncate(raw.rfind(b"\n") + 1)


def rows_of(step: int, sites: Sites) -> list[list[Any]]:
    """The lines of one step: step, site, head and the columns, empty where one has no meaning."""
    made: list[list[Any]] = []
    for site, seen in sites.items():
        columns = [getattr(seen, name).tolist() for name in COLUMNS]
        for head in range(seen.heads):
            numbers = ["" if math.isnan(x := column[head]) else f"{x:.6g}" for column in columns]
            made.append([step, site, head, *numbers])
    return made


def scalars_of(site: str, seen: HeadStatistics, heads: bool = False) -> dict[str, float]:
    """The curves of one site: a mean over its heads, the extremes that matter, and counts."""
    made = {}
    for name in ("entropy", "relative", "effective", "sink", "distance"):
        column = getattr(seen, name)
        made[f"{name}"] = float(column.nanmean())
    made["entropy_lowest_head"] = float(seen.entropy.nan_to_num(math.inf).min())
    made["max_logit"] = float(seen.max_logit.nan_to_num(-math.inf).max())
    made["gradient_largest_share"] = float(seen.gradient.nan_to_num(-math.inf).max())
    made["dead_heads"], made["duplicate_heads"] = float(len(seen.dead)), float(len(seen.duplicates))
    if heads:
        for name in COLUMNS:
            made |= {f"{name}/head_{h}": x for h, x in enumerate(getattr(seen, name).tolist())}
    return {f"attention/{site}/{name}": x for name, x in made.items() if math.isfinite(x)}


class ScalarTarget:
    """Curves by name: `send(values, step)` puts them where they belong, `say(text, step)` a sentence."""

    def __init__(
        self,
        send: Callable[[dict[str, float], int], Any],
        say: "Callable[[str, int], Any] | None" = None,
        end: "Callable[[], Any] | None" = None,
        heads: bool = False,
    ):
        self._send, self._say, self._end, self._heads = send, say, end, heads

    def write(self, step: int, sites: Sites, alarms: Sequence[Alarm]) -> None:
        values: dict[str, float] = {}
        for site, seen in sites.items():
            values |= scalars_of(site, seen, self._heads)
        self._send(values, step)
        if self._say is not None:
            for alarm in alarms:
                self._say(alarm.says, step)

    def close(self) -> None:
        if self._end is not None:
            self._end()
            self._end = None


def _target(target: Any, heads: bool) -> Target:
    if isinstance(target, (str, os.PathLike)):
        kind, colon, name = str(target).partition(":")
        if colon and kind in _OPENERS:
            return _OPENERS[kind](name, heads)
        if str(target).endswith(".csv"):
            return CsvTarget(target)
        kinds = ", ".join(f'"{kind}:..."' for kind in _OPENERS)
        raise ValueError(f'log={str(target)!r}: expected a file "name.csv", or {kinds}, or a logger of yours.')
    if hasattr(target, "write") and hasattr(target, "close") and not hasattr(target, "read"):
        made: Target = target
        return made
    if hasattr(target, "add_scalar"):
        return _tensorboard(target, heads, close=False)
    if hasattr(target, "log_metrics") and not hasattr(target, "log_metric"):  # a logger of Lightning
        return ScalarTarget(lambda values, step: target.log_metrics(values, step=step), heads=heads)
    if hasattr(target, "log_metrics"):  # the module mlflow
        return _mlflow(target, heads, None)
    if hasattr(target, "log") and type(target).__module__.split(".")[0] == "wandb":
        return _wandb(target, heads, None)
    raise TypeError(
        f'log= got {type(target).__name__}, expected a file "name.csv", "tensorboard:folder", "wandb:project", '
        '"mlflow:experiment", a SummaryWriter, a run of wandb, the module mlflow, or a logger of Lightning.'
    )


def _tensorboard(writer: Any, heads: bool, close: bool) -> ScalarTarget:
    def send(values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return ScalarTarget(
        send, lambda text, step: writer.add_text("attention/alarms", text, step), writer.close if close else None, heads
    )


def _open_tensorboard(folder: str, heads: bool) -> ScalarTarget:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise lacking(f'log="tensorboard:{folder}"', "tensorboard", "train") from error
    return _tensorboard(SummaryWriter(folder or None), heads, close=True)


def _wandb(run: Any, heads: bool, end: "Callable[[], Any] | None") -> ScalarTarget:
    axis = "attention/step"  # wandb's own step may only grow, and others log by it too
    run.define_metric(axis)
    run.define_metric("attention/*", step_metric=axis)
    return ScalarTarget(
        lambda values, step: run.log({**values, axis: step}),
        lambda text, step: run.alert(title="attention", text=text) if not getattr(run, "offline", False) else None,
        end,
        heads,
    )


def _open_wandb(project: str, heads: bool) -> ScalarTarget:
    try:
        import wandb
    except ImportError as error:
        raise ModuleNotFoundError(
            f'log="wandb:{project}" needs wandb, which is not installed: pip install wandb.', name="wandb"
        ) from error
    run = wandb.init(project=project or None)
    return _wandb(run, heads, run.finish)


def _mlflow(module: Any, heads: bool, end: "Callable[[], Any] | None") -> ScalarTarget:
    def say(text: str, step: int) -> None:
        module.set_tag(f"attention.alarm.{step}", text)

    return ScalarTarget(lambda values, step: module.log_metrics(values, step=step), say, end, heads)


def _open_mlflow(experiment: str, heads: bool) -> ScalarTarget:
    try:
        import mlflow
    except ImportError as error:
        raise ModuleNotFoundError(
            f'log="mlflow:{experiment}" needs mlflow, which is not installed: pip install mlflow.', name="mlflow"
        ) from error
    if experiment:
        mlflow.set_experiment(experiment)
    own = mlflow.active_run() is None
    if own:
        mlflow.start_run()
    return _mlflow(mlflow, heads, mlflow.end_run if own else None)


_OPENERS = {"tensorboard": _open_tensorboard, "wandb": _open_wandb, "mlflow": _open_mlflow}
