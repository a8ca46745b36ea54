"""A context that all threads share: entered by the first user, left by the last, since each thread has its own mode."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any


class RefcountedContext:
    """A reference-counted context: the first user enters the block, the last one leaves it."""

    def __init__(self, block: Callable[[], AbstractContextManager[object]]):
        self.block = block
        self.count, self.lock = 0, Lock()

    def __call__(self) -> "RefcountedContext":
        return self

    def __enter__(self) -> None:
        with self.lock:
            if self.count == 0:
                self.entered = self.block()
                self.entered.__enter__()
            self.count += 1

    def __exit__(self, *_: Any) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0:
                self.entered.__exit__(None, None, None)
