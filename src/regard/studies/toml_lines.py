"""Line numbers of values in a TOML file, for error messages."""

import re
from collections.abc import Sequence

HEADER = re.compile(r"^\s*(\[\[?)\s*([\w.\"-]+)\s*\]\]?")
KEY = re.compile(r"^\s*([\w.-]+|\"[^\"]*\")\s*=")


def line_of(text: str, path: Sequence[str | int]) -> int:
    """The line, from 1, of the value at a path such as ("variants", 2, "score"): the nearest that can be found.

    Follows tables and [[arrays of tables]]; entries of a bracketed list are found if each has a line of its own.
    """
    best = 1
    table: tuple[str | int, ...] = ()
    counts: dict[tuple[str | int, ...], int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        header, key = HEADER.match(line), KEY.match(line)
        if header:
            names: tuple[str | int, ...] = tuple(part.strip('"') for part in header[2].split("."))
            if header[1] == "[[":
                counts[names] = counts.get(names, -1) + 1
                names = (*names, counts[names])
            table = names
            if table and tuple(path[: len(table)]) == table:
                best = number
        elif key:
            position = (*table, *key[1].strip('"').split("."))
            if tuple(path[: len(position)]) == position:
                best = _within(text, number, path[len(position) :])
    return best


def _within(text: str, start: int, rest: Sequence[str | int]) -> int:
    if not rest or not isinstance(rest[0], int):
        return start
    lines = text.splitlines()[start:]
    entries = [start + 1 + n for n, line in enumerate(lines[: _end(lines)]) if re.match(r"^\s*[\"'{\[\d-]", line)]
    opened = text.splitlines()[start - 1].partition("=")[2].strip()
    return entries[rest[0]] if opened == "[" and rest[0] < len(entries) else start


def _end(lines: Sequence[str]) -> int:
    return next((n for n, line in enumerate(lines) if line.strip().startswith("]")), len(lines))
