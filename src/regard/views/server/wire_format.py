"""A record as a page reads it over the wire: described at once, its sites cut out when they are looked at.

A cut is what a page in one file carries of the same site (views/payload.py), as bytes:

    4 bytes    length of the JSON
    JSON       the site's form, and the length of each array
    arrays     one after the other
"""

import gzip
import json
import struct
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from regard.core.maps.attention_map import AttentionMap
from regard.core.maps.difference import Difference
from regard.recording.record import Record

from ..arrays import Blobs
from ..diff_payload import carried, pairs_of
from ..graph_payload import Drawing
from ..page import maps_of
from ..payload import SAMPLE, bundle, is_large, joined, outline, part
from ..terminal.record_summary import facts, text_of
from .jobs import Job

NAMES = ("changed", "before")


class View:
    """A record that is looked at, alone or beside another. `origin` says where its file is, if it has one."""

    def __init__(self, rec: Record, title: str, origin: "tuple[str, str] | None" = None, beside: Record | None = None):
        self.rec, self.title, self.origin, self.beside = rec, title, origin, beside
        self.groups: dict[str, list[AttentionMap]] = joined(maps_of(rec))
        self.pairs: dict[str, Difference] | None = None
        self.only: list[list[str]] = [[], []]
        if beside is not None:
            self.pairs, self.only = pairs_of(self.groups, joined(maps_of(beside)))
            self.groups = {name: [both] for name, both in self.pairs.items()}
        self.names = list(self.groups)
        self.after_others: Callable[[Job], None] = lambda job: None  # what is looked at comes before what is glanced at
        self.drawn = self.pairs is None and bool(Drawing(self.groups).ran)  # graphs, which are read whole
        self.large = [is_large(self._own(group)) for group in self.groups.values()]

    def _own(self, group: Sequence[AttentionMap]) -> Sequence[AttentionMap]:
        return [amap.this if isinstance(amap, Difference) else amap for amap in group]

    def about(self) -> dict[str, Any]:
        sites = []
        for place, (name, group) in enumerate(self.groups.items()):
            sites.append(outline(name, group, place) | {"large": self.large[place]})
            if isinstance(group[0], Difference):
                sites[-1]["beside"] = {"rows": group[0].row_axis.marks, "columns": group[0].column_axis.marks}
        made = {
            "version": 1,
            "title": self.title,
            "facts": facts(self.rec),
            "text": text_of(self.rec),
            "sites": sites,
            "drawn": self.drawn,
        }
        if self.beside is not None:
            made["beside"] = {"names": NAMES, "text": "", "only": self.only}
        return made

    def group(self, site: int) -> list[AttentionMap]:
        if not 0 <= site < len(self.names):
            raise IndexError(
                f"site {site}: this record has {len(self.names)} sites, expected 0 to {len(self.names) - 1}."
            )
        return self.groups[self.names[site]]

    @cached_property
    def top(self) -> float:
        """The farthest that a weight moved, in up to 512 rows of each site."""
        most = 0.0
        for both in (self.pairs or {}).values():
            for rows in torch.arange(0, both.n, max(1, -(-both.n // SAMPLE))).split(64):
                if both.m:
                    most = max(most, float(both.band(rows, slice(0, both.m)).abs().max()))
        return most

    def _part(self, site: int, head: int | None, blobs: Blobs) -> dict[str, Any]:
        group = self.group(site)
        if head is not None:
            group = [amap[head] if amap.lead else amap for amap in group]
        if not isinstance(group[0], Difference):
            return part(group, blobs)
        (made,) = carried({self.names[site]: group[0]}, blobs, top=self.top)
        return made

    def cut(self, site: int, head: int) -> bytes:
        """A site, or one head of a large one."""
        heads = self.group(site)[0].heads
        if not 0 <= head < heads:
            raise IndexError(f"head {head}: this site has {heads} heads, expected 0 to {heads - 1}.")
        blobs = Blobs(quick=True)
        return packed(self._part(site, head if self.large[site] else None, blobs), blobs)

    def whole(self, job: Job) -> bytes:
        """Everything at once, as a page in one file has it."""
        blobs, graphs = Blobs(quick=True), Drawing(self.groups)
        sites = bundle(self.groups, blobs, job.step, graphs=graphs)
        return packed(self.about() | {"sites": sites, "graphs": graphs.about}, blobs)

    def glance(self, site: int, job: Job) -> bytes:
        """Every head of a site in small, and its numbers; of both where there are two."""
        heads: list[int | None] = list(range(self.group(site)[0].heads)) if self.large[site] else [None]
        made = []
        for done, head in enumerate(heads):
            job.step(done, len(heads))
            self.after_others(job)
            blobs = Blobs(quick=True)
            made.append(_small(self._part(site, head, blobs), blobs))
        blobs = Blobs(quick=True)
        return packed(_together(made, blobs), blobs)


def _small(found: dict[str, Any], blobs: Blobs) -> dict[str, Any]:
    """What a glance needs of a part, its heads in small as arrays."""
    code = found["thumbs"]
    raw = np.frombuffer(gzip.decompress(blobs.packed[code["blob"]]), np.uint8)
    made: dict[str, Any] = {"thumbs": raw.reshape(code["shape"])}
    if "numbers" in found:
        made["numbers"] = found["numbers"]
    if "beside" in found:
        made["beside"] = {side: _small(found["beside"][side], blobs) for side in ("other", "difference")}
    return made


def _together(parts: list[dict[str, Any]], blobs: Blobs) -> dict[str, Any]:
    made: dict[str, Any] = {"thumbs": blobs.add(np.concatenate([each["thumbs"] for each in parts]))}
    if "numbers" in parts[0]:
        made["numbers"] = [one for each in parts for one in each["numbers"]]
    if "beside" in parts[0]:
        made["beside"] = {
            side: _together([each["beside"][side] for each in parts], blobs) for side in ("other", "difference")
        }
    return made


def packed(about: dict[str, Any], blobs: Blobs) -> bytes:
    text = json.dumps(about | {"sizes": [len(each) for each in blobs.packed]}).encode()
    return b"".join([struct.pack("<I", len(text)), text, *blobs.packed])
