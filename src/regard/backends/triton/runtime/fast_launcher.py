"""Launches that cost the processor little: what Triton finds out about a call is kept, and not found out again.

Triton types every argument of every launch, looks the kernel up by them, compares the globals that it was compiled with
and asks the driver about each pointer: with seventy arguments that is longer than a small problem takes on a GPU. Here
a call whose arguments are of known types goes to the compiled kernel at once, with pointers that are numbers.
"""

import threading
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import torch
import triton
from torch import Tensor

RUNTIME = triton.knobs.runtime
INTERPRETED = RUNTIME.interpret  # known when kernels are made
LARGE = 1 << 31  # a whole number that is of another type to Triton
current = threading.local()  # .tape: what writes launches down (triton_again)
OPTIONS = {"enable_fp_fusion": True}  # x y + z in one instruction: Triton 3.9 warns where nobody says so, 3.10 stops
APART = 16  # memory and numbers that are multiples of it have code of their own, and so has the number 1


def launched(kernel: Any) -> Any:
    """@launched over @triton.jit: kernel[grid](*arguments, **constants), on the device of the tensors."""
    return kernel if INTERPRETED else Launched(kernel)


def heard() -> bool:
    """Whether somebody, a profiler say, wants to be told of launches."""
    return any(getattr(hook, "calls", hook) for hook in (RUNTIME.launch_enter_hook, RUNTIME.launch_exit_hook))


class DirectLauncher:
    """A compiled kernel on its grid. Triton calls five functions of Python around a launch, most of them for those who
    listen to it; where nobody does, this is the one that launches."""

    def __init__(self, compiled: Any, grid: tuple[int, ...]):
        self.compiled, self.grid = compiled, grid
        self.run, self.with_handles = compiled.run, (compiled.function, compiled.packed_metadata, None, None, None)

    def launch(self, stream: int, arguments: Sequence[Any], told: bool) -> None:
        if told:
            self.compiled[self.grid](*arguments, stream=stream)
        else:
            self.run(*self.grid, stream, *self.with_handles, *arguments)


class Launched:
    """A kernel whose arguments are given by position, tensors always in the same places, and constants by name."""

    def __init__(self, kernel: Any):
        self.kernel = kernel
        self.ready: dict[tuple[Any, ...], tuple[Any, list[Any]]] = {}  # compiled, with its constants in their order
        self.places: tuple[Callable[[Any], Sequence[Any]], ...] = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kernel, name)

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., Any]:
        return lambda *arguments, **constants: self._launch(grid, arguments, constants)

    def _launch(self, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: dict[str, Any]) -> Any:
        """Launches; what is compiled and its constants, where these serve other addresses and numbers too."""
        tensors_of, numbers_of, special_of, in_order = self.places or self._sort(arguments)
        tensors, numbers = tensors_of(arguments), numbers_of(arguments)
        devices, device = set(map(Tensor.get_device, tensors)), tensors[0].get_device()
        if device >= 0 and device != torch.cuda.current_device():
            with torch.cuda.device(device):
                return self._launch(grid, arguments, constants)
        pointers = [x.data_ptr() for x in tensors]
        special = [2 if x == 1 else x % APART == 0 for x in special_of(arguments)]
        key = (
            device,
            *[x.dtype for x in tensors],
            *[x % APART == 0 for x in pointers],
            *map(type, numbers),
            *special,
            *constants.items(),
        )
        found = self.ready.get(key)
        small = max(numbers, default=0) < LARGE and min(numbers, default=0) >= -LARGE
        usual = small and len(devices) == 1
        if found is not None and usual:
            compiled, last = found
            compiled[(*grid, 1, 1)[:3]](*in_order((*pointers, *numbers)), *last)
        else:
            compiled = self.kernel[grid](*arguments, **constants, **OPTIONS)
            last = [constants[each.name] for each in self.kernel.params if each.is_constexpr]
            if usual:
                self.ready[key] = compiled, last
        tape = getattr(current, "tape", None)
        if tape is not None:
            tape.launch(compiled, (*grid, 1, 1)[:3], arguments, last, usual)
        return (compiled, last) if usual else None

    def _sort(self, arguments: tuple[Any, ...]) -> tuple[Callable[[Any], Sequence[Any]], ...]:
        """Readers of the tensors, the numbers and those of them that Triton looks into; and one that puts them back."""
        tensors = [i for i, x in enumerate(arguments) if isinstance(x, Tensor)]
        numbers = [i for i, x in enumerate(arguments) if not isinstance(x, Tensor)]
        special = [i for i in numbers if not self.kernel.params[i].do_not_specialize]
        after = sorted(range(len(arguments)), key=(tensors + numbers).__getitem__)
        self.places = tuple(map(_reader, (tensors, numbers, special, after)))
        return self.places


class Held:
    """A kernel over tensors and constants that stay the same, launched for other results: kernel(*tensors, result,
    *numbers). Nothing may be compiled for the numbers that change."""

    def __init__(self, kernel: Any, tensors: Sequence[Tensor], constants: dict[str, Any]):
        self.kernel, self.tensors, self.constants = kernel, tensors, constants
        self.found: Any = None
        self.pointers = [x.data_ptr() for x in tensors]

    def __call__(self, grid: tuple[int, int, int], result: Tensor, numbers: Sequence[float]) -> None:
        at, device = result.data_ptr(), result.get_device()
        if self.found is None or at % APART or (device >= 0 and device != torch.cuda.current_device()):
            found = self.kernel[grid](*self.tensors, result, *numbers, **self.constants)
            self.found = self.found if at % APART else found  # of results that are aligned
        else:
            compiled, last = self.found
            compiled[grid](*self.pointers, at, *numbers, *last)


def _reader(places: list[int]) -> Callable[[Any], Sequence[Any]]:
    if len(places) > 1:
        return itemgetter(*places)
    return lambda given: [given[i] for i in places]
