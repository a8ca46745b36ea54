"""Training devices: Lightning Fabric, or a single torch device if Fabric is not installed."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.errors import lacking


class OneDevice:
    """A stand-in for Fabric: one process in full precision, with the same bits."""

    world_size, global_rank, is_global_zero = 1, 0, True

    def __init__(self, device: str):
        self.device = torch.device(device)

    def launch(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(self, *arguments)

    def setup(self, module: nn.Module, optimiser: Any) -> tuple[nn.Module, Any]:
        return module, optimiser

    def backward(self, loss: Tensor) -> None:
        loss.backward()

    def all_reduce(self, x: Tensor, reduce_op: str = "sum") -> Tensor:
        return x

    def clip_gradients(self, module: nn.Module, optimiser: Any, max_norm: float, error_if_nonfinite: bool) -> None:
        nn.utils.clip_grad_norm_(module.parameters(), max_norm, error_if_nonfinite=error_if_nonfinite)

    def barrier(self) -> None:
        pass

    @contextmanager
    def no_backward_sync(self, module: nn.Module, enabled: bool = True) -> Iterator[None]:
        yield

    def autocast(self) -> Any:
        return torch.autocast(self.device.type, enabled=False)


def fabric_of(device: str = "cpu", devices: int = 1, precision: str = "32-true") -> Any:
    """Fabric for a device (cpu, cuda, cuda:1), or for several of its kind; one process each (DDP).

    Without Lightning: OneDevice for one device in full precision, otherwise an error that says what to install.
    """
    try:
        Fabric, DDP = _fabric()
    except ModuleNotFoundError as missing:
        if devices == 1 and precision == "32-true":
            return OneDevice(device)
        raise lacking(f"devices={devices}, precision={precision!r}", "lightning", "train") from missing
    kind = torch.device(device)
    if devices > 1 and kind.index is not None:
        raise ValueError(f"device={device!r} names one device, but devices={devices}: write device={kind.type!r}.")
    selected: Any = [kind.index] if kind.index is not None else devices
    # with uniform weights the parameters of the score get no gradient
    strategy = DDP(start_method="spawn", find_unused_parameters=True) if devices > 1 else "auto"
    return Fabric(accelerator=kind.type, devices=selected, precision=precision, strategy=strategy)


def _fabric() -> tuple[Any, Any]:
    """Fabric and its DDP, from whichever of Lightning's two packages is installed."""
    for name in ("lightning.fabric", "lightning_fabric", "lightning.pytorch.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        found = import_module("lightning.fabric")
    except ModuleNotFoundError:
        found = import_module("lightning_fabric")
    return found.Fabric, import_module(f"{found.__name__}.strategies").DDPStrategy
