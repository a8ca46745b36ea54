"""Something that is on while anyone needs it: counted, since every thread has a watch of its own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock


class Switch:
    """with switch(): ... the first one in turns it on, the last one out turns it off."""

    def __init__(self, on: Callable[[], None], off: Callable[[], None]):
        self.on, self.off = on, off
        self.count, self.lock = 0, Lock()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self.lock:
            self.count += 1
            if self.count == 1:
                self.on()
        try:
            yield
        finally:
            with self.lock:
                self.count -= 1
                if self.count == 0:
                    self.off()
