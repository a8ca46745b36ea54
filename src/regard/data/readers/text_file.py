"""Labelled texts: .csv, .tsv, .jsonl, or a folder in ERASER format; with human rationales."""

import json
from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .eraser import read_eraser
from .labelled_text import LabelledText, LabelledTexts, named_classes
from .reading_times import NEEDS as READING
from .reading_times import read_reading_times
from .rows import ENDINGS, Row, has_columns, read_rows
from .splits import NAMES, PARTS
from .user_file import ending, existing, wrong


def read_texts(path: "str | Path") -> LabelledTexts:
    """Labelled texts of a .csv, .tsv or .jsonl file (also .gz), or of a folder in ERASER format.

    text       words separated by blanks; in .jsonl also tokens, a list of words
    label      the class, a name or a number; optional if texts are only judged
    rationale  optional: [[start, end], ...] in words from 0, end exclusive, or 0 and 1 for each word
    split      optional: train, val or test
    id         optional: an id of the text

    In a folder: train.jsonl, val.jsonl, test.jsonl with classification and evidences, and docs/ (`read_eraser`).
    """
    path = existing(path)
    if path.is_dir():
        return read_eraser(path)
    if ending(path) not in ENDINGS:
        raise wrong(
            path, None, f"expected texts in a file that ends in {', '.join(ENDINGS)}, or a folder in ERASER format."
        )
    needs = () if ending(path) == ".jsonl" else ("text",)
    found = read_rows(path, needs)
    made, labels = list[LabelledText](), list[str | None]()
    for line, row in found:
        one, label = _text(path, line, row)
        made.append(replace(one, name=one.name or str(len(made))))
        labels.append(label)
    _same(path, found, [one.part for one in made], "split", f"one of {', '.join(PARTS)}")
    return named_classes(Path(path).name.removesuffix(".gz").rpartition(".")[0], made, labels)


def read_judged(path: "str | Path") -> LabelledTexts:
    """Texts for judging a classifier, by the columns of the file: labelled texts, or sentences with reading times
    (`read_reading_times`)."""
    path = existing(path)
    if path.is_dir() or not has_columns(path, READING):
        return read_texts(path)
    found = read_reading_times(path)
    made = [
        LabelledText(one.words, name=str(place), reading=tuple(one.share.tolist())) for place, one in enumerate(found)
    ]
    return LabelledTexts(path.name.removesuffix(".gz").rpartition(".")[0], tuple(made))


def read_marks(given: Any, count: int, path: "str | Path", line: int) -> tuple[bool, ...]:
    """A bool for each of `count` words, from spans [start, end) of words, or from 0 and 1 for each word."""
    if isinstance(given, list) and len(given) == count and all(type(x) in (int, bool) and x in (0, 1) for x in given):
        return tuple(bool(x) for x in given)
    expected = "a rationale is [[start, end], ...] in words from 0, end exclusive, or 0 and 1 for each word"
    marks = [False] * count
    for span in given if isinstance(given, list) else [given]:
        if not (isinstance(span, list) and len(span) == 2 and all(type(x) is int for x in span)):
            if isinstance(given, list) and given and all(x in (0, 1) for x in given if not isinstance(x, list)):
                raise wrong(path, line, f"{len(given)} marks for {count} words: {expected}.")
            raise wrong(path, line, f"{expected}; this is {json.dumps(span)[:60]}.")
        start, end = span
        if not 0 <= start < end <= count:
            raise wrong(path, line, f"the span [{start}, {end}) is outside of the text of {count} words: {expected}.")
        marks[start:end] = [True] * (end - start)
    return tuple(marks)


def _text(path: "str | Path", line: int, row: dict[str, Any]) -> tuple[LabelledText, str | None]:
    words = _words(path, line, row)
    given = row.get("rationale")
    if isinstance(given, str) and given.strip():
        try:
            given = json.loads(given)
        except ValueError:
            raise wrong(path, line, f'a rationale is written as "[[start, end], ...]", not {given[:40]!r}.') from None
    marks = None if given in (None, "") or isinstance(given, str) else read_marks(given, len(words), path, line)
    part = str(row.get("split") or "").strip().lower()
    if part and part not in NAMES:
        raise wrong(path, line, f"split is {part!r}, expected one of {', '.join(PARTS)}.")
    name = row.get("id")
    part = PARTS[NAMES[part]] if part else ""
    return LabelledText(words, None, marks, "" if name is None else str(name), part), _label(path, line, row)


def _words(path: "str | Path", line: int, row: dict[str, Any]) -> tuple[str, ...]:
    if "text" not in row and "tokens" in row:
        given = row["tokens"]
        if not (isinstance(given, list) and given and all(isinstance(x, str) and x.strip() for x in given)):
            raise wrong(path, line, 'tokens is a list of words that are not empty: {"tokens": ["a", "fine", "film"]}.')
        return tuple(given)
    text = row.get("text")
    if not isinstance(text, str):
        has = ", ".join(row) or "nothing"
        raise wrong(path, line, f'there is no text: expected {{"text": "...", "label": "..."}}; it has {has}.')
    if not text.split():
        raise wrong(path, line, "the text is empty: expected at least one word; delete the row if it has none.")
    return tuple(text.split())


def _label(path: "str | Path", line: int, row: dict[str, Any]) -> str | None:
    label = row.get("label")
    if label is None or label == "":
        return None
    if not isinstance(label, str | int) or (isinstance(label, int) and not isinstance(label, bool) and label < 0):
        raise wrong(path, line, f"label is {label!r}, expected a name or a whole number of 0 or more.")
    return str(label).strip() or None


def _same(path: "str | Path", rows: Sequence[Row], values: Sequence[Hashable], name: str, expected: str) -> None:
    """All rows or none must have the field."""
    if any(values) and not all(values):
        line = next(line for (line, _), value in zip(rows, values, strict=True) if not value)
        raise wrong(path, line, f"{name} is missing, but other rows have it: expected {expected} in each row.")


def _line(path: "str | Path", place: int) -> int | None:
    """The line of a text in the file; None for a folder."""
    return None if Path(path).is_dir() else read_rows(path, ())[place][0]


def labelled(path: "str | Path", texts: LabelledTexts) -> LabelledTexts:
    """The texts, after checking that all have labels, of at least two classes, as training needs."""
    bare = [one.name for one in texts.texts if one.label is None]
    if len(bare) == len(texts.texts):
        raise wrong(path, None, "no text has a label: name the column of the classes 'label'.")
    if bare:
        raise wrong(
            path,
            _line(path, next(place for place, one in enumerate(texts.texts) if one.label is None)),
            f"there is no label, and {len(texts.texts) - len(bare)} of {len(texts.texts)} texts have one: give each "
            "text its class.",
        )
    there = {one.label for one in texts.texts}
    if len(there) > max(20, len(texts.texts) // 2):
        raise wrong(
            path,
            None,
            f"{len(there)} classes for {len(texts.texts)} texts: label must be a class, not a number or an id.",
        )
    if len(there) < 2 or len(texts.texts) < 3:
        raise wrong(
            path,
            None,
            f"{len(texts.texts)} texts of {len(there)} class(es): training needs at least two classes and three texts.",
        )
    return texts
