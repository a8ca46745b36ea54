"""Labelled texts as words, for models that number words in ways of their own: named sets, and a user's own file."""

from collections.abc import Callable
from pathlib import Path

from regard.data.readers.labelled_text import LabelledText, LabelledTexts
from regard.data.readers.text_file import read_judged, read_marks
from regard.data.readers.user_file import is_path

from .agnews import NAMES, items
from .movies import LABELS, rows
from .sst import sentences


def texts(data: str, folder: "str | Path | None" = None) -> LabelledTexts:
    """The test part of sst, movies or agnews by name, or a user's own texts (`read_judged`)."""
    if data in NAMED:
        return LabelledTexts(data, tuple(NAMED[data][0](folder)), NAMED[data][1])
    if not is_path(data):
        raise ValueError(
            f"data={data!r}: expected {', '.join(NAMED)}, or the path of a .csv, .tsv or .jsonl file with text, label "
            "and, where there are any, rationale, or of a folder in ERASER's form."
        )
    return read_judged(data)


def _sst(folder: "str | Path | None") -> list[LabelledText]:
    found = sentences("test", folder)
    return [LabelledText(tuple(line.split()), label, name=str(place)) for place, (line, label) in enumerate(found)]


def _agnews(folder: "str | Path | None") -> list[LabelledText]:
    return [LabelledText(words, label, name=str(place)) for place, words, label in items(folder)]


def _movies(folder: "str | Path | None") -> list[LabelledText]:
    made = []
    for at, row in enumerate(rows(folder), 1):
        if row["split"] == "test":
            words = tuple(row["text"].split())
            made.append(
                LabelledText(
                    words,
                    LABELS.index(row["label"]),
                    read_marks(row["rationales"], len(words), "movies", at),
                    row["id"],
                )
            )
    return made


NAMED: dict[str, tuple[Callable[..., list[LabelledText]], tuple[str, ...]]] = {
    "sst": (_sst, ("negative", "positive")),
    "movies": (_movies, LABELS),
    "agnews": (_agnews, NAMES),
}
