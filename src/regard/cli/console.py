"""The console of commands: what a file is named and what stands in it reaches the terminal as letters."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment

from ..recording.io.printable import printable


class Printer(Console):
    """A console that writes control characters as escapes; its own, which move the cursor, pass."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text, lines=True), style, control)
