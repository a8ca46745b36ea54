"""The console of commands: names and contents of files cannot send control sequences to the terminal."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment

from regard.core.printable import printable


class Printer(Console):
    """A console that escapes control characters in text; its own cursor movements pass."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text, lines=True), style, control)
