"""What the rows and columns of a recorded map are called: tokens by their source text, patches by place, nodes by name.

A record has up to two axes for each item of its batch: the source (what an encoder, or a model of one sequence, reads)
and the target (what a decoder writes). Which of them a map has on its rows and columns follows from its site.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.maps import AttentionMap, PerItem

SIDES = ("source", "target")
CROSS = re.compile(r"cross|enc_?dec|encoder_attn|encoder_attention|decoder\.layers\.\d+\.multihead_attn", re.IGNORECASE)
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


Run = dict[str, list[Axis]]  # by side, one axis for each item of the batch


@dataclass
class Labels:
    """The axes of each run of a model that a record heard, and which run each map is of (the first unless told)."""

    runs: list[Run] = field(default_factory=list)
    run_of: dict[str, int] = field(default_factory=dict)

    def put(self, maps: Iterable[tuple[str, AttentionMap]]) -> None:
        """Give every map its rows and columns, in the order in which they ran."""
        maps = list(maps)
        named = self.names([(name, amap.lead, amap.n, amap.m) for name, amap in maps])
        for name, amap in maps:
            amap.rows, amap.columns = named[name]

    def names(self, maps: Iterable[tuple[str, tuple[int, ...], int, int]]) -> dict[str, tuple[Any, Any]]:
        """Rows and columns by name, from the name, the leading axes, n and m of each map."""
        seen: Counter[tuple[str, int]] = Counter()
        made = {}
        for name, lead, n, m in maps:
            run = self.run_of.get(name, 0)
            path = re.sub(r":\d+$", "", name)
            made[name] = self._of(path, run, lead, n, m, seen[path, run])
            seen[path, run] += n
        return made

    def _of(self, path: str, run: int, lead: tuple[int, ...], n: int, m: int, before: int) -> tuple[Any, Any]:
        query, key = self._sides(path, run)
        if query is None or key is None:
            return None, None
        rows = [_part(row.names, m - n if query is key else before if before + n <= len(row.names) else 0, n)
                for row in query]  # fmt: skip
        columns = [_part(column.names, 0, m) for column in key]
        items = lead[0] if len(lead) > 1 else 1
        return _shared(rows, items), _shared(columns, items)

    def _sides(self, path: str, run: int) -> tuple["list[Axis] | None", "list[Axis] | None"]:
        axes = self.runs[run] if run < len(self.runs) else {}
        source, target = axes.get("source"), axes.get("target")
        if target is None:
            return source, source
        if CROSS.search(path):
            return target, source
        side = target if re.search(r"(^|[._])decoder([._]|$)", path) else source
        return side, side


def _part(names: list[str], first: int, count: int) -> list[str] | None:
    """Queries stand at the end of their keys; in cross-attention, one step after the other."""
    return names[first : first + count] if 0 <= first <= len(names) - count else None


def _shared(found: "list[list[str] | None]", items: int) -> Any:
    if not found or any(x is None for x in found):
        return None
    if all(x == found[0] for x in found):
        return found[0]
    return PerItem(tuple(x or () for x in found)) if len(found) == items else None


# tokenizers


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


class Heard:
    """Hears the ids that a model is given, from call to call of a generation, by hooks on the model alone."""

    def __init__(self, model: Any, tokenizer: Any):
        self.tokenizer = tokenizer
        self.runs: list[dict[str, list[list[int]]]] = []
        self.handles = [
            module.register_forward_pre_hook(self._hook(side), with_kwargs=True)
            for side, module in self._parts(model).items()
        ]

    @staticmethod
    def _parts(model: Any) -> dict[str, Any]:
        if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
            return {"source": model.get_encoder(), "target": model.get_decoder()}
        return {"source": model}

    def _hook(self, side: str) -> Any:
        def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            ids = kwargs.get("input_ids", args[0] if args else None)
            if ids is None or not hasattr(ids, "ndim") or ids.ndim != 2 or ids.is_floating_point():
                return
            length = getattr(kwargs.get("past_key_values"), "get_seq_length", None)
            before = 0 if length is None else int(length())
            self._next(side, ids.tolist(), before)

        return hook

    def _next(self, side: str, rows: list[list[int]], before: int) -> None:
        """More of the sequences of this run, or the first of the next one."""
        now = self.runs[-1] if self.runs else {}
        old = now.get(side)
        if before and old is not None and len(old) == len(rows) and all(len(x) >= before for x in old):
            now[side] = [x[:before] + row for x, row in zip(old, rows, strict=True)]
        elif self.runs and (old is None or [row[: len(x)] for x, row in zip(old, rows, strict=False)] == old):
            now[side] = rows
        else:
            self.runs.append({**{other: ids for other, ids in now.items() if side == "target"}, side: rows})

    @property
    def run(self) -> int:
        return max(0, len(self.runs) - 1)

    def stop(self) -> None:
        while self.handles:
            self.handles.pop().remove()

    def axes(self) -> list[Run]:
        return [{side: [axis_of_ids(row, self.tokenizer) for row in rows] for side, rows in run.items()}
                for run in self.runs]  # fmt: skip


# what a user says


def axes_of(
    tokens: Any = None, text: Any = None, offsets: Any = None, tokenizer: Any = None,
    grid: "tuple[int, int] | None" = None, first: Sequence[str] = (), nodes: Any = None,
) -> list[Axis]:  # fmt: skip
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


def axis_of(labels: Labels, item: int, side: str) -> Axis:
    """One axis of the first run; an error that says what to do where there is none."""
    axes = labels.runs[0].get(side) if labels.runs else None
    if not axes:
        raise ValueError(f"This record has no {side} labels: use record(model, tokenizer=...), or rec.label(text=..., "
                         "tokenizer=...).")  # fmt: skip
    if not -len(axes) <= item < len(axes):
        raise IndexError(f"There are labels for {len(axes)} items, not for item {item}.")
    return axes[item]


def by_word(labels: Labels, amap: AttentionMap, item: int) -> AttentionMap:
    """One item's map (H, words, words), named by its words."""
    path = re.sub(r":\d+$", "", amap.site or "")
    query, key = labels._sides(path, labels.run_of.get(amap.site or "", 0))
    if query is None or key is None or amap.rows is None or amap.columns is None:
        raise ValueError(f"The map of {amap.site!r} has no labels of its own length: label(text=..., tokenizer=...).")
    row, column = query[item if len(query) > 1 else 0], key[item if len(key) > 1 else 0]
    one = amap[item] if len(amap.lead) > 1 else amap
    first = amap.m - amap.n if query is key else 0
    rows = [(a - first, b - first) for a, b in row.words() if a >= first and b - first <= amap.n]
    columns = [(a, b) for a, b in column.words() if b <= amap.m]
    made = one.group(rows, columns)
    made.site = amap.site
    made.rows = [row.name_of((a + first, b + first)) for a, b in rows]
    made.columns = [column.name_of(span) for span in columns]
    return made


def described(model: Any) -> dict[str, Any]:
    """A model for people: class, name, number of parameters, type. A folder's name stands without its path."""
    if model is None:
        return {}
    made: dict[str, Any] = {"class": type(model).__name__}
    name = getattr(getattr(model, "config", None), "name_or_path", None) or getattr(model, "name_or_path", None)
    if isinstance(name, str) and name:
        made["name"] = name.replace("\\", "/").rstrip("/").rpartition("/")[2] if os.path.isabs(name) else name
    parameters = list(model.parameters())
    made["parameters"] = sum(p.numel() for p in parameters)
    if parameters:
        made["dtype"] = str(parameters[0].dtype).removeprefix("torch.")
    return made
