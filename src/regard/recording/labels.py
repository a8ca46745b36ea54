"""What the rows and columns of a recorded map are called: tokens by their source text, patches by place, nodes by name.

A record has up to two axes for each item of its batch: the source (what an encoder, or a model of one sequence, reads)
and the target (what a decoder writes). Which of them a map has on its rows and columns follows from its site.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..core.errors import within
from ..core.maps.attention_map import AttentionMap, PerItem
from .axes import Axis, Run

CROSS = re.compile(r"cross|enc_?dec|encoder_attn|encoder_attention|decoder\.layers\.\d+\.multihead_attn", re.IGNORECASE)


@dataclass
class Labels:
    """The axes of each run of a model that a record captured, and the run of each map (the first by default)."""

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
        rows = [
            _part(row.names, m - n if query is key else before if before + n <= len(row.names) else 0, n)
            for row in query
        ]
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


def axis_of(labels: Labels, item: int, side: str) -> Axis:
    """One axis of the first run; an error that says what to do where there is none."""
    axes = labels.runs[0].get(side) if labels.runs else None
    if not axes:
        raise ValueError(
            f"This record has no {side} labels: use record(model, tokenizer=...), or rec.label(text=..., "
            "tokenizer=...)."
        )
    return axes[within(item, len(axes), f"item={item}", "items with labels")]


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
