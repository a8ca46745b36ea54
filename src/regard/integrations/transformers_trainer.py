"""Attention statistics in transformers' Trainer: Trainer(..., callbacks=[TrainerMonitor(every=100)])."""

import os
from typing import Any

from ..core.errors import lacking
from ..recording.monitor.monitor import Monitor
from ..recording.pretrained import hide_broken_torchvision

hide_broken_torchvision()
try:
    from transformers import TrainerCallback
except ImportError as error:
    raise lacking("TrainerMonitor", "transformers", "models") from error


class TrainerMonitor(TrainerCallback):
    """`regard.Monitor` as a callback of transformers' Trainer; with Monitor's arguments except the model.

    log   by default where the Trainer reports to (`report_to`): a TensorBoard folder next to its own
          (output_dir/runs/attention), the run of Weights & Biases or of MLflow that it has opened

    A step's number is the count of previous updates. Only the first of several processes monitors. `monitor` has the
    history during and after training.
    """

    def __init__(self, every: int = 100, rows: int = 64, *, log: Any = None, **options: Any):
        self._given, self._log = dict(options, every=every, rows=rows), log
        self.monitor = Monitor(None, **self._given, log=log)

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.monitor.stop()  # of a training that failed
        if not state.is_world_process_zero:
            return
        log = self._log if self._log is not None else reported_to(args)
        self.monitor = Monitor(given.get("model"), **self._given, log=log)
        self.monitor.start(state.global_step, listen_now=False)

    def on_step_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if state.is_world_process_zero:
            self.monitor.begin_step(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.monitor.end_step()

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.monitor.finish()


def reported_to(args: Any) -> list[Any]:
    """Logger targets for the open loggers that the Trainer reports to."""
    where: list[Any] = []
    names = args.report_to or []
    names = [names] if isinstance(names, str) else names
    if "tensorboard" in names:
        folder = os.environ.get("TENSORBOARD_LOGGING_DIR") or os.path.join(args.output_dir, "runs")
        where.append(f"tensorboard:{os.path.join(folder, 'attention')}")
    if "wandb" in names:
        import wandb

        where += [] if wandb.run is None else [wandb.run]
    if "mlflow" in names:
        import mlflow

        where += [] if mlflow.active_run() is None else [mlflow]
    return where
