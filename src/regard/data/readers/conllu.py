"""CoNLL-U: sentences with the governor of every word."""

from pathlib import Path
from typing import NamedTuple


class ParsedSentence(NamedTuple):
    """Words, and for each word the index of its head (governor); -1 for the root."""

    words: list[str]
    governors: list[int]


def read_conllu(path: Path) -> list[ParsedSentence]:
    """The sentences of a file; multiword tokens and empty nodes are skipped. Errors name the line."""
    made: list[ParsedSentence] = []
    words, governors = list[str](), list[int]()
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], 1):
        if not line.strip():
            if words:
                if max(governors) >= len(words):
                    raise ValueError(
                        f"{path}, sentence before line {number}: a word has governor {max(governors) + 1}, and there "
                        f"are {len(words)} words."
                    )
                made.append(ParsedSentence(words, governors))
            words, governors = [], []
            continue
        if line.startswith("#"):
            continue
        columns = line.split("\t")
        if len(columns) < 8:
            raise ValueError(f"{path}, line {number}: {len(columns)} columns, expected the 10 of CoNLL-U, with tabs.")
        if not columns[0].isdigit():
            continue
        if int(columns[0]) != len(words) + 1 or not columns[6].isdigit():
            raise ValueError(
                f"{path}, line {number}: word {columns[0]!r} with governor {columns[6]!r}, expected word "
                f"{len(words) + 1} and a number (0 for the root)."
            )
        words.append(columns[1])
        governors.append(int(columns[6]) - 1)
    if not made:
        raise ValueError(f"{path} has no sentence.")
    return made
