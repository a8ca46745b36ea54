"""The trainer: any model and objective, on any devices; stopped and gone on with, the result is the same."""

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

from .devices import fabric_of
from .objectives import Objective
from .train_config import Trained, Training
from .train_loop import TrainingState


@dataclass
class Trainer:
    """Trains a model in place and leaves it with the weights of the best epoch.

    device, devices, precision   cpu, cuda, cuda:1; how many processes (DDP); 32-true, bf16-mixed, 16-mixed
    folder     where the checkpoint (last.safetensors) and history.csv are kept; with one that is there already,
               training goes on from it, bit for bit as if it had never stopped (same device, versions, threads)
    board      also write TensorBoard's files into the folder
    hear       called with (epoch, step, steps, numbers so far), for a progress bar
    optimise   function(model) -> optimiser; AdamW at the rate and decay of `training` unless given. `training` sets
               the rate of each step in any case
    together   how many examples are looked at together while choosing, at least; a measure of them all, such as AUC,
               needs them in one batch
    earliest   the first epoch, from 1, that may be kept where there are more

    Each epoch's order and draws follow from (seed, epoch), so that an epoch can be run again alone. The caller's random
    numbers are left alone.
    """

    training: Training
    device: str = "cpu"
    devices: int = 1
    precision: str = "32-true"
    folder: "str | Path | None" = None
    board: bool = False
    hear: Callable[[int, int, int, dict[str, float]], None] | None = None
    optimise: Callable[[nn.Module], torch.optim.Optimizer] | None = None
    together: int = 32
    earliest: int = 1

    def fit(
        self, model: nn.Module, objective: Objective, train: Sequence[Example], val: Sequence[Example], seed: int = 0
    ) -> Trained:
        if not train or not val:
            raise ValueError(f"fit(): {len(train)} examples to train and {len(val)} to choose by; both need some.")
        fabric = fabric_of(self.device, self.devices, self.precision)
        if self.devices > 1:
            hear, self.hear = self.hear, None  # a bar cannot go into other processes
            try:
                with _by_name():
                    work = partial(_spread, trainer=self, train=list(train), val=list(val), seed=seed)
                    found, state = fabric.launch(work, model, objective)
            finally:
                self.hear = hear
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
            return run.through()


@contextmanager
def _by_name() -> Iterator[None]:
    """Tensors go to other processes by the name of their memory: otherwise each holds a file open."""
    before = torch.multiprocessing.get_sharing_strategy()
    torch.multiprocessing.set_sharing_strategy("file_system")
    try:
        yield
    finally:
        torch.multiprocessing.set_sharing_strategy(before)


def _spread(
    fabric: Any,
    model: nn.Module,
    objective: Objective,
    trainer: Trainer,
    train: Sequence[Example],
    val: Sequence[Example],
    seed: int,
) -> tuple[Trained, dict[str, np.ndarray]]:
    """What each process does; the weights go back as arrays, since a tensor's memory would end with its process."""
    found = trainer.run(fabric, model, objective, train, val, seed)
    return found, {name: x.cpu().numpy() for name, x in model.state_dict().items()}
