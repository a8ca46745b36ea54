"""Display names of tokens: readable, and without control characters."""

from collections.abc import Sequence
from typing import Any


def display_name(name: str, broken: bool = False) -> str:
    """A token as pages show it: without subword markers, with spaces and line feeds visible.

    broken   a line feed breaks the line, as in labels wrapped for a figure
    """
    plain = str(name).removeprefix("##").replace("Ġ", " ").replace("▁", " ").replace("Ċ", "\n")
    if not plain.strip():
        return "⏎" if "\n" in plain else "␣"
    end = "\n" if broken and "\n" in str(name) else "⏎"  # the tokenizer's marker of a line feed belongs to the token
    return "".join(c if c.isprintable() else end if c == "\n" else "·" for c in plain.strip())


def display_names(names: Sequence[Any] | None, count: int, broken: bool = False) -> list[str]:
    """One name for each position: its label, else its index."""
    if names is None or len(names) != count:
        return [str(place) for place in range(count)]
    return [display_name(name, broken) for name in names]
