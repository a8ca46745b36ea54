"""Calls that cost the processor little: what one call allocates and launches is written down, and done again.

To work out the arguments of launches takes the processor longer than a GPU takes for a small problem, and they follow
from the shapes of the tensors and the numbers of a call alone. The second call of a kind is written down on a tape; the
later ones allocate what it allocated and launch what it launched, with addresses of their own.

A tape holds what `fresh` gave, what `Launched` launched and what `did` computed. A function whose kernels read, or that
returns, what anything else made is not written down: it runs as it is.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .fast_launcher import APART, INTERPRETED, DirectLauncher, current, heard

MOST = 4096  # kinds of calls that are kept
TOGETHER = 512  # bytes of which parts of a memory take whole numbers, as those of torch do
Place = tuple[int, int]  # a tensor's number, in the order in which a call meets them, and bytes from its start


class Launch(NamedTuple):
    """A kernel on its grid; places are those of its arguments that are tensors."""

    kernel: DirectLauncher
    arguments: list[Any]
    places: list[tuple[int, Place]]


class Step(NamedTuple):
    """What torch computes; places are those of the arguments that are tensors, `found` is the result's number."""

    function: Callable[..., Tensor]
    arguments: list[Any]
    places: list[tuple[int, int]]
    found: int


class ReplayResult(tuple[Tensor, ...]):
    """What a call gave that was done again, and what it was written on."""

    tape: "Tape"


