"""Triton's kernels on a CPU: its interpreter stands for the card, and every backend of ours believes it."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kernels_in_the_interpreter() -> Iterator[None]:
    """TRITON_INTERPRET=1 must be set before Triton is imported."""
    with on_any_device(), patched_once_a_launch():
        yield


@contextmanager
def on_any_device() -> Iterator[None]:
    """Backends of a GPU do not ask where tensors are."""
    from regard.backends.triton.dense import backend as dense
    from regard.backends.triton.edges import backend as edges
    from regard.backends.triton.maps import reader
    from regard.backends.triton.runtime import device_support

    modules = (device_support, dense, edges, reader)
    before = [module.device_refusal for module in modules]
    for module in modules:
        module.device_refusal = lambda device: None  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module, refusal in zip(modules, before, strict=True):
            module.device_refusal = refusal  # type: ignore[attr-defined]


@contextmanager
def patched_once_a_launch() -> Iterator[None]:
    """Triton's interpreter patches its language anew whenever a kernel calls a function: a third of its time.

    Once a launch and module is enough, since nothing takes the patches back before the launch ends.
    """
    from triton.runtime import interpreter

    patch, launch, patched = interpreter._patch_lang, interpreter.GridExecutor.__call__, set()

    def patch_once(fn):
        if id(fn.__globals__) in patched:
            return interpreter._LangPatchScope()
        patched.add(id(fn.__globals__))
        return patch(fn)

    def launch_and_forget(*args, **kwargs):
        try:
            return launch(*args, **kwargs)
        finally:
            patched.clear()

    interpreter._patch_lang, interpreter.GridExecutor.__call__ = patch_once, launch_and_forget
    try:
        yield
    finally:
        interpreter._patch_lang, interpreter.GridExecutor.__call__ = patch, launch
