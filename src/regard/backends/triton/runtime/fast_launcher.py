"""Cheap launches: what Triton finds out about a call is cached by the types of its arguments.

Triton types every argument of every launch, looks the kernel up by them, compares the globals that it was compiled with
and asks the driver about each pointer: with seventy arguments that is longer than a small problem takes on a GPU. Here
a call whose arguments have the types of one before goes to the compiled kernel at once, with pointers that are numbers.
"""

import threading
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from regard.core import fast_path
from regard.core.caches.lru_cache import LruCache

from . import triton_private
from .device_support import untested_triton
from .triton_private import INTERPRETED

INT32_END = 1 << 31  # a whole number from here on is of another type to Triton
OPTIONS = {"enable_fp_fusion": True}  # x y + z in one instruction: Triton 3.9 warns where nobody says so, 3.10 stops
ALIGNMENT = 16  # memory and numbers that are multiples of it have code of their own, and so has the number 1
recording = threading.local()  # .tape: what records launches (launch_replay)


def enabled() -> bool:
    """Whether launches skip Triton's own launcher and may be replayed."""
    return fast_path.enabled and untested_triton() is None


def current_tape() -> Any:
    return getattr(recording, "tape", None)


def launched(kernel: Any) -> Any:
    """@launched over @triton.jit: kernel[grid](*arguments, **constants), on the device of the tensors."""
    return kernel if INTERPRETED else Launched(kernel)


def plainly(kernel: Any) -> Any:
    """kernel[grid], launched by Triton itself and never replayed: of arguments that are tuples of tensors."""
    return _Plainly(kernel.kernel) if isinstance(kernel, Launched) else kernel


class _Plainly:
    def __init__(self, kernel: Any):
        self.kernel = kernel

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., Any]:
        def launch(*arguments: Any, **constants: Any) -> None:
            tape, device = current_tape(), arguments[0].get_device()
            if tape is not None:
                tape.replayable = False
            if device >= 0 and device != torch.cuda.current_device():
                with torch.cuda.device(device):
                    self.kernel[grid](*arguments, **constants, **OPTIONS)
            else:
                self.kernel[grid](*arguments, **constants, **OPTIONS)

        return launch


class Launched:
    """A kernel whose arguments are given by position, tensors always in the same places, and constants by name."""

    def __init__(self, kernel: Any):
        self.kernel = kernel
        self.ready: LruCache[tuple[Any, ...], tuple[Any, list[Any]]] = LruCache()  # compiled, constants in their order
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
        if not enabled():
            self.kernel[grid](*arguments, **constants, **OPTIONS)
            return None
        pointers = [x.data_ptr() for x in tensors]
        special = [2 if x == 1 else x % ALIGNMENT == 0 for x in special_of(arguments)]
        key = (
            device,
            *[x.dtype for x in tensors],
            *[x % ALIGNMENT == 0 for x in pointers],
            *map(type, numbers),
            *special,
            *constants.items(),
            *triton_private.compile_settings(),
        )
        entry = self.ready.get(key)
        small = max(numbers, default=0) < INT32_END and min(numbers, default=0) >= -INT32_END
        reusable = small and len(devices) == 1
        whole_grid = (*grid, 1, 1)[:3]
        if entry is not None and reusable:
            compiled, last = entry
            triton_private.launch(compiled, whole_grid, (*in_order((*pointers, *numbers)), *last))
        else:
            compiled = self.kernel[grid](*arguments, **constants, **OPTIONS)
            last = triton_private.constants_in_order(self.kernel, constants)
            if reusable:
                self.ready.put(key, (compiled, last))
        tape = current_tape()
        if tape is not None:
            tape.record_launch(compiled, whole_grid, arguments, last, reusable)
        return (compiled, last) if reusable else None

    def _sort(self, arguments: tuple[Any, ...]) -> tuple[Callable[[Any], Sequence[Any]], ...]:
        """Readers of the tensors, the numbers and those of them that Triton looks into; and one that puts them back."""
        tensors = [i for i, x in enumerate(arguments) if isinstance(x, Tensor)]
        numbers = [i for i, x in enumerate(arguments) if not isinstance(x, Tensor)]
        special = [i for i in numbers if triton_private.specializes(self.kernel, i)]
        after = sorted(range(len(arguments)), key=(tensors + numbers).__getitem__)
        self.places = tuple(map(_reader, (tensors, numbers, special, after)))
        return self.places


class BoundKernel:
    """A kernel over tensors and constants that stay the same, launched for other results: kernel(*tensors, result,
    *numbers). Nothing may be compiled for the numbers that change."""

    def __init__(self, kernel: Any, tensors: Sequence[Tensor], constants: dict[str, Any]):
        self.kernel, self.tensors, self.constants = kernel, tensors, constants
        self.compiled: Any = None  # with its constants, for results that are aligned
        self.pointers = [x.data_ptr() for x in tensors]

    def __call__(self, grid: tuple[int, int, int], result: Tensor, numbers: Sequence[float]) -> None:
        address, device = result.data_ptr(), result.get_device()
        elsewhere = device >= 0 and device != torch.cuda.current_device()
        if self.compiled is None or address % ALIGNMENT or elsewhere:
            entry = self.kernel[grid](*self.tensors, result, *numbers, **self.constants)
            self.compiled = self.compiled if address % ALIGNMENT else entry
        else:
            compiled, last = self.compiled
            triton_private.launch(compiled, grid, (*self.pointers, address, *numbers, *last))


def _reader(places: list[int]) -> Callable[[Any], Sequence[Any]]:
    if len(places) > 1:
        return itemgetter(*places)
    return lambda arguments: [arguments[i] for i in places]
