"""What tokens are called in a picture: as people read them, and nothing that a terminal would obey."""

from collections.abc import Sequence
from typing import Any


def shown(name: str) -> str:
    """A token as the pages write it: without the marks of its pieces, a space and a line's end seen."""
    plain = str(name).removeprefix("##").replace("Ġ", " ").replace("▁", " ").replace("Ċ", "\n")
    if not plain.strip():
        return "⏎" if "\n" in plain else "␣"
    return "".join(c if c.isprintable() else "⏎" if c == "\n" else "·" for c in plain.strip())


def names_of(names: Sequence[Any] | None, count: int) -> list[str]:
    """One name for each place: what it is called, else its number."""
    if names is None or len(names) != count:
        return [str(place) for place in range(count)]
    return [shown(name) for name in names]
