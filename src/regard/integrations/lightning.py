"""Attention statistics in Lightning's Trainer: Trainer(callbacks=[LightningMonitor(every=100)])."""

from typing import Any

from ..core.errors import lacking
from ..recording.monitor.monitor import Monitor

try:
    from lightning.pytorch import Callback
except (ImportError, RuntimeError):  # a torchvision of another torch
    try:
        from pytorch_lightning import Callback  # type: ignore[assignment]
    except (ImportError, RuntimeError) as error:
        raise lacking("LightningMonitor", "lightning", "train") from error


class LightningMonitor(Callback):
    """`regard.Monitor` as a callback of Lightning's Trainer; with Monitor's arguments except the model.

    log   by default the loggers of the Trainer

    Steps are those of Lightning's `global_step`. Only the first of several processes monitors. `monitor` has the
    history during and after training.
    """

    def __init__(self, every: int = 100, rows: int = 64, *, log: Any = None, **options: Any):
        self._given, self._log = dict(options, every=every, rows=rows), log
        self.monitor = Monitor(None, **self._given, log=log)
        self._begun: int | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.monitor.stop()
        if not trainer.is_global_zero:
            return
        log = self._log if self._log is not None else list(trainer.loggers)
        self.monitor = Monitor(pl_module, **self._given, log=log)
        self.monitor.start(trainer.global_step, listen_now=False)
        self._begun = None

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if trainer.is_global_zero and self._begun is None:
            self._begun = trainer.global_step
            self.monitor.begin_step(self._begun)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self._begun is not None and trainer.global_step > self._begun:
            self.monitor.end_step()
            self._begun = None

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.monitor.finish()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.monitor.stop()
