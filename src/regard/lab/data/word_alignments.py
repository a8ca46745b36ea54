"""Sentence pairs whose words were aligned by people, and what two well-known aligners put out for one set."""

import tarfile
from pathlib import Path

from regard.data.aligned_pair import AlignedPair, Link
from regard.data.files import data_file
from regard.data.readers.pharaoh import read_alignment, read_links, read_pairs

SETS = ("enfr", "jaen", "zhen")
LIMIT = 2**24  # bytes that one file of links may have


def gold_alignments(name: str = "enfr", folder: "str | Path | None" = None) -> list[AlignedPair]:
    """447 English-French, 582 Japanese-English or 450 Chinese-English pairs, from alignment/*.gz in REGARD_DATA.

    Links that point past the end of a sentence are left out (6 of ja-en).
    """
    if name not in SETS:
        raise ValueError(f"gold_alignments({name!r}): expected one of {', '.join(SETS)}.")
    texts = read_pairs(data_file(f"alignment/{name}.src-tgt.gz", folder))
    golds = read_alignment(data_file(f"alignment/{name}.gold.gz", folder), first=1)
    if len(texts) != len(golds):
        raise ValueError(f"gold_alignments({name!r}): {len(texts)} sentence pairs, but links for {len(golds)}.")
    pairs = []
    for (source, target), gold in zip(texts, golds, strict=True):
        links = [(link, kind) for link, kind in gold if link[0] < len(source) and link[1] < len(target)]
        sure = frozenset(link for link, kind in links if kind == "-")
        pairs.append(AlignedPair(source, target, sure, sure | {link for link, _ in links}))
    return pairs


def reference_alignments(
    aligner: str = "giza", kind: str = "", folder: "str | Path | None" = None
) -> list[frozenset[Link]]:
    """What GIZA++ ("giza") or fast_align ("fastalign") put out for the 447 English-French pairs.

    kind: "" the forward direction, "reverse" (links come turned round, as source-target), "intersection", "union",
    "grow-diagonal" or "grow-diagonal-final".
    """
    inside = f"{aligner}/test.enfr.{kind}{'.' * bool(kind)}talp"
    path = data_file("alignment/reference_alignments.tar.gz", folder)
    with tarfile.open(path) as packed:
        members = {member.name: member for member in packed if member.isfile()}
        if inside not in members:
            raise ValueError(
                f"reference_alignments({aligner!r}, {kind!r}): {path.name} has no {inside}; it has "
                f"{', '.join(sorted(members))}."
            )
        if members[inside].size > LIMIT:
            raise ValueError(f"{inside} in {path} has {members[inside].size} bytes, more than {LIMIT}.")
        file = packed.extractfile(members[inside])
        assert file is not None
        lines = file.read().decode().splitlines()
    turned = kind == "reverse"
    return [frozenset((b, a) if turned else (a, b) for (a, b), _ in read_links(line)) for line in lines]
