"""Reading times: a .csv with a row for each word."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .rows import number, read_rows
from .user_file import wrong

NEEDS = ("sentence", "word", "time")


@dataclass(frozen=True, eq=False)
class Reading:
    """A sentence with reading times. share (n,): each word's share of the total time; sums to 1, mean over readers."""

    words: tuple[str, ...]
    share: np.ndarray


def read_reading_times(path: "str | Path") -> list[Reading]:
    """Sentences with reading times of a .csv, .tsv or .jsonl: a row for each word, in text order.

    sentence   its number or name; rows of a sentence are consecutive
    word       one word, without a blank
    time       reading time in any unit, 0 if skipped
    reader     optional: id of the reader; every reader then has a row for each word of a sentence

    Times are normalised by sentence and reader; sentences that a reader skipped entirely are left out.
    """
    read: dict[str, dict[str, tuple[list[str], list[float], int]]] = {}
    before = ("", "")
    for line, row in read_rows(path, NEEDS):
        sentence, reader, word = (str(row.get(name) or "").strip() for name in ("sentence", "reader", "word"))
        if not sentence:
            raise wrong(path, line, "sentence is empty: expected the number or name of the sentence.")
        if len(word.split()) != 1:
            raise wrong(path, line, f"word is {row['word']!r}, expected one word without blanks.")
        by_reader = read.setdefault(sentence, {})
        if (sentence, reader) != before and reader in by_reader:
            who = f" of reader {reader!r}" if reader else ""
            raise wrong(
                path,
                line,
                f"sentence {sentence!r}{who} began on line {by_reader[reader][2]}: its rows must be consecutive.",
            )
        before = sentence, reader
        words, times, _ = by_reader.setdefault(reader, ([], [], line))
        words.append(word)
        times.append(number(path, line, "time", row["time"]))
    return [_mean(path, sentence, by_reader) for sentence, by_reader in read.items()]


def _mean(path: "str | Path", sentence: str, by_reader: dict[str, tuple[list[str], list[float], int]]) -> Reading:
    words = next(iter(by_reader.values()))[0]
    shares = []
    for reader, (theirs, times, line) in by_reader.items():
        if theirs != words:
            raise wrong(
                path, line, f"reader {reader!r} has different words in sentence {sentence!r} than the previous reader."
            )
        if sum(times) > 0:
            shares.append(np.array(times) / sum(times))
    if not shares:
        line = next(iter(by_reader.values()))[2]
        raise wrong(path, line, f"all times of sentence {sentence!r} are 0; delete it.")
    return Reading(tuple(words), np.mean(shares, axis=0))
