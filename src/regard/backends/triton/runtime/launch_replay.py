"""Records the allocations and launches of a call and replays them.

To work out the arguments of launches takes the processor longer than a GPU takes for a small problem, and they follow
from the shapes of the tensors and the numbers of a call alone. The second call with a key is recorded on a tape; later
ones allocate what it allocated and launch what it launched, with addresses of their own.

A tape holds what `alloc` gave, what `Launched` launched and what `record_op` computed. A function whose kernels read,
or that returns, what anything else made is not recorded: it runs as it is.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.core.caches.lru_cache import LruCache

from . import fast_launcher, triton_private
from .fast_launcher import ALIGNMENT, current_tape, recording
from .triton_private import INTERPRETED, DirectLauncher

CAPACITY = 4096  # tapes of a function
PART_ALIGNMENT = 512  # bytes of which parts of a memory take whole numbers, as those of torch do
Place = tuple[int, int]  # a tensor's number, in the order in which a call meets them, and bytes from its start


class Launch(NamedTuple):
    """A kernel on its grid; places are those of its arguments that are tensors."""

    kernel: DirectLauncher
    arguments: list[Any]
    places: list[tuple[int, Place]]


class Step(NamedTuple):
    """What torch computes; places are those of the arguments that are tensors, `result` is the number of the result."""

    function: Callable[..., Tensor]
    arguments: list[Any]
    places: list[tuple[int, int]]
    result: int


class ReplayResult(tuple[Tensor, ...]):
    """The results of a replayed call, and its tape."""

    tape: "Tape"


class Tape:
    """What one call allocated, launched and computed. None of its tensors is held when it ends."""

    def __init__(self, backward: "LaunchReplay | None" = None) -> None:
        self.backward = backward  # what runs the gradient
        self.backward_tape: tuple[Tape, list[tuple[int, ...]]] | None = None  # and the strides of its tensors
        self.tensors: list[Tensor] = []
        self.offsets: list[int] = []  # of the arguments from where a kernel may read much at once
        self.allocations: list[tuple[int, Any, torch.dtype, bool]] = []
        self.parts: list[Place] = []  # of one memory, what kernels alone meet: numbers, and bytes from its start
        self.memory_bytes = 0
        self.steps: list[Launch | Step] = []
        self.count = 0
        self.returned: list[int] = []
        self.replayable = True  # so far
        self.complete = False  # a call that failed is not replayed

    def record(self, function: Callable[..., Sequence[Tensor]], arguments: tuple[Any, ...]) -> Sequence[Tensor]:
        """Runs a call and records it."""
        # One tensor that is given twice is two here: a later call may give two.
        apart = [x.detach() if isinstance(x, Tensor) else x for x in arguments]
        self.tensors = [x for x in apart if isinstance(x, Tensor)]
        self.offsets = [x.data_ptr() % ALIGNMENT for x in self.tensors]
        before, recording.tape = current_tape(), self
        try:
            results = function(*apart)
        finally:
            recording.tape = before
        self.returned = [self.number(x) for x in results]
        launched = any(isinstance(step, Launch) for step in self.steps)
        self._share_memory()
        self.complete, self.count, self.tensors = self.replayable and launched, len(self.tensors), []
        return results

    def _share_memory(self) -> None:
        """Gives what kernels alone meet one memory: to allocate takes the processor as long as to launch."""
        operands = {number for step in self.steps if isinstance(step, Step) for _, number in step.places}
        apart = [each for each in self.allocations if each[0] in operands or each[0] in self.returned or each[3]]
        for each in self.allocations:
            if each not in apart:
                self.parts.append((each[0], self.memory_bytes))
                self.memory_bytes += -(-self.tensors[each[0]].nbytes // PART_ALIGNMENT) * PART_ALIGNMENT
        self.allocations = apart

    def record_alloc(self, x: Tensor, zero: bool) -> None:
        self.allocations.append((len(self.tensors), tuple(x.shape), x.dtype, zero))
        self.tensors.append(x)

    def record_op(self, function: Callable[..., Tensor], arguments: tuple[Any, ...], result: Tensor) -> None:
        if not any(result is x for x in arguments):  # else nothing was computed
            places = [(at, self.number(x)) for at, x in enumerate(arguments) if isinstance(x, Tensor)]
            self.steps.append(Step(function, _blank(arguments, places), places, len(self.tensors)))
            self.tensors.append(result)

    def record_launch(
        self, compiled: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: list[Any], reusable: bool
    ) -> None:
        self.replayable = self.replayable and reusable
        places = [(at, self.place(x)) for at, x in enumerate(arguments) if isinstance(x, Tensor)]
        self.steps.append(Launch(DirectLauncher(compiled, grid), _blank((*arguments, *constants), places), places))

    def number(self, x: Tensor) -> int:
        number = next((number for number, one in enumerate(self.tensors) if x is one), -1)
        self.replayable = self.replayable and number >= 0
        return number

    def place(self, x: Tensor) -> Place:
        """Which tensor x is, or the only one that it is a part of."""
        start = x.untyped_storage().data_ptr()
        owners = [i for i, one in enumerate(self.tensors) if one.untyped_storage().data_ptr() == start]
        if len(owners) == 1:
            return owners[0], x.data_ptr() - self.tensors[owners[0]].data_ptr()
        return self.number(x), 0

    def replay(self, inputs: list[Tensor]) -> ReplayResult | None:
        """The same with other tensors; None where they start elsewhere, for which kernels are compiled apart, or lie on
        a device that is not current."""
        pointers, device = [x.data_ptr() for x in inputs], inputs[0].device
        if not self.complete or [x % ALIGNMENT for x in pointers] != self.offsets or not _current(device):
            return None
        more = [0] * (self.count - len(inputs))
        tensors: list[Any] = inputs + more
        pointers += more
        stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
        if self.memory_bytes:
            memory = torch.empty(self.memory_bytes, dtype=torch.uint8, device=device)
            start = memory.data_ptr()
            for number, offset in self.parts:
                pointers[number] = start + offset
        for number, shape, dtype, zero in self.allocations:
            tensors[number] = x = (torch.zeros if zero else torch.empty)(shape, dtype=dtype, device=device)
            pointers[number] = x.data_ptr()
        hooked = triton_private.has_launch_hooks()
        for step in self.steps:
            arguments = step.arguments.copy()
            if isinstance(step, Launch):
                for at, (number, offset) in step.places:
                    arguments[at] = pointers[number] + offset
                step.kernel.launch(stream, arguments, hooked)
            else:
                for at, number in step.places:
                    arguments[at] = tensors[number]
                tensors[step.result] = x = step.function(*arguments)
                pointers[step.result] = x.data_ptr()
        results = ReplayResult([tensors[number] for number in self.returned])
        results.tape = self
        return results

    def replay_backward(self, inputs: list[Tensor]) -> ReplayResult | None:
        """The gradient of this call, from its tensors, its results and their gradient. Where the strides are those of
        the call that was linked, so is the key, and need not be made. None where there is no such call."""
        if self.backward_tape is None or [x.stride() for x in inputs] != self.backward_tape[1]:
            return None
        return self.backward_tape[0].replay(inputs)

    def link_backward(self, arguments: tuple[Any, ...]) -> None:
        """The gradient of this call is the one with these arguments."""
        tape = None if self.backward is None else self.backward.tapes.get(_key(arguments))
        if tape is not None and tape.complete:
            self.backward_tape = tape, [x.stride() for x in arguments if isinstance(x, Tensor)]


def _blank(arguments: tuple[Any, ...], places: "list[tuple[int, Any]]") -> list[Any]:
    """Arguments without the tensors."""
    blank = list(arguments)
    for at, _ in places:
        blank[at] = None
    return blank


class LaunchReplay:
    """A function of tensors, numbers and None, by position, that gives tensors and looks into none of them."""

    def __init__(self, function: Callable[..., Sequence[Tensor]]):
        self.function = function
        self.tapes: LruCache[tuple[Any, ...], Tape] = LruCache(CAPACITY)
        self.backward: LaunchReplay | None = None

    def __call__(self, *arguments: Any) -> Sequence[Tensor]:
        if not fast_launcher.enabled():
            return self.function(*arguments)
        key = _key(arguments)
        tape = self.tapes.get(key)
        if tape is None:
            if not self.tapes.admits(key):
                return self.function(*arguments)
            tape = Tape(self.backward)
            self.tapes.put(key, tape)
            return tape.record(self.function, arguments)
        results = tape.replay([x for x in arguments if isinstance(x, Tensor)])
        return self.function(*arguments) if results is None else results


def _key(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a call allocates and launches follows from this; of where its tensors start `replay` asks."""
    return (
        *[(x.shape, x.stride(), x.dtype, x.get_device()) if isinstance(x, Tensor) else x for x in arguments],
        *map(type, arguments),
        *triton_private.compile_settings(),
    )


