"""Compiled models run eagerly while a listener is active: compiled code hides its attention.

The stance is one for all threads. To set it imports torch._dynamo, which takes seconds, and without that module nothing
is compiled: so it is set where the module is there, or as soon as something imports it.
"""

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import torch

from .refcounted_context import RefcountedContext

COMPILER = "torch._dynamo"


@RefcountedContext
@contextmanager
def eager_stance() -> Iterator[None]:
    """In this block compiled functions run their eager code."""
    with ExitStack() as stack:

        def set_stance() -> None:
            stack.enter_context(torch.compiler.set_stance("force_eager"))

        if COMPILER in sys.modules:
            set_stance()
        else:
            finder = _AfterImport(COMPILER, set_stance)
            sys.meta_path.insert(0, finder)
            stack.callback(finder.remove)
        yield


class _AfterImport(MetaPathFinder):
    """Calls `then` when the module of this name has been imported."""

    def __init__(self, name: str, then: Callable[[], None]):
        self.name, self.then = name, then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        self.remove()  # the others find it
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _CallingLoader(spec.loader, self.then)
        return spec

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)


class _CallingLoader(Loader):
    """A module's own loader, and a call after it."""

    def __init__(self, loader: Loader, then: Callable[[], None]):
        self.loader, self.then = loader, then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.then()
