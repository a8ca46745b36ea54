"""Multi30k: captions of photographs, in English, German and French."""

from pathlib import Path

from regard.data.batch import Example
from regard.data.bpe import Pieces, Words
from regard.data.files import data_file, read_lines
from regard.data.translation import TranslationTask

LANGUAGES = ("en", "de", "fr")
TESTS = ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")


def multi30k(
    source: str = "en",
    target: str = "de",
    folder: "str | Path | None" = None,
    pieces: int = 0,
    test: str = "test_2016_flickr",
    longest: int = 100,
    lines: int | None = None,
) -> TranslationTask:
    """Translate captions: 29,000/1,014/1,000 pairs, read from alignment/multi30k_*.gz in REGARD_DATA.

    pieces   0: words that occur at least twice; else a BPE vocabulary of this size for each language
    longest  maximum length of training pairs
    lines    maximum number of training pairs

    Targets end with the end token. Elliott et al. 2016.
    """
    for name, language in (("source", source), ("target", target)):
        if language not in LANGUAGES:
            raise ValueError(f"multi30k({name}={language!r}): expected one of {', '.join(LANGUAGES)}.")
    if test not in TESTS:
        raise ValueError(f"multi30k(test={test!r}): expected one of {', '.join(TESTS)}.")
    read = {}
    for part in ("train", "val", test):
        sides = [read_lines(data_file(f"alignment/multi30k_{part}.{side}.gz", folder)) for side in (source, target)]
        if len(sides[0]) != len(sides[1]):
            raise ValueError(f"multi30k: {part} has {len(sides[0])} lines in {source} and {len(sides[1])} in {target}.")
        read[part] = list(zip(*sides, strict=True))[: lines if part == "train" else None]
    return pairs(f"multi30k {source}-{target}", read["train"], read["val"], read[test], pieces, longest)


def pairs(
    name: str,
    train: list[tuple[str, str]],
    val: list[tuple[str, str]],
    test: list[tuple[str, str]],
    pieces: int = 0,
    longest: int = 100,
) -> TranslationTask:
    """A translation task from line pairs."""
    cut = [
        Pieces([pair[side] for pair in train], pieces) if pieces else Words(pair[side] for pair in train)
        for side in (0, 1)
    ]

    def examples(lines: list[tuple[str, str]]) -> list[Example]:
        made = []
        for place, (asked, given) in enumerate(lines):
            known, wanted = cut[0].vocabulary.encode(cut[0].split(asked)), cut[1].split(given)
            made.append(Example(known, cut[1].vocabulary.encode(wanted, end=True), id=place))
        return made

    learned = [one for one in examples(train) if 0 < one.length <= longest and len(one.target) <= longest]
    return TranslationTask(
        name,
        learned,
        examples(val),
        examples(test),
        words=cut[0].vocabulary,
        target_words=cut[1].vocabulary,
        source=cut[0],
        target=cut[1],
        sources=tuple(a for a, _ in test),
        references=tuple(b for _, b in test),
    )
