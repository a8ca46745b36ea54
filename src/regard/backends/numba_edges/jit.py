"""Compilation: decorators of the kernels, and a cache on disk that a change of any file of this folder makes stale."""

import hashlib
import sys
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from numba import njit
from numba.core import event

# Sums may be added in any order and products fused; infinities and NaN keep their meaning (empty rows, overflow).
_FASTMATH = {"reassoc", "contract", "nsz", "arcp"}
helper = njit(nogil=True, fastmath=_FASTMATH)  # called from kernels; a call costs more than an edge: one for a batch
inlined = njit(nogil=True, fastmath=_FASTMATH, inline="always")  # called for an edge, where that is much work
ieee = njit(nogil=True, fastmath=False)  # what must not be reordered; unsaid, the caller's would hold


def kernel(function: Callable[..., Any]) -> Any:
    """Compiled on the first call, called from Python, kept on disk.

    numba compares the caller's file alone with what it has on disk, and helpers of other files are compiled into the
    caller; so the hash of all files joins its stamp. A numba that keeps its stamp elsewhere compiles in each process:
    slow, but never an old kernel.
    """
    compiled = njit(nogil=True, cache=True, fastmath=_FASTMATH)(function)
    index: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if hasattr(index, "_source_stamp"):
        index._source_stamp = (index._source_stamp, _SOURCES)
        return compiled
    return njit(nogil=True, fastmath=_FASTMATH)(function)


def _hash_of_sources() -> str:
    """SHA-256 of the names and texts of the Python files of this folder."""
    total = hashlib.sha256()
    for file in sorted(files(__package__).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".py"):
            total.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return total.hexdigest()


_SOURCES = _hash_of_sources()


class _CompilationNotice(event.Listener):
    """Half a minute of silence looks like a fault: said once, where our kernels are compiled and not read from disk."""

    printed = False

    def on_start(self, happened: Any) -> None:
        function = happened.data["dispatcher"].py_func
        if not self.printed and function.__module__.startswith(f"{__package__}."):
            self.printed = True
            print("regard: compiling the graph kernels for this processor; half a minute, once.", file=sys.stderr)

    def on_end(self, happened: Any) -> None:
        pass


event.register("numba:compile", _CompilationNotice())
