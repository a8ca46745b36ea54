"""`regard show`: draw all heads of a record, one head, or one row."""

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import chain

from rich.console import Console
from rich.text import Text

from regard.core.maps.attention_map import AttentionMap
from regard.core.printable import printable
from regard.recording.io.loading import load
from regard.recording.record import Record

from ..page import maps_of
from ..payload.site_payload import join_steps, short_name, single_map
from .map_text import head_lines, map_lines, row_lines


def show_record(
    path: "str | os.PathLike[str]",
    console: Console,
    head: str | None = None,
    row: int | None = None,
    top: int = 5,
    item: int = 0,
) -> None:
    """Draw a record file with characters, in colour if the console supports it."""
    rec = load(path)
    colour = console.color_system is not None and not console.no_color
    if head is None:
        if row is not None:
            raise ValueError("--row needs --head, such as --head 3.5: layer 3, head 5.")
        maps_of(rec, item)  # raises if there is no such item
        drawn: Iterator[Text] = chain(map_lines(rec, console.width, colour, item), _without_maps(rec))
    else:
        drawn = _one(rec, console.width, colour, head, row, top, item)
    for line in drawn:
        console.print(line, no_wrap=True, overflow="crop", highlight=False)


def _without_maps(rec: Record) -> Iterator[Text]:
    """What ran and has no map."""
    for name, entries in (("missed", rec.missed), ("no attention", rec.other)):
        for text, count in entries.items():
            yield Text(f"{name}: {printable(text)} ({count})")


def _one(rec: Record, width: int, colour: bool, head: str, row: int | None, top: int, item: int) -> Iterator[Text]:
    name, amap = head_of({name: single_map(group) for name, group in join_steps(maps_of(rec, item)).items()}, head)
    if row is not None and not -amap.n <= row < amap.n:
        raise ValueError(f"--row {row}: this map has {amap.n} rows, 0 to {amap.n - 1}.")
    title = f"{printable(name)}, head {head.rpartition('.')[2]}: {amap.n:,} queries, {amap.m:,} keys"
    yield Text(title, "bold" if colour else "")
    yield from head_lines(amap, width, colour) if row is None else row_lines(amap, row % amap.n, top, width, colour)


def head_of(maps: "dict[str, AttentionMap]", asked: str) -> tuple[str, AttentionMap]:
    """The head of `3.5`: head 5 of layer 3; instead of the layer, a site name or a pattern."""
    site, _, number = asked.rpartition(".")
    fits = [name for place, name in enumerate(maps) if site in (short_name(name, place), name)]
    fits = fits or [name for name in maps if fnmatchcase(name, site)]
    if len(fits) != 1 or not number.isdigit():
        said = f"{len(fits)} sites fit {site!r}" if site and number.isdigit() else "expected SITE.HEAD"
        known = ", ".join((fits or list(maps))[:8]) + (", ..." if len(fits or maps) > 8 else "")
        raise ValueError(
            f"--head {asked}: {said}. Sites: {known}. 3.5 is head 5 of layer 3; instead of the layer, "
            "a site name or a pattern."
        )
    amap = maps[fits[0]]
    if int(number) >= amap.heads:
        raise ValueError(f"--head {asked}: {fits[0]} has {amap.heads} heads, 0 to {amap.heads - 1}.")
    return fits[0], amap[int(number)] if amap.lead else amap
