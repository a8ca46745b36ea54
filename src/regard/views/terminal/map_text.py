"""Maps drawn with characters: `print(amap)`, `regard show`.

In colour a cell is two spaces on a coloured background; without colour it is a character of increasing density, from a
dot to @. Both scale with the square root of the weight, as pages do.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions
from rich.style import Style
from rich.text import Text

from regard.core.maps.attention_map import AttentionMap

from ..page import maps_of
from ..payload.site_payload import join_steps, short_name, single_map
from ..payload.thumbnails import PooledHeads, pool_heads
from ..token_text import display_names

RAMP = ["#191a20", "#3a2410", "#6e3f0e", "#b46a12", "#ee9d2b", "#ffd07a", "#fff6dc"]
COLD = ["#191a20", "#0f2a38", "#124a63", "#1b7397", "#41a3c9", "#8fd0ea", "#e2f5fd"]  # of negative weights
DENSE = " .:-=+*#%@"
WIDTH = 80
MAX_ROWS = 40  # maximum lines of one head
MAX_LABEL = 14  # maximum columns of a row label
MAX_COLUMN_LETTERS = 8  # maximum characters of a column label
MAX_SITES = 64  # maximum sites of a record
MAX_WEIGHTS = 1 << 26  # maximum weights that print() computes


def plain(what: Any, width: int = WIDTH) -> str:
    """Plain text, as `print` shows it."""
    return "\n".join(line.plain.rstrip() for line in map_lines(what, width, False))


def drawn(what: Any, console: Console, options: ConsoleOptions) -> Iterator[Text]:
    """Rendering for rich, in colour if the console supports it."""
    colour = console.color_system is not None and not console.no_color
    for line in map_lines(what, options.max_width, colour):
        line.no_wrap, line.overflow = True, "crop"
        yield line


def map_lines(what: Any, width: int, colour: bool, item: int = 0) -> Iterator[Text]:
    """Lines of a map or a record: one head in full, several as thumbnails; of one batch item."""
    yield Text(repr(what))
    if isinstance(what, AttentionMap) and not (what.n and what.m):
        return
    try:
        groups = join_steps(maps_of(what, item))
    except ValueError:  # no maps, or an empty batch
        return
    if sum(_cost(amap) for group in groups.values() for amap in group) > MAX_WEIGHTS:
        yield Text(
            "Too many weights for print(): call amap.pyramid() first (it is cached), or print one head: amap[0, 3]."
        )
        return
    if len(groups) == 1 and next(iter(groups.values()))[0].heads == 1:
        yield from head_lines(single_map(next(iter(groups.values()))), width, colour)
    else:
        yield from thumbnail_lines(groups, width, colour)


def _cost(amap: AttentionMap) -> int:
    return 0 if amap._pyramid is not None else amap.heads * amap.n * amap.m


def head_lines(amap: AttentionMap, width: int = WIDTH, colour: bool = True) -> Iterator[Text]:
    """One head: queries at the left, keys above, and the largest weight of each row if there is space."""
    names, keys = display_names(amap.rows, amap.n), display_names(amap.columns, amap.m)
    if amap.n > MAX_ROWS:
        label = 2 * len(str(amap.n)) + 1
    else:
        label = min(MAX_LABEL, max(map(cell_len, names)), max(1, width // 4))
    found = pool_heads(amap, MAX_ROWS, max(1, (width - label - 1) // 2))
    grid = found.peak[0]
    if found.tall > 1:
        names = _ranges(amap.n, found.tall)
    if found.wide == 1:
        yield from _upright(keys, label, amap.columns is None or len(amap.columns) != amap.m)
    else:
        ends = str(amap.m - 1)
        yield Text(" " * (label + 1) + "0".ljust(max(1, 2 * grid.shape[1] - len(ends))) + ends, "dim")
    top = float(np.nanmax(np.abs(grid), initial=0.0))
    spare = width - label - 1 - 2 * grid.shape[1] - 4
    single = found.tall == found.wide == 1
    for i, row in enumerate(grid):
        line = Text(set_cell_size(names[i], label) + " ")
        for weight in row:
            line.append_text(_cell(float(weight), top, colour, 2))
        if single and spare >= 10:
            j = int(np.nanargmax(np.nan_to_num(np.abs(row))))
            if row[j]:
                written = f"{row[j]:.2f}"
                name = _cut(keys[j], spare - len(written) - 1)
                line.append(f"  → {name} {written}", "dim" if colour else "")
        yield line
    yield _legend(found, top, colour)


def row_lines(amap: AttentionMap, i: int, top: int, width: int = WIDTH, colour: bool = True) -> Iterator[Text]:
    """One row: the text shaded by its weights, then the largest as bars."""
    w = amap.row(i).reshape(-1, amap.m).double().mean(0).cpu().numpy()
    names, keys = display_names(amap.rows, amap.n), display_names(amap.columns, amap.m)
    most = float(np.nanmax(np.abs(w), initial=0.0))
    yield Text(f"row {i % amap.n} {names[i]!r} attends to" if amap.rows is not None else f"row {i % amap.n} attends to")
    if amap.columns is not None and len(keys) <= 400:
        for line in _words(keys, w, most, width):
            yield line if colour else Text(line.plain)
        yield Text("")
    best = np.argsort(-np.abs(np.nan_to_num(w)), kind="stable")[:top]
    label = min(24, max((cell_len(keys[j]) for j in best), default=1))
    places = len(str(amap.m - 1))
    for j in best:
        long = max(1, width - label - places - 14)
        bar = round(long * abs(float(w[j])) / most) if most else 0
        line = Text(f"{w[j]:8.4f}  {set_cell_size(_cut(keys[j], label), label)} {j:>{places}}  ")
        line.append(("█" if colour else "#") * bar, Style(color=RAMP[4]) if colour else "")
        yield line


def thumbnail_lines(groups: "dict[str, list[AttentionMap]]", width: int = WIDTH, colour: bool = True) -> Iterator[Text]:
    """Thumbnails of all heads, a line for each site; each scaled to its own maximum."""
    shorts = {name: short_name(name, place) for place, name in enumerate(groups)}
    label = min(MAX_LABEL, max(map(len, shorts.values())))
    heads = max(group[0].heads for group in groups.values())
    across = max(1, min(heads, (width - label - 1) // 5))
    side = max(4, min(12, (width - label - 1) // across - 1)) // 2 * 2
    yield Text(f"{len(groups)} sites × {heads} heads" if len(groups) > 1 else f"{heads} heads", "dim" if colour else "")
    for name in list(groups)[:MAX_SITES]:
        amap = single_map(groups[name])
        found = pool_heads(amap, side if colour else side // 2, side)
        for first in range(0, amap.heads, across):
            part = range(first, min(amap.heads, first + across))
            yield Text(
                " " * (label + 1) + "".join(f"{shorts[name]}.{h}".ljust(side + 1)[: side + 1] for h in part),
                "dim" if colour else "",
            )
            for y in range(side // 2):
                line = Text((shorts[name] if y == 0 and first == 0 else "").ljust(label)[:label] + " ")
                for h in part:
                    line.append_text(_tile(found.peak[h], y, side, colour))
                    line.append(" ")
                yield line
    if len(groups) > MAX_SITES:
        yield Text(f"... and {len(groups) - MAX_SITES} sites more")
    scale = "brighter" if colour else "denser"
    yield Text(f"{scale}: larger weight (square-root scale), each head scaled to its maximum", "dim" if colour else "")


def _tile(grid: NDArray[Any], y: int, side: int, colour: bool) -> Text:
    """One line of a thumbnail; in colour it has two rows of cells, as upper and lower half blocks."""
    top = float(np.nanmax(np.abs(grid), initial=0.0))
    made = Text()
    rows, cols = grid.shape
    for x in range(side):
        j = x * cols // side
        if not colour:
            made.append_text(_cell(float(grid[y * rows // (side // 2), j]), top, False, 1))
            continue
        upper, lower = (float(grid[(2 * y + half) * rows // side, j]) for half in (0, 1))
        made.append("▀", Style(color=_shade(upper, top), bgcolor=_shade(lower, top)))
    return made


def _cell(weight: float, top: float, colour: bool, wide: int) -> Text:
    if colour:
        return Text(" " * wide, Style(bgcolor=_shade(weight, top)))
    share = _share(weight, top)
    sign = "-" if weight < 0 and wide > 1 else ""
    dense = DENSE[0 if share == 0 else max(1, math.ceil(share * (len(DENSE) - 1)))]
    return Text(sign + dense * (wide - len(sign)))


def _share(weight: float, top: float) -> float:
    return min(1.0, math.sqrt(abs(weight) / top)) if top and math.isfinite(weight) else 0.0


def _shade(weight: float, top: float) -> str:
    """A colour interpolated on the ramp."""
    ramp = COLD if weight < 0 else RAMP
    place = _share(weight, top) * (len(ramp) - 1)
    low = min(int(place), len(ramp) - 2)
    ends = [[int(ramp[k][x : x + 2], 16) for x in (1, 3, 5)] for k in (low, low + 1)]
    mixed = [round(a + (b - a) * (place - low)) for a, b in zip(*ends, strict=True)]
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def _legend(found: PooledHeads, top: float, colour: bool) -> Text:
    made = Text("0 ")
    if colour:
        for k in range(16):
            made.append(" ", Style(bgcolor=_shade(top * (k / 15) ** 2, top)))
    else:
        made.append(f"[{DENSE}]")
    return made.append(f" {top:.3g}  {found.legend}, root scale")


def _upright(keys: Sequence[str], label: int, numbers: bool) -> Iterator[Text]:
    """Column labels, written vertically; indices on one line if they fit."""
    if numbers and len(keys) <= 100:
        yield Text(" " * (label + 1) + "".join(f"{j:<2}" for j in range(len(keys))), "dim")
        return
    stacks = [_letters(name) for name in keys]
    stacks = [
        stack if len(stack) <= MAX_COLUMN_LETTERS else [*stack[: MAX_COLUMN_LETTERS - 1], "…"] for stack in stacks
    ]
    tall = max(map(len, stacks), default=0)
    for y in range(tall):
        line = [set_cell_size(stack[y - tall + len(stack)], 2) if y >= tall - len(stack) else "  " for stack in stacks]
        yield Text(" " * (label + 1) + "".join(line))


def _letters(name: str) -> list[str]:
    """Characters with their combining marks."""
    made: list[str] = []
    for c in name:
        if made and cell_len(c) == 0:
            made[-1] += c
        else:
            made.append(c)
    return made


def _cut(name: str, most: int) -> str:
    return name if cell_len(name) <= most else set_cell_size(name, max(0, most - 1)) + "…"


def _ranges(count: int, step: int) -> list[str]:
    return [f"{a}–{min(count, a + step) - 1}" for a in range(0, count, step)]


def _words(keys: Sequence[str], w: NDArray[Any], top: float, width: int) -> Iterator[Text]:
    """Running text shaded by weight, in black or white for contrast."""
    line, used = Text(), 0
    for key, weight in zip(keys, w, strict=True):
        name = _cut(key, width)
        if used + cell_len(name) > width:
            yield line
            line, used = Text(), 0
        shade = _shade(float(weight), top)
        bright = sum(int(shade[x : x + 2], 16) for x in (1, 3, 5)) > 380
        line.append(name, Style(bgcolor=shade, color="#000000" if bright else "#f4f0e6"))
        line.append(" ")
        used += cell_len(name) + 1
    yield line
