"""A context that all threads share: entered by the first user, left by the last, since each thread has its own mode."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock


class RefcountedContext:
    """with switch(): ... the first one in enters the block it was made of, the last one out leaves it."""

    def __init__(self, block: Callable[[], AbstractContextManager[object]]):
        self.block = block
        self.count, self.lock = 0, Lock()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self.lock:
            if self.count == 0:
                self.entered = self.block()
                self.entered.__enter__()
            self.count += 1
        try:
            yield
        finally:
            with self.lock:
                self.count -= 1
                if self.count == 0:
                    self.entered.__exit__(None, None, None)
