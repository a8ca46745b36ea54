"""The names along one axis of a map: tokens by the letters of their text, patches by place, nodes by name."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

IDEOGRAPH = r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
WORD = re.compile(rf"{IDEOGRAPH}|(?:(?!{IDEOGRAPH})\w)+(?:['’\-](?:(?!{IDEOGRAPH})\w)+)*|[^\w\s]")


@dataclass
class Axis:
    """The names along one axis, the text they come from, and where each stands in it: spans [start, stop)."""

    names: list[str]
    text: str | None = None
    spans: list[tuple[int, int]] | None = None
    kind: str = "tokens"
    grid: tuple[int, int] | None = None

    def words(self) -> list[tuple[int, int]]:
        """Spans of tokens, one for each word, punctuation mark or token that is in no text (such as [CLS])."""
        if self.text is None or self.spans is None:
            return _words_of_pieces(self.names)
        starts = [(found.start(), found.end()) for found in WORD.finditer(self.text)]
        made: list[tuple[int, int]] = []
        last: Any = None
        at = 0
        for place, (start, stop) in enumerate(self.spans):
            while start < stop and self.text[start : start + 1].isspace():
                start += 1
            while at < len(starts) and starts[at][1] <= start:
                at += 1
            word = at if start < stop and at < len(starts) and starts[at][0] <= start else None
            if word is not None and word == last:
                made[-1] = (made[-1][0], place + 1)
            else:
                made.append((place, place + 1))
            last = word
        return made

    def name_of(self, span: tuple[int, int]) -> str:
        """A word as it is written."""
        start, stop = span
        if self.text is not None and self.spans is not None and self.spans[start][0] < self.spans[stop - 1][1]:
            return self.text[self.spans[start][0] : self.spans[stop - 1][1]].strip()
        return "".join(self.names[start:stop]).strip()


def _words_of_pieces(names: Sequence[str]) -> list[tuple[int, int]]:
    """Without a text: a piece that starts with a space begins a word; ## goes on with one."""
    spaced = any(name.startswith((" ", "▁", "Ġ")) for name in names)
    made: list[tuple[int, int]] = []
    for place, name in enumerate(names):
        goes_on = name.startswith("##") or (
            spaced and place > 0 and name[:1].isalnum() and names[place - 1].strip()[-1:].isalnum()
        )
        if goes_on and made:
            made[-1] = (made[-1][0], place + 1)
        else:
            made.append((place, place + 1))
    return made


Run = dict[str, list[Axis]]  # by side (source, target), one axis for each item of the batch


def axes_of(
    tokens: Any = None,
    text: Any = None,
    offsets: Any = None,
    tokenizer: Any = None,
    grid: "tuple[int, int] | None" = None,
    first: Sequence[str] = (),
    nodes: Any = None,
) -> list[Axis]:
    """The axes that label() was given, one for each item."""
    if sum(x is not None for x in (tokens, grid, nodes)) > 1 or (grid is not None and text is not None):
        raise ValueError("label() takes one of tokens= or text= (a sequence), grid= (patches of an image), nodes=.")
    if nodes is not None:
        return [Axis([str(name) for name in nodes], kind="nodes")]
    if grid is not None:
        height, width = (int(x) for x in grid)
        return [
            Axis(
                [*first, *(f"{y},{x}" for y in range(height) for x in range(width))],
                kind="patches",
                grid=(height, width),
            )
        ]
    texts = text if isinstance(text, (list, tuple)) else None if text is None else [text]
    if tokens is None and texts is None:
        raise ValueError("label() needs tokens=, text= (with offsets= or tokenizer=), grid= or nodes=.")
    if tokens is None:
        assert texts is not None
        if offsets is not None:
            given = offsets.tolist() if hasattr(offsets, "tolist") else list(offsets)
            given = given if len(texts) > 1 or (given and _nested(given)) else [given]
            return [axis_of_offsets(t, o) for t, o in zip(texts, given, strict=True)]
        if tokenizer is None:
            raise ValueError("label(text=...) needs offsets= (of a tokenizer's return_offsets_mapping) or tokenizer=.")
        made = [axis_of_text(t, tokenizer) for t in texts]
        return [
            axis or axis_of_ids(tokenizer(t)["input_ids"], tokenizer, t) for axis, t in zip(made, texts, strict=True)
        ]
    given = tokens.tolist() if hasattr(tokens, "tolist") else list(tokens)
    items = given if given and isinstance(given[0], (list, tuple)) else [given]
    if items[0] and isinstance(items[0][0], int):
        if tokenizer is None:
            raise ValueError("label(tokens=ids) needs tokenizer= to read ids.")
        texts = texts or [None] * len(items)
        return [axis_of_ids(ids, tokenizer, t) for ids, t in zip(items, texts, strict=True)]
    if texts is not None and offsets is not None:
        given = offsets.tolist() if hasattr(offsets, "tolist") else list(offsets)
        given = given if _nested(given) else [given]
        return [axis_of_offsets(t, o, names) for t, o, names in zip(texts, given, items, strict=True)]
    return [Axis([str(name) for name in names]) for names in items]