def _current(device: torch.device) -> bool:
    return device.type != "cuda" or device.index == torch.cuda.current_device()


def replayed(function: Callable[..., Any]) -> Callable[..., Any]:
    """@replayed over a function that launches kernels."""
    return function if INTERPRETED else LaunchReplay(function)


def gradient_of(forward: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """@gradient_of(run) over a function of run's arguments, those of its results that are saved, and their gradient."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        backward = replayed(function)
        if isinstance(forward, LaunchReplay) and isinstance(backward, LaunchReplay):
            forward.backward = backward
        return backward

    return decorate


def alloc(
    shape: "int | tuple[int, ...]", device: torch.device, dtype: torch.dtype = torch.float32, zero: bool = False
) -> Tensor:
    """Memory that a call allocates: nothing in it yet, or zeros."""
    x = (torch.zeros if zero else torch.empty)(shape, dtype=dtype, device=device)
    tape = current_tape()
    if tape is not None:
        tape.record_alloc(x, zero)
    return x


def record_op(function: Callable[..., Tensor], *arguments: Any) -> Tensor:
    """function(*arguments), which torch computes from tensors and numbers: no tensor may hide in the function."""
    result = function(*arguments)
    tape = current_tape()
    if tape is not None:
        tape.record_op(function, arguments, result)
    return result
