"""Rows of a table: .csv, .tsv and .jsonl, with line numbers."""

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .user_file import ending, text_lines, wrong

Row = tuple[int, dict[str, Any]]
MOST = 1_000_000  # rows of a file
ENDINGS = (".csv", ".tsv", ".jsonl")


def read_rows(path: "str | Path", needs: Sequence[str]) -> list[Row]:
    """(line, row) of a .csv (commas, double quotes), a .tsv (tabs, no quoting) or a .jsonl (an object a line); also
    gzipped. Column names in lower case; each row has the columns in `needs`."""
    kind = ending(path)
    if kind not in ENDINGS:
        raise wrong(path, None, f"expected a file that ends in {', '.join(ENDINGS)} (or one of these and .gz).")
    lines = text_lines(path)
    if len(lines) > MOST + 1:
        raise wrong(path, MOST + 1, f"there are more than {MOST:,} lines, the maximum.")
    found = list(_objects(path, lines, needs) if kind == ".jsonl" else _table(path, lines, kind, needs))
    if not found:
        raise wrong(path, None, "there is a header, but no row.")
    return found


def has_columns(path: "str | Path", names: Sequence[str]) -> bool:
    """Whether the first row of a table has these columns; False for other files."""
    kind = ending(path)
    if kind not in ENDINGS:
        return False
    first = next((line for line in text_lines(path) if line.strip()), "")
    if kind != ".jsonl":
        between = "," if kind == ".csv" else "\t"
        return set(names) <= {name.strip().strip('"').lower() for name in first.split(between)}
    try:
        row = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and set(names) <= {name.lower() for name in row}


def _table(path: "str | Path", lines: list[str], kind: str, needs: Sequence[str]) -> Iterator[Row]:
    how: dict[str, Any] = {"delimiter": ","} if kind == ".csv" else {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    reader = csv.reader((line + "\n" for line in lines), strict=True, **how)
    names: list[str] = []
    begins = 1
    try:
        for fields in reader:
            line, begins = begins, reader.line_num + 1
            if not any(field.strip() for field in fields):
                continue
            if not names:
                names = _header(path, line, fields, kind, needs)
            elif len(fields) != len(names):
                quotes = "; quote a text with a comma in double quotes" if kind == ".csv" else ""
                raise wrong(
                    path, line, f"{len(fields)} fields, but the header has {len(names)} ({', '.join(names)}){quotes}."
                )
            else:
                yield line, dict(zip(names, fields, strict=True))
    except csv.Error as problem:
        raise wrong(
            path, begins, f"invalid CSV ({problem}): close each double quote, and double those within a text."
        ) from problem


def _header(path: "str | Path", line: int, fields: list[str], kind: str, needs: Sequence[str]) -> list[str]:
    names = [field.strip().lower() for field in fields]
    missing = [name for name in needs if name not in names]
    between = "," if kind == ".csv" else "<tab>"
    other = next((mark for mark in ";\t" if kind == ".csv" and mark in fields[0]), "")
    if missing and other:
        raise wrong(path, line, f"columns of a .csv are separated by commas, not {other!r}: save it with commas.")
    if missing:
        raise wrong(
            path,
            line,
            f"there is no column {missing[0]!r}; the first line names the columns, such as "
            f"{between.join(needs)}, and has {', '.join(map(repr, names))}.",
        )
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise wrong(path, line, f"the column {twice[0]!r} occurs twice; rename one of them.")
    return names


def _objects(path: "str | Path", lines: list[str], needs: Sequence[str]) -> Iterator[Row]:
    example = "{" + ", ".join(f'"{name}": ...' for name in needs or ("text", "label")) + "}"
    for line, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as problem:
            why = f"{problem.msg}, column {problem.colno}" if isinstance(problem, json.JSONDecodeError) else problem
            raise wrong(path, line, f"invalid JSON ({why}): expected one object a line, {example}.") from None
        if not isinstance(row, dict):
            raise wrong(path, line, f"expected one object a line, {example}; this is a {type(row).__name__}.")
        row = {name.strip().lower(): value for name, value in row.items()}
        missing = [name for name in needs if name not in row]
        if missing:
            raise wrong(path, line, f"there is no {missing[0]!r}: expected {example}; it has {', '.join(row)}.")
        yield line, row


def whole_number(path: "str | Path", line: int, name: str, value: Any) -> int:
    """A whole number of 0 or more in a field."""
    text = str(value).strip()
    if not text.isascii() or not text.isdigit():
        raise wrong(path, line, f"{name} is {value!r}, expected a whole number of 0 or more.")
    return int(text)


def number(path: "str | Path", line: int, name: str, value: Any, least: float = 0.0) -> float:
    """A finite number in a field, `least` or more."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = float("nan")
    if isinstance(value, bool) or not (least <= found < float("inf")):
        raise wrong(path, line, f"{name} is {value!r}, expected a finite number, {least:g} or more.")
    return found