def _nested(offsets: list[Any]) -> bool:
    """Whether these are offsets of several items: three deep."""
    return bool(offsets) and bool(offsets[0]) and isinstance(offsets[0][0], (list, tuple))


def axis_of_text(text: str, tokenizer: Any, ids: Sequence[int] | None = None) -> Axis | None:
    """The tokens of a text by its own letters; None where the tokenizer has no offsets or gives other ids."""
    if not getattr(tokenizer, "is_fast", False):
        return None
    cut = {} if ids is None else {"truncation": True, "max_length": max(1, len(ids))}
    for special in (True, False):
        found = tokenizer(text, return_offsets_mapping=True, add_special_tokens=special, **cut)
        got = list(found["input_ids"])
        if ids is None or got == list(ids):
            return axis_of_offsets(text, found["offset_mapping"], pieces(tokenizer, got))
    return None


def axis_of_offsets(text: str, offsets: Sequence[Any], fallback: Sequence[str] | None = None) -> Axis:
    spans = [(int(start), int(stop)) for start, stop in offsets]
    for start, stop in spans:
        if not 0 <= start <= stop <= len(text):
            raise ValueError(f"label(offsets) has ({start}, {stop}), expected places in a text of {len(text)} letters.")
    names = [text[a:b] if a < b else (fallback[i] if fallback else "") for i, (a, b) in enumerate(spans)]
    return Axis(names, text, spans)


def axis_of_ids(ids: Sequence[int], tokenizer: Any, text: str | None = None) -> Axis:
    """Tokens from ids: by the text they were read from, if that gives the same ids, else piece by piece."""
    ids = [int(i) for i in ids]
    if text is None:
        text = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return axis_of_text(text, tokenizer, ids) or _axis_of_pieces(pieces(tokenizer, ids))


def _axis_of_pieces(names: list[str]) -> Axis:
    """A text put together from pieces: by the spaces they bring, or with spaces between those that bring none."""
    spaced, text, spans = any(name[:1].isspace() for name in names), "", []
    for name in names:
        goes_on = spaced or name.startswith("##") or not text
        text, name = text if goes_on else text + " ", name.removeprefix("##")
        spans.append((len(text), len(text) + len(name)))
        text += name
    return Axis([text[a:b] for a, b in spans], text, spans)


def pieces(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Each token by itself, readable: bytes that are part of a letter stand as the letter, which they share."""
    made = [tokenizer.decode([i], clean_up_tokenization_spaces=False) for i in ids]
    raw = tokenizer.convert_ids_to_tokens(list(ids))
    made = [
        " " + name if str(r).startswith("▁") and not name.startswith(" ") else name
        for name, r in zip(made, raw, strict=True)
    ]
    place = 0
    while place < len(made):
        if "\ufffd" in made[place]:
            for stop in range(place + 2, min(place + 5, len(made) + 1)):  # a letter has up to 4 bytes
                whole = tokenizer.decode(list(ids[place:stop]), clean_up_tokenization_spaces=False)
                if "\ufffd" not in whole:
                    made[place:stop] = [whole] * (stop - place)
                    place = stop - 1
                    break
        place += 1
    return made