class Tape:
    """What one call did. None of its tensors is kept when it ends."""

    def __init__(self, gradient: "LaunchReplay | None" = None) -> None:
        self.gradient = gradient  # what may follow
        self.after: tuple[Tape, list[tuple[int, ...]]] | None = None  # its tape, and the strides of its tensors
        self.tensors: list[Tensor] = []
        self.starts: list[int] = []  # how far those that were given start from where a kernel may read much at once
        self.made: list[tuple[int, Any, torch.dtype, bool]] = []
        self.parts: list[Place] = []  # of one memory, what kernels alone meet: numbers, and bytes from its start
        self.room = 0  # bytes of it
        self.steps: list[Launch | Step] = []
        self.count = 0
        self.returned: list[int] = []
        self.usual = True  # so far
        self.whole = False  # a call that failed is not played

    def written(self, function: Callable[..., Sequence[Tensor]], arguments: tuple[Any, ...]) -> Sequence[Tensor]:
        """Runs a call and writes it down."""
        # One tensor that is given twice is two here: a later call may give two.
        apart = [x.detach() if isinstance(x, Tensor) else x for x in arguments]
        self.tensors = [x for x in apart if isinstance(x, Tensor)]
        self.starts = [x.data_ptr() % APART for x in self.tensors]
        before, current.tape = getattr(current, "tape", None), self
        try:
            results = function(*apart)
        finally:
            current.tape = before
        self.returned = [self.number(x) for x in results]
        launched = any(isinstance(step, Launch) for step in self.steps)
        self._share()
        self.whole, self.count, self.tensors = self.usual and launched, len(self.tensors), []
        return results

    def _share(self) -> None:
        """Gives what kernels alone meet one memory: to allocate takes the processor as long as to launch."""
        met = {number for step in self.steps if isinstance(step, Step) for _, number in step.places}
        apart = [each for each in self.made if each[0] in met or each[0] in self.returned or each[3]]
        for each in self.made:
            if each not in apart:
                self.parts.append((each[0], self.room))
                self.room += -(-self.tensors[each[0]].nbytes // TOGETHER) * TOGETHER
        self.made = apart

    def fresh(self, x: Tensor, zero: bool) -> None:
        self.made.append((len(self.tensors), tuple(x.shape), x.dtype, zero))
        self.tensors.append(x)

    def did(self, function: Callable[..., Tensor], given: tuple[Any, ...], found: Tensor) -> None:
        if not any(found is x for x in given):  # else nothing was done
            places = [(at, self.number(x)) for at, x in enumerate(given) if isinstance(x, Tensor)]
            self.steps.append(Step(function, _blank(given, places), places, len(self.tensors)))
            self.tensors.append(found)

    def launch(
        self, compiled: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: list[Any], usual: bool
    ) -> None:
        self.usual = self.usual and usual
        places = [(at, self.place(x)) for at, x in enumerate(arguments) if isinstance(x, Tensor)]
        self.steps.append(Launch(DirectLauncher(compiled, grid), _blank((*arguments, *constants), places), places))

    def number(self, x: Tensor) -> int:
        found = next((number for number, one in enumerate(self.tensors) if x is one), -1)
        self.usual = self.usual and found >= 0
        return found

    def place(self, x: Tensor) -> Place:
        """Which tensor x is, or the only one that it is a part of."""
        start = x.untyped_storage().data_ptr()
        owners = [i for i, one in enumerate(self.tensors) if one.untyped_storage().data_ptr() == start]
        if len(owners) == 1:
            return owners[0], x.data_ptr() - self.tensors[owners[0]].data_ptr()
        return self.number(x), 0

    def play(self, given: list[Tensor]) -> ReplayResult | None:
        """The same with other tensors; None where they start elsewhere, for which kernels are compiled apart, or lie on
        a device that is not current."""
        pointers, device = [x.data_ptr() for x in given], given[0].device
        if not self.whole or [x % APART for x in pointers] != self.starts or not _current(device):
            return None
        more = [0] * (self.count - len(given))
        tensors: list[Any] = given + more
        pointers += more
        stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
        if self.room:
            memory = torch.empty(self.room, dtype=torch.uint8, device=device)
            start = memory.data_ptr()
            for number, offset in self.parts:
                pointers[number] = start + offset
        for number, shape, dtype, zero in self.made:
            tensors[number] = x = (torch.zeros if zero else torch.empty)(shape, dtype=dtype, device=device)
            pointers[number] = x.data_ptr()
        told = heard()
        for step in self.steps:
            arguments = step.arguments.copy()
            if isinstance(step, Launch):
                for at, (number, offset) in step.places:
                    arguments[at] = pointers[number] + offset
                step.kernel.launch(stream, arguments, told)
            else:
                for at, number in step.places:
                    arguments[at] = tensors[number]
                tensors[step.found] = x = step.function(*arguments)
                pointers[step.found] = x.data_ptr()
        found = ReplayResult([tensors[number] for number in self.returned])
        found.tape = self
        return found

    def follow(self, given: list[Tensor]) -> ReplayResult | None:
        """The gradient of this call: of its tensors, of what it gave and of one like the first of that. Where strides
        are those that are known, so is its kind, and need not be asked. None where it is not known."""
        if self.after is None or [x.stride() for x in given] != self.after[1]:
            return None
        return self.after[0].play(given)

    def learn(self, arguments: tuple[Any, ...]) -> None:
        """The gradient of this call is the one with these arguments."""
        found = None if self.gradient is None else self.gradient.tapes.get(_kind(arguments))
        if found is not None and found.whole:
            self.after = found, [x.stride() for x in arguments if isinstance(x, Tensor)]


def _blank(arguments: tuple[Any, ...], places: "list[tuple[int, Any]]") -> list[Any]:
    """Arguments without the tensors."""
    found = list(arguments)
    for at, _ in places:
        found[at] = None
    return found


MET = Tape()  # of a kind of calls that has been met once


class LaunchReplay:
    """A function of tensors, numbers and None, by position, that gives tensors and looks into none of them."""

    def __init__(self, function: Callable[..., Sequence[Tensor]]):
        self.function = function
        self.tapes: dict[tuple[Any, ...], Tape] = {}
        self.gradient: LaunchReplay | None = None

    def __call__(self, *arguments: Any) -> Sequence[Tensor]:
        kind = _kind(arguments)
        tape = self.tapes.get(kind)  # asked once: another thread may forget all kinds meanwhile
        if tape is None:
            if len(self.tapes) >= MOST:
                self.tapes.clear()
            self.tapes[kind] = MET
            return self.function(*arguments)
        if tape is MET:
            tape = self.tapes[kind] = Tape(self.gradient)
            return tape.written(self.function, arguments)
        found = tape.play([x for x in arguments if isinstance(x, Tensor)])
        return self.function(*arguments) if found is None else found


def _kind(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a call allocates and launches follows from this."""
    return (
        *[(x.shape, x.stride(), x.dtype, x.get_device()) if isinstance(x, Tensor) else x for x in arguments],
        *map(type, arguments),
    )


def _current(device: torch.device) -> bool:
    return device.type != "cuda" or device.index == torch.cuda.current_device()


def again(function: Callable[..., Any]) -> Callable[..., Any]:
    """@again over a function that launches kernels."""
    return function if INTERPRETED else LaunchReplay(function)


def gradient_of(forward: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """@gradient_of(run) over a function of run's arguments, those of its results that are kept, and their gradient."""

    def made(function: Callable[..., Any]) -> Callable[..., Any]:
        found = again(function)
        if isinstance(forward, LaunchReplay) and isinstance(found, LaunchReplay):
            forward.gradient = found
        return found

    return made


def fresh(
    shape: "int | tuple[int, ...]", device: torch.device, dtype: torch.dtype = torch.float32, zero: bool = False
) -> Tensor:
    """Memory that a call makes: nothing in it yet, or zeros."""
    x = (torch.zeros if zero else torch.empty)(shape, dtype=dtype, device=device)
    tape = getattr(current, "tape", None)
    if tape is not None:
        tape.fresh(x, zero)
    return x


def did(function: Callable[..., Tensor], *given: Any) -> Tensor:
    """function(*given), which torch computes from tensors and numbers: no tensor may hide in the function."""
    found = function(*given)
    tape = getattr(current, "tape", None)
    if tape is not None:
        tape.did(function, given, found)
    return found
