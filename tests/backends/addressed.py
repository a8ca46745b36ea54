"""Kernels of Triton's interpreter that are launched as compiled ones are: asked for once, then run at addresses."""

import ctypes
import sys

import torch
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from regard.backends.triton.runtime import fast_launcher
from regard.backends.triton.runtime.fast_launcher import Launched
from regard.backends.triton.runtime.launch_replay import LaunchReplay
from regard.core import fast_path


class Interpreted:
    """A kernel as `Launched` wants it: asked with tensors it is compiled, and then it is run with addresses."""

    def __init__(self, kernel):
        self.kernel, self.params = kernel, JITFunction(kernel.fn).params

    def __getitem__(self, grid):
        def compile(*arguments, **constants):
            self.kernel[grid](*arguments, **constants)  # options of the compiler among them, which it passes over
            return Compiled(self, arguments)

        return compile


class Compiled:
    """For tensors of the sizes that it was asked with."""

    function = packed_metadata = None

    def __init__(self, made, arguments):
        self.made, self.names = made, [each.name for each in made.params if each.is_constexpr or each.has_default]
        self.like = [(x.dtype, x.numel()) if isinstance(x, torch.Tensor) else None for x in arguments]

    def __getitem__(self, grid):
        return lambda *given, stream=None: self.run(*grid, stream, None, None, None, None, None, *given)

    def run(self, x, y, z, stream, function, metadata, told, enter, leave, *given):
        numbers, constants = given[: len(self.like)], given[len(self.like) :]
        tensors = [x if like is None else at(x, *like) for x, like in zip(numbers, self.like, strict=True)]
        self.made.kernel[x, y, z](*tensors, **dict(zip(self.names, constants, strict=True)))


def at(address, dtype, numel):
    """The memory there, as a tensor."""
    if not numel:
        return torch.empty(0, dtype=dtype)
    return torch.frombuffer((ctypes.c_byte * (numel * dtype.itemsize)).from_address(address), dtype=dtype)


def addressed(monkeypatch, launches):
    """Launches as on a GPU: its `run` and `run_back` are replayed, and all kernels are launched with addresses.

    Returns both.
    """
    monkeypatch.setattr(torch.cuda, "current_device", lambda: -1)  # what tensors of a CPU say
    monkeypatch.setattr(fast_path, "enabled", True)
    monkeypatch.setattr(fast_launcher, "untested_triton", lambda: None)
    made = {}
    for name, module in list(sys.modules.items()):
        if not name.startswith("regard.backends.triton."):
            continue
        for each, kernel in list(vars(module).items()):
            if isinstance(kernel, InterpretedFunction) and each.endswith("_kernel"):
                if kernel not in made:
                    made[kernel] = Launched(Interpreted(kernel))
                monkeypatch.setattr(module, each, made[kernel])
    run, back = LaunchReplay(launches.run), LaunchReplay(launches.run_back)
    run.backward = back
    monkeypatch.setattr(launches, "run", run)
    monkeypatch.setattr(launches, "run_back", back)
    return run, back
