"""Binary payloads of a record for the web application: an outline first, then sites and heads on demand.

A payload has the same contents as in an HTML page (views/payload), as bytes:

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

from ..page import maps_of
from ..payload.arrays import Blobs
from ..payload.diff_payload import difference_payloads, differences_by_site
from ..payload.graph_payload import GraphPayload
from ..payload.site_payload import SAMPLED_ROWS, is_large, join_steps, outline, site_payload, site_payloads
from ..terminal.record_summary import record_facts, source_text
from .jobs import Job

COMPARED_NAMES = ("after", "before")


class View:
    """An open record, alone or compared with another. `origin` identifies its file, if it has one."""

    def __init__(
        self,
        rec: Record,
        title: str,
        origin: "tuple[str, str] | None" = None,
        beside: Record | None = None,
        compared: tuple[str, str] = COMPARED_NAMES,
    ):
        self.rec, self.title, self.origin, self.beside, self.compared = rec, title, origin, beside, compared
        self.groups: dict[str, list[AttentionMap]] = join_steps(maps_of(rec))
        self.pairs: dict[str, Difference] | None = None
        self.only: list[list[str]] = [[], []]
        if beside is not None:
            self.pairs, self.only = differences_by_site(self.groups, join_steps(maps_of(beside)))
            self.groups = {name: [both] for name, both in self.pairs.items()}
        self.names = list(self.groups)
        self.wait_for_heads: Callable[[Job], None] = lambda job: (
            None
        )  # payloads of heads take precedence over thumbnails
        self.drawn = self.pairs is None and bool(GraphPayload(self.groups).ran)  # graphs are sent as one payload
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
            "facts": record_facts(self.rec),
            "text": source_text(self.rec),
            "sites": sites,
            "drawn": self.drawn,
        }
        if self.beside is not None:
            other = source_text(self.beside)
            made["beside"] = {
                "names": self.compared,
                "text": other if other != made["text"] else "",
                "only": self.only,
            }
        return made

    def group(self, site: int) -> list[AttentionMap]:
        if not 0 <= site < len(self.names):
            raise IndexError(
                f"site {site}: this record has {len(self.names)} sites, expected 0 to {len(self.names) - 1}."
            )
        return self.groups[self.names[site]]

    @cached_property
    def top(self) -> float:
        """Largest |difference|, over up to 512 rows of each site."""
        most = 0.0
        for both in (self.pairs or {}).values():
            for rows in torch.arange(0, both.n, max(1, -(-both.n // SAMPLED_ROWS))).split(64):
                if both.m:
                    most = max(most, float(both.band(rows, slice(0, both.m)).abs().max()))
        return most

    def _part(self, site: int, head: int | None, blobs: Blobs) -> dict[str, Any]:
        group = self.group(site)
        if head is not None:
            group = [amap[head] if amap.lead else amap for amap in group]
        if not isinstance(group[0], Difference):
            return site_payload(group, blobs)
        (made,) = difference_payloads({self.names[site]: group[0]}, blobs, top=self.top)
        return made

    def head_payload(self, site: int, head: int) -> bytes:
        """Payload of a site, or of one head if the site is large."""
        heads = self.group(site)[0].heads
        if not 0 <= head < heads:
            raise IndexError(f"head {head}: this site has {heads} heads, expected 0 to {heads - 1}.")
        blobs = Blobs(quick=True)
        return pack(self._part(site, head if self.large[site] else None, blobs), blobs)

    def graph_payload(self, job: Job) -> bytes:
        """Payload of all sites, as in an HTML page."""
        blobs, graphs = Blobs(quick=True), GraphPayload(self.groups)
        sites = site_payloads(self.groups, blobs, job.step, graphs=graphs)
        return pack(self.about() | {"sites": sites, "graphs": graphs.about}, blobs)

    def overview(self, site: int, job: Job) -> bytes:
        """Thumbnails and statistics of all heads of a site; of both maps when two are compared."""
        heads: list[int | None] = list(range(self.group(site)[0].heads)) if self.large[site] else [None]
        made = []
        for done, head in enumerate(heads):
            job.step(done, len(heads))
            self.wait_for_heads(job)
            blobs = Blobs(quick=True)
            made.append(_thumbnails_of(self._part(site, head, blobs), blobs))
        blobs = Blobs(quick=True)
        return pack(_concatenated(made, blobs), blobs)


def _thumbnails_of(found: dict[str, Any], blobs: Blobs) -> dict[str, Any]:
    """Thumbnails (as arrays) and statistics of a payload."""
    code = found["thumbs"]
    raw = np.frombuffer(gzip.decompress(blobs.packed[code["blob"]]), np.uint8)
    made: dict[str, Any] = {"thumbs": raw.reshape(code["shape"])}
    if "numbers" in found:
        made["numbers"] = found["numbers"]
    if "beside" in found:
        made["beside"] = {side: _thumbnails_of(found["beside"][side], blobs) for side in ("other", "difference")}
    return made


def _concatenated(parts: list[dict[str, Any]], blobs: Blobs) -> dict[str, Any]:
    made: dict[str, Any] = {"thumbs": blobs.add(np.concatenate([each["thumbs"] for each in parts]))}
    if "numbers" in parts[0]:
        made["numbers"] = [one for each in parts for one in each["numbers"]]
    if "beside" in parts[0]:
        made["beside"] = {
            side: _concatenated([each["beside"][side] for each in parts], blobs) for side in ("other", "difference")
        }
    return made


def pack(about: dict[str, Any], blobs: Blobs) -> bytes:
    text = json.dumps(about | {"sizes": [len(each) for each in blobs.packed]}).encode()
    return b"".join([struct.pack("<I", len(text)), text, *blobs.packed])
