"""Which maps of a record are the layers of a model, in order, and which side each of them reads and writes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from regard.core.maps.attention_map import AttentionMap

from ..labels import CROSS

DECODER = re.compile(r"(^|[._])decoder([._]|$)")
PARTS = ("source", "target", "cross")


@dataclass(frozen=True)
class Layer:
    """One attention of a model. kind: "source" (self-attention of an encoder, or of a model of one sequence),
    "target" (self-attention of a decoder that also looks at a source), "cross" (that look)."""

    name: str
    kind: str
    map: AttentionMap


def layers_of(maps: Any, sites: str = "*") -> list[Layer]:
    """The layers of one forward pass, the first one first: of a record, of maps by site, or of maps in order."""
    by_site = getattr(maps, "maps", maps)
    if isinstance(by_site, Mapping):
        names = [name for name in by_site if fnmatchcase(name, sites)]
        _one_run(names)
        named = [(name, by_site[name]) for name in names]
    else:
        named = [(amap.site or f"layer {place}", amap) for place, amap in enumerate(by_site)]
    if not named:
        kept = getattr(maps, "keep", None)
        why = "keep='stats' keeps no maps" if kept == "stats" else f"sites={sites!r} fits none of those recorded"
        raise ValueError(f"There is no map to go through: {why}.")
    crossing = {name for name, _ in named if CROSS.search(name)}
    alone = not crossing or len(crossing) == len(named)  # one stack, whatever it is called
    made = [
        Layer(
            name,
            "source" if alone else "cross" if name in crossing else "target" if DECODER.search(name) else "source",
            amap,
        )
        for name, amap in named
    ]
    _fit(made)
    return made


def part_of(layers: list[Layer], part: str | None) -> str:
    """Which part of a model is asked for: the whole way to the source unless told."""
    kinds = {layer.kind for layer in layers}
    if part is None:
        return "cross" if "cross" in kinds else "source"
    if part not in PARTS:
        raise ValueError(f"part={part!r}: expected one of {', '.join(map(repr, PARTS))}.")
    if part not in kinds:
        raise ValueError(f"part={part!r}: this record has {', '.join(sorted(kinds))} attention alone.")
    return part


def _one_run(names: list[str]) -> None:
    """Two passes of one model are not one model of twice the depth. A layer that runs many times (ALBERT) is."""
    paths = [re.sub(r":\d+$", "", name) for name in names]
    period = len(set(paths))
    runs = len(paths) // max(1, period)
    if period > 1 and runs > 1 and paths == paths[:period] * runs:
        raise ValueError(
            f"This record has {runs} runs of the model ({names[0]} and {names[period]} are the same layer "
            "twice): record one forward pass, or pass the maps of one as a list."
        )


def _fit(layers: list[Layer]) -> None:
    sizes: dict[str, tuple[int, str]] = {}
    lead = layers[0].map.lead[:-1]
    for layer in layers:
        amap = layer.map
        if amap.lead[:-1] != lead:
            raise ValueError(
                f"{layer.name} has the leading axes {amap.lead}, {layers[0].name} {layers[0].map.lead}: "
                "all layers need the same items."
            )
        if layer.kind != "cross" and amap.n != amap.m:
            raise ValueError(
                f"{layer.name} has {amap.n} queries and {amap.m} keys, expected as many of both: record "
                "one forward pass over the whole text, not the steps of a generation."
            )
        sides = {"source": ("source", "source"), "target": ("target", "target"), "cross": ("target", "source")}
        for side, size in zip(sides[layer.kind], (amap.n, amap.m), strict=True):
            known, first = sizes.setdefault(side, (size, layer.name))
            if known != size:
                raise ValueError(
                    f"{layer.name} has {size} {side} tokens, {first} has {known}: layers that shorten the "
                    "sequence cannot be multiplied; choose those of one length by sites=."
                )
