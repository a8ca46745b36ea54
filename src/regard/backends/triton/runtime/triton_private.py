"""Private parts of Triton, all of them: no other file of the package uses any (tests/test_house.py).

Tested with Triton 3.6 and 3.7; other versions launch as Triton documents it, kernel[grid](...) (device_support). There
is no public way to launch a compiled kernel with addresses, which is what makes a second launch cheap:

    kernel.params                    which arguments are constants, and which Triton specializes code for
    compiled[grid](*addresses)       a compiled kernel, what kernel[grid](...) returns; told of launches to hooks
    compiled.run                     the launcher itself: grid, stream, function, packed metadata, hooks, arguments
    knobs.runtime, .compilation      hooks of profilers, and settings that compile other code

`triton.knobs` is public since 3.4; it stands here beside what it is used with.
"""

from collections.abc import Sequence
from typing import Any

import triton

RUNTIME = triton.knobs.runtime
INTERPRETED: bool = RUNTIME.interpret  # TRITON_INTERPRET when kernels are decorated


def compile_settings() -> tuple[Any, ...]:
    """TRITON_DEBUG and instrumentation, by which Triton compiles other code for the same arguments."""
    return RUNTIME.debug, triton.knobs.compilation.instrumentation_mode


def has_launch_hooks() -> bool:
    """Whether somebody, a profiler say, wants to be told of launches."""
    return any(getattr(hook, "calls", hook) for hook in (RUNTIME.launch_enter_hook, RUNTIME.launch_exit_hook))


def constants_in_order(kernel: Any, constants: dict[str, Any]) -> list[Any]:
    """The constants of a call, in the order of the kernel's arguments: the compiled kernel takes them last, and with
    them what a call leaves out."""
    chosen = [each for each in kernel.params if each.is_constexpr or each.has_default]
    return [constants.get(each.name, each.default) if each.has_default else constants[each.name] for each in chosen]


def specializes(kernel: Any, place: int) -> bool:
    """Whether Triton compiles apart for an argument that is 1 or a multiple of 16."""
    return not kernel.params[place].do_not_specialize


def launch(compiled: Any, grid: tuple[int, ...], arguments: Sequence[Any]) -> None:
    """A compiled kernel on its grid, with addresses in place of tensors and its constants last."""
    compiled[grid](*arguments)


class DirectLauncher:
    """A compiled kernel on its grid. Triton calls five functions of Python around a launch, most of them for hooks;
    where there are none, this is the one that launches."""

    def __init__(self, compiled: Any, grid: tuple[int, ...]):
        self.compiled, self.grid = compiled, grid
        self.run, self.with_handles = compiled.run, (compiled.function, compiled.packed_metadata, None, None, None)

    def launch(self, stream: int, arguments: Sequence[Any], hooked: bool) -> None:
        if hooked:
            self.compiled[self.grid](*arguments, stream=stream)
        else:
            self.run(*self.grid, stream, *self.with_handles, *arguments)
