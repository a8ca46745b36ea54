"""The trainer: any model and objective, on any devices; a resumed run gives the same bits as an uninterrupted one."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.data.batch import Example
from regard.recording.monitor.monitor import Monitor

from .devices import fabric_of
from .objectives import Objective
from .train_config import Trained, Training
from .train_loop import TrainingState


@dataclass
class Trainer:
    """Trains a model in place; afterwards it has the weights of the best epoch.

    device, devices, precision   cpu, cuda, cuda:1; number of processes (DDP); 32-true, bf16-mixed, 16-mixed
    folder     for the checkpoint (last.safetensors) and history.csv; training resumes from a checkpoint that is there,
               with the same bits as without the interruption (on the same device, versions, threads)
    board      also write TensorBoard logs into the folder
    on_step    callback(epoch, step, steps, metrics), for a progress bar
    optimise   function(model) -> optimiser; by default AdamW with the weight decay of `training`, which sets the
               learning rate of each step in any case
    monitor    a regard.Monitor, whose model is set: attention statistics while it trains, on one device
    together   minimum batch size in validation; a metric such as AUC needs all examples in one batch
    earliest   the first epoch, from 1, that may be selected as the best

    The order and the random numbers of an epoch depend on (seed, epoch) alone. The global random state is restored.
    """

    training: Training
    device: str = "cpu"
    devices: int = 1
    precision: str = "32-true"
    folder: "str | Path | None" = None
    board: bool = False
    on_step: Callable[[int, int, int, dict[str, float]], None] | None = None
    optimise: Callable[[nn.Module], torch.optim.Optimizer] | None = None
    together: int = 32
    earliest: int = 1
    monitor: Monitor | None = None

    def fit(
        self, model: nn.Module, objective: Objective, train: Sequence[Example], val: Sequence[Example], seed: int = 0
    ) -> Trained:
        if not train or not val:
            raise ValueError(
                f"fit(): {len(train)} training and {len(val)} validation examples; expected at least one of each."
            )
        if self.monitor is not None and self.devices > 1:
            raise ValueError(
                f"Trainer(monitor=..., devices={self.devices}): a monitor works in one process only. Use one "
                "device, or leave monitor= out."
            )
        fabric = fabric_of(self.device, self.devices, self.precision)
        if self.devices > 1:
            on_step, self.on_step = self.on_step, None  # a callback cannot be sent to other processes
            try:
                with _shared_by_file_name():
                    work = partial(_ddp_process, trainer=self, train=list(train), val=list(val), seed=seed)
                    found, state = fabric.launch(work, model, objective)
            finally:
                self.on_step = on_step
            model.load_state_dict({name: torch.from_numpy(x) for name, x in state.items()})
            return found
        return self.run(fabric, model, objective, train, val, seed)

    def run(
        self,
        fabric: Any,
        model: nn.Module,
        objective: Objective,
        train: Sequence[Example],
        val: Sequence[Example],
        seed: int,
    ) -> Trained:
        cuda = [fabric.device] if fabric.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda):
            run = TrainingState(self, fabric, model, objective, train, val, seed)
            return run.fit()


@contextmanager
def _shared_by_file_name() -> Iterator[None]:
    """Share tensors with other processes by file name: by descriptor, each tensor holds a file open."""
    before = torch.multiprocessing.get_sharing_strategy()
    torch.multiprocessing.set_sharing_strategy("file_system")
    try:
        yield
    finally:
        torch.multiprocessing.set_sharing_strategy(before)


def _ddp_process(
    fabric: Any,
    model: nn.Module,
    objective: Objective,
    trainer: Trainer,
    train: Sequence[Example],
    val: Sequence[Example],
    seed: int,
) -> tuple[Trained, dict[str, np.ndarray]]:
    """One DDP process; weights are returned as arrays, since shared tensor memory ends with its process."""
    found = trainer.run(fabric, model, objective, train, val, seed)
    return found, {name: x.cpu().numpy() for name, x in model.state_dict().items()}
