"""What tokens are called in a picture: as people read them, and nothing that a terminal would obey."""

from collections.abc import Sequence
from typing import Any


def display_name(name: str, broken: bool = False) -> str:
    """A token as the pages write it: without the marks of its pieces, a space and a line's end seen.

    broken   a line's end between two words breaks the line, as in a name that somebody broke for a picture
    """
    plain = str(name).removeprefix("##").replace("Ġ", " ").replace("▁", " ").replace("Ċ", "\n")
    if not plain.strip():
        return "⏎" if "\n" in plain else "␣"
    end = "\n" if broken and "\n" in str(name) else "⏎"  # a tokenizer's own mark of a line's end is a token's
    return "".join(c if c.isprintable() else end if c == "\n" else "·" for c in plain.strip())


def display_names(names: Sequence[Any] | None, count: int, broken: bool = False) -> list[str]:
    """One name for each place: what it is called, else its number."""
    if names is None or len(names) != count:
        return [str(place) for place in range(count)]
    return [display_name(name, broken) for name in names]
