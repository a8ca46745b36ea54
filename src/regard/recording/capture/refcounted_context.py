"""Something that is on while anyone needs it: counted, since every thread has a watch of its own."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock


class Switch:
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
