"""ERASER's form: train.jsonl, val.jsonl, test.jsonl with evidences, and a folder docs/ with the documents."""

import json
from pathlib import Path
from typing import Any

from .labelled_text import LabelledText, LabelledTexts, named_classes
from .rows import read_rows
from .splits import PARTS
from .user_file import existing, text_lines, wrong

NEEDS = ("annotation_id", "classification", "evidences")


def read_eraser(folder: "str | Path") -> LabelledTexts:
    """Documents with classes and rationales, as the ERASER benchmark stores them (DeYoung et al. 2020).

    A row of train.jsonl, val.jsonl or test.jsonl has annotation_id, classification and evidences, a list of lists of
    {"docid", "start_token", "end_token"}; docs/<docid> (or docs/<docid>.txt) has the document, its tokens separated
    by blanks. Without evidences the document is docs/<annotation_id>. A query is ignored.
    """
    folder = existing(folder)
    docs, texts, labels = folder / "docs", list[LabelledText](), list[str | None]()
    there = [part for part in PARTS if (folder / f"{part}.jsonl").is_file()]
    if not there or not docs.is_dir():
        raise wrong(
            folder, None, "expected train.jsonl, val.jsonl or test.jsonl and a folder docs/, as ERASER stores them."
        )
    read: dict[str, tuple[str, ...]] = {}
    for part in there:
        path = folder / f"{part}.jsonl"
        for line, row in read_rows(path, NEEDS):
            spans = _spans(path, line, row)
            names = {name for name, _, _ in spans} or {str(row["annotation_id"])}
            if len(names) > 1:
                raise wrong(
                    path, line, f"evidences lie in {len(names)} documents ({', '.join(sorted(names))}), expected one."
                )
            name = names.pop()
            if name not in read:
                read[name] = _document(docs, name, path, line)
            words, marks = read[name], [False] * len(read[name])
            for _, start, end in spans:
                if not 0 <= start < end <= len(words):
                    raise wrong(
                        path,
                        line,
                        f"tokens {start} to {end} are outside of the document {name!r}, which has {len(words)}.",
                    )
                marks[start:end] = [True] * (end - start)
            if not isinstance(row["classification"], str | int):
                raise wrong(path, line, f"classification is {row['classification']!r}, expected the name of a class.")
            texts.append(LabelledText(words, None, tuple(marks), str(row["annotation_id"]), part))
            labels.append(str(row["classification"]))
    return named_classes(folder.name, texts, labels)


def _spans(path: Path, line: int, row: dict[str, Any]) -> list[tuple[str, int, int]]:
    try:
        return [
            (str(one["docid"]), int(one["start_token"]), int(one["end_token"]))
            for group in row["evidences"]
            for one in group
        ]
    except (TypeError, KeyError, ValueError):
        given = json.dumps(row["evidences"])[:60]
        raise wrong(
            path,
            line,
            f'evidences is {given}, expected [[{{"docid": "...", "start_token": 0, "end_token": 3}}]].',
        ) from None


def _document(docs: Path, name: str, path: Path, line: int) -> tuple[str, ...]:
    if Path(name).name != name:
        raise wrong(path, line, f"docid {name!r} is outside of docs/: expected the name of a file in it.")
    for one in (docs / name, docs / f"{name}.txt"):
        if one.is_file():
            return tuple(word for text in text_lines(one) for word in text.split())
    raise wrong(path, line, f"there is no document docs/{name}: expected its tokens, separated by blanks.")
