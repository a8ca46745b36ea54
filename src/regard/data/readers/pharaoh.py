"""Word alignments in Pharaoh's format: a line a sentence pair, "0-0 1-2 2p3"."""

import re
from pathlib import Path

from ..aligned_pair import AlignedPair, Link
from .user_file import text_lines, wrong

LINK = re.compile(r"([0-9]+)([-p?])([0-9]+)")
MOST = 10_000  # words of a sentence
BETWEEN = "|||"


def read_links(line: str, first: int = 0) -> list[tuple[Link, str]]:
    """The links of a line in Pharaoh's format, "0-0 1p2": ((source, target), "-" sure or "p" possible), from 0."""
    links = []
    for word in line.split():
        found = LINK.fullmatch(word)
        if found is None or not all(first <= int(found[side]) < MOST + first for side in (1, 3)):
            raise ValueError(f"{word!r} is no link: expected source-target, as {first}-{first} or {first}p{first}.")
        links.append(((int(found[1]) - first, int(found[3]) - first), "-" if found[2] == "-" else "p"))
    return links


def read_alignment(path: "str | Path", first: int = 0) -> list[list[tuple[Link, str]]]:
    """The links of each line of a file: i-j sure, ipj (or i?j) possible; an empty line is a pair without links.

    first   index of the first word in the file, 0 or 1
    """
    found = []
    for at, line in enumerate(text_lines(path), 1):
        try:
            found.append(read_links(line, first))
        except ValueError as problem:
            raise wrong(path, at, f"{problem} {_counted(first)}") from None
    return found


def _counted(first: int) -> str:
    return (
        f"Words are counted from {first} here; else write --gold-first {1 - first} or --hypothesis-first {1 - first}."
    )


def read_pairs(path: "str | Path") -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Sentence pairs, "a small house ||| ein kleines Haus": words separated by blanks."""
    found = []
    for at, line in enumerate(text_lines(path), 1):
        sides = line.split(BETWEEN)
        if len(sides) != 2 or not all(side.split() for side in sides):
            raise wrong(path, at, f"expected a source, {BETWEEN} and a target, such as: a house {BETWEEN} ein Haus")
        found.append((tuple(sides[0].split()), tuple(sides[1].split())))
    return found


def read_alignments(gold: "str | Path", text: "str | Path | None" = None, first: int = 0) -> list[AlignedPair]:
    """Sentence pairs with gold word alignments, and the sentences of `text` if given.

    Without `text` the length of a sentence follows from its last link, and its words are numbers.
    """
    links = read_alignment(gold, first)
    if text is None:
        return [_sized(some, *_sizes(some)) for some in links]
    pairs = read_pairs(text)
    _as_many(gold, len(links), text, len(pairs))
    made = []
    for at, (some, (source, target)) in enumerate(zip(links, pairs, strict=True), 1):
        for s, t in (link for link, _ in some):
            if s >= len(source) or t >= len(target):
                raise wrong(
                    gold,
                    at,
                    f"the link {s + first}-{t + first} points past the end: the pair has {len(source)} and "
                    f"{len(target)} words. {_counted(first)}",
                )
        sure = frozenset(link for link, kind in some if kind == "-")
        made.append(AlignedPair(source, target, sure, sure | {link for link, _ in some}))
    return made


def aligned_as(
    gold: "str | Path",
    hypothesis: "str | Path",
    text: "str | Path | None" = None,
    first: int = 0,
    hypothesis_first: int = 0,
) -> tuple[list[frozenset[Link]], list[AlignedPair]]:
    """Links of a hypothesis and their gold pairs. Without `text`, a sentence ends with its last link in either file.
    first, hypothesis_first: index of the first word in the two files, 0 or 1."""
    said = read_alignment(hypothesis, hypothesis_first)
    pairs = read_alignments(gold, text, first)
    _as_many(hypothesis, len(said), gold, len(pairs))
    if text is None:
        links = read_alignment(gold, first)
        pairs = [_sized(mine, *_sizes([*mine, *theirs])) for mine, theirs in zip(links, said, strict=True)]
    found = [frozenset(link for link, _ in some) for some in said]
    for at, (some, pair) in enumerate(zip(found, pairs, strict=True), 1):
        for s, t in sorted(some):
            if s >= len(pair.source) or t >= len(pair.target):
                raise wrong(
                    hypothesis,
                    at,
                    f"the link {s + hypothesis_first}-{t + hypothesis_first} points past the end of the pair, which "
                    f"has {len(pair.source)} and {len(pair.target)} words. {_counted(hypothesis_first)}",
                )
    return found, pairs


def _sizes(links: list[tuple[Link, str]]) -> tuple[int, int]:
    return max((s + 1 for (s, _), _ in links), default=1), max((t + 1 for (_, t), _ in links), default=1)


def _sized(links: list[tuple[Link, str]], source: int, target: int) -> AlignedPair:
    sure = frozenset(link for link, kind in links if kind == "-")
    words = tuple(map(str, range(max(source, target))))
    return AlignedPair(words[:source], words[:target], sure, sure | {link for link, _ in links})


def _as_many(one: "str | Path", lines: int, other: "str | Path", others: int) -> None:
    if lines != others:
        raise ValueError(
            f"{one} has {lines} lines and {other} has {others}: expected as many, line i of both for the same pair "
            "(a pair without links is an empty line)."
        )
