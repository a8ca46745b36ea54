"""WikiText-2: articles of Wikipedia as running text."""

import gzip
from pathlib import Path

from regard.data.files import UNREADABLE, data_file

PARTS = ("valid", "test")


def wikitext(part: str, folder: "str | Path | None" = None) -> str:
    """The text of a part, valid or test, read from text/wikitext2_<part>.txt.gz in `folder`, else in REGARD_DATA.

    As it was published: words apart by spaces, " @-@ " for a hyphen within a word, rare words as <unk>, which a model
    of subwords reads as three or four odd tokens. Merity et al. 2016.
    """
    if part not in PARTS:
        raise ValueError(f"wikitext({part!r}): expected one of {', '.join(map(repr, PARTS))}.")
    path = data_file(f"text/wikitext2_{part}.txt.gz", folder)
    try:
        return gzip.decompress(path.read_bytes()).decode("utf-8")
    except (*UNREADABLE, UnicodeDecodeError) as problem:
        raise ValueError(f"{path} is not gzipped text: {problem}.") from problem
