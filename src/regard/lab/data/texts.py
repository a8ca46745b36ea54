"""Labelled texts as words, for models that number words in ways of their own: named sets, and a user's CSV or JSONL."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .agnews import NAMES, items
from .movies import LABELS, rows
from .sst import sentences

LARGEST = 256_000_000  # bytes of a file that is read
MOST = 1_000_000  # texts of a file


@dataclass(frozen=True)
class LabelledText:
    """Words, the class by number, and where people marked the reason, one for each word."""

    words: tuple[str, ...]
    label: int | None = None
    marks: tuple[bool, ...] | None = None
    name: str = ""


@dataclass(frozen=True)
class LabelledTexts:
    """Texts to judge on; names of the classes in order, empty where classes are mere numbers."""

    name: str
    texts: tuple[LabelledText, ...]
    names: tuple[str, ...] = ()

    def at(self, places: Sequence[int]) -> "LabelledTexts":
        """Those at some places."""
        return replace(self, texts=tuple(self.texts[place] for place in places))


def spread(count: int, limit: int | None = None) -> list[int]:
    """At most `limit` of `count` places, evenly over all of them: a file may be sorted."""
    return list(range(count)) if limit is None or limit >= count else [at * count // limit for at in range(limit)]


def texts(data: str, folder: "str | Path | None" = None) -> LabelledTexts:
    """The test part of sst, movies or agnews by name, or a file.csv or file.jsonl with text, label and, where people
    marked reasons, rationale."""
    if data in NAMED:
        return LabelledTexts(data, tuple(NAMED[data][0](folder)), NAMED[data][1])
    path = Path(data)
    if path.suffix.lower() not in READERS:
        raise ValueError(
            f"data={data!r}: expected {', '.join(NAMED)}, or a file that ends in .csv or .jsonl with "
            "text, label and, where there are any, rationale."
        )
    if not path.is_file():
        raise FileNotFoundError(f"data={data!r}: there is no such file.")
    if path.stat().st_size > LARGEST:
        raise ValueError(f"data={data!r} has {path.stat().st_size:,} bytes, more than {LARGEST:,}: give fewer texts.")
    found = READERS[path.suffix.lower()](path.read_text(encoding="utf-8-sig"), data)
    return _of_rows(found, data, path.stem)


def _sst(folder: "str | Path | None") -> list[LabelledText]:
    found = sentences("test", folder)
    return [LabelledText(tuple(line.split()), label, name=str(place)) for place, (line, label) in enumerate(found)]


def _agnews(folder: "str | Path | None") -> list[LabelledText]:
    return [LabelledText(words, label, name=str(place)) for place, words, label in items(folder)]


def _movies(folder: "str | Path | None") -> list[LabelledText]:
    made = []
    for row in rows(folder):
        if row["split"] == "test":
            words = tuple(row["text"].split())
            made.append(
                LabelledText(
                    words, LABELS.index(row["label"]), _marks(row["rationales"], len(words), row["id"]), row["id"]
                )
            )
    return made


NAMED: dict[str, tuple[Callable[..., list[LabelledText]], tuple[str, ...]]] = {
    "sst": (_sst, ("negative", "positive")),
    "movies": (_movies, LABELS),
    "agnews": (_agnews, NAMES),
}


def _csv(text: str, where: str) -> list[dict[str, Any]]:
    try:
        found = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as problem:
        raise ValueError(f"{where} is no CSV: {problem}.") from problem
    for at, row in enumerate(found, 1):
        if row.get("rationale"):
            try:
                row["rationale"] = json.loads(row["rationale"])
            except ValueError as problem:
                raise ValueError(
                    f"{where}, row {at}: a rationale is written as [[start, end], ...], in words."
                ) from problem
    return found


def _jsonl(text: str, where: str) -> list[dict[str, Any]]:
    found = []
    for at, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                found.append(json.loads(line))
            except ValueError as problem:
                raise ValueError(f"{where}, line {at}: this is no JSON ({problem}).") from problem
    return found


READERS: dict[str, Callable[[str, str], list[dict[str, Any]]]] = {".csv": _csv, ".jsonl": _jsonl}


def _of_rows(given: Sequence[Any], where: str, name: str) -> LabelledTexts:
    if not 0 < len(given) <= MOST:
        raise ValueError(f"{where} has {len(given)} texts: expected 1 to {MOST:,}.")
    made, labels = [], []
    for at, row in enumerate(given, 1):
        words = tuple(row["text"].split()) if isinstance(row, dict) and isinstance(row.get("text"), str) else ()
        if not words:
            raise ValueError(f"{where}, row {at}: expected text with at least one word, and a label where it is known.")
        label = row.get("label")
        labels.append(None if label in (None, "") else str(label).strip())
        marked = row.get("rationale")
        marks = None if marked in (None, "") else _marks(marked, len(words), f"{where}, row {at}")
        made.append(LabelledText(words, None, marks, str(row.get("id") or at - 1)))
    known = {label for label in labels if label is not None}
    numbers = all(label.isdecimal() for label in known)
    order = sorted(known)
    number = {label: int(label) if numbers else order.index(label) for label in known}
    found = [
        replace(one, label=None if label is None else number[label]) for one, label in zip(made, labels, strict=True)
    ]
    return LabelledTexts(name, tuple(found), () if numbers else tuple(order))


def _marks(given: Any, count: int, where: str) -> tuple[bool, ...]:
    """From spans [start, end) of words, or from 0 and 1 for each word."""
    if isinstance(given, list) and len(given) == count and all(x in (0, 1) for x in given):
        return tuple(bool(x) for x in given)
    marks = [False] * count
    try:
        for start, end in given:
            if not 0 <= int(start) <= int(end) <= count:
                raise ValueError(f"[{start}, {end}) leaves the text of {count} words")
            marks[int(start) : int(end)] = [True] * (int(end) - int(start))
    except (TypeError, ValueError) as problem:
        raise ValueError(
            f"{where}: a rationale is [[start, end], ...] in words from 0, the end not in it, or 0 and 1 "
            f"for each word ({problem})."
        ) from problem
    return tuple(marks)
