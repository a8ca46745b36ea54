"""Offline HTML pages of maps: self-contained files without network access."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..core.maps.attention_map import AttentionMap
from ..core.maps.difference import Aligned, Difference
from ..core.maps.pyramid import Level, Pyramid
from ..recording.io.writing import write_whole
from ..recording.record import Record
from .html_shell import html_page
from .payload.annotations import Rationale, add_importance, rationale_payload
from .payload.arrays import Blobs
from .payload.diff_payload import compared_sites
from .payload.graph_payload import GraphNodes, GraphPayload
from .payload.pictures import picture_of
from .payload.site_payload import join_steps, site_payloads
from .terminal.record_summary import record_facts, source_text

MAX_PAGE_BYTES = 64_000_000  # maximum size of a page

Shown = AttentionMap | Record | Mapping[str, AttentionMap]


def save_html(
    what: Shown,
    path: "str | os.PathLike[str]",
    *,
    title: str | None = None,
    item: int = 0,
    sites: "Callable[[str], bool] | None" = None,
    beside: Shown | None = None,
    names: tuple[str, str] = ("this", "other"),
    rationale: Rationale | None = None,
    importance: "Mapping[str, Sequence[float]] | None" = None,
    nodes: GraphNodes | None = None,
    image: Any = None,
    progress: "Callable[[int, int], None] | None" = None,
) -> Path:
    """Write a self-contained HTML page of a map, or of all maps of a record: no network, no server.

        save_html(amap, "map.html")
        save_html(rec, "run.html", title="The cat sat on the mat")
        save_html(after, "difference.html", beside=before, names=("after", "before"))

    title       heading of the page
    item        batch item
    sites       predicate on site names
    beside      another map or record: the page shows both and this - other; different texts are aligned by token
    names       names of the two
    rationale   tokens that a human marked, 0 or 1 for each or spans [(start, stop), ...]: shown with the weights
    importance  importance of heads, {site: [a number for each head]}: heads can be sorted by it
    nodes       names, classes and positions of a graph's nodes: GraphNodes(classes=y)
    image       the input image: a Picture, or pixels (pixel_values of a batch) with the patch grid inferred
    """
    made = html_of(
        what,
        title=title,
        item=item,
        sites=sites,
        beside=beside,
        names=names,
        rationale=rationale,
        importance=importance,
        nodes=nodes,
        image=image,
        progress=progress,
    )
    return write_file(made, path)


def html_of(what: Shown, **how: Any) -> str:
    """The page as text; arguments as for `page_data`."""
    data, blobs = page_data(what, **how)
    parts = [f'<script type="text/plain" data-blob="{i}">{text}</script>' for i, text in enumerate(blobs)]
    body = [
        "<regard-page></regard-page>",
        "<noscript>This page draws attention maps with JavaScript; nothing is fetched from elsewhere.</noscript>",
        *parts,
        f'<script type="application/json" id="regard-data">{_json(data)}</script>',
        *([f"<script>{script('graph.js')}</script>"] if data.get("graphs") else []),
        f"<script>{script()}</script>",
    ]
    return html_page(data["title"], "\n".join(body), scripts=True)


def page_data(
    what: Shown,
    *,
    title: str | None = None,
    facts: str = "",
    text: str = "",
    item: int = 0,
    sites: "Callable[[str], bool] | None" = None,
    beside: Shown | None = None,
    names: tuple[str, str] = ("this", "other"),
    rationale: Rationale | None = None,
    importance: "Mapping[str, Sequence[float]] | None" = None,
    nodes: GraphNodes | None = None,
    image: Any = None,
    progress: "Callable[[int, int], None] | None" = None,
) -> tuple[dict[str, Any], list[str]]:
    """The JSON description of a page and its arrays as text; raises if the page would be larger than 64 MB."""
    if isinstance(what, Difference) and beside is None:
        what, beside = (x.whole if isinstance(x, Aligned) else x for x in (what.this, what.other))
    about = what.about if isinstance(what, Record) else {}
    if isinstance(what, Record):
        facts, text = facts or record_facts(what), text or source_text(what)
    title = title or str(about.get("name") or about.get("class") or "An attention map")
    blobs, groups = Blobs(), join_steps(maps_of(what, item, sites))
    data: dict[str, Any] = {"version": 1, "title": title, "facts": facts, "text": text}
    if beside is None:
        graphs = GraphPayload(groups, nodes)
        data["sites"], data["graphs"] = site_payloads(groups, blobs, progress, graphs=graphs), graphs.about
    else:
        data["sites"], only = compared_sites(groups, join_steps(maps_of(beside, item, sites)), blobs, progress)
        there = source_text(beside) if isinstance(beside, Record) else ""
        data["beside"] = {"names": [str(x) for x in names], "text": "" if there == text else there, "only": only}
        if nodes is not None:
            raise ValueError("nodes= draws a graph, but beside= compares matrices: make separate pages.")
    if rationale is not None and beside is not None:
        raise ValueError("rationale= marks the tokens of one text, but beside= has two: make separate pages.")
    if rationale is not None:
        data["rationale"] = rationale_payload(rationale, data["sites"])
    if importance is not None:
        add_importance(importance, data["sites"])
    if image is not None:
        labels = what.labels if isinstance(what, Record) else None
        data["image"] = picture_of(image, _by_site(what), item, labels).about(blobs)
    texts = blobs.texts
    size = sum(map(len, texts))
    if size > MAX_PAGE_BYTES:
        raise ValueError(
            f"This page would have {size:,} bytes, more than {MAX_PAGE_BYTES:,}. Show fewer sites or heads "
            "(amap[0, 3] is one head), or a shorter text."
        )
    return data, texts


def maps_of(what: Shown, item: int = 0, sites: "Callable[[str], bool] | None" = None) -> dict[str, AttentionMap]:
    """The maps of one item of a batch by site, each (heads, n, m)."""
    one = {name: select_item(amap, item) for name, amap in _by_site(what).items() if sites is None or sites(name)}
    if not one:
        raise ValueError("No maps to show: record with keep='qk', 'weights' or 'topk', and choose existing sites.")
    return one


def _by_site(what: Shown) -> Mapping[str, AttentionMap]:
    if isinstance(what, AttentionMap):
        return {what.site or "map": what}
    return what.maps if isinstance(what, Record) else what


def distinct_names(one: str, other: str) -> tuple[str, str]:
    """What two compared records or models are called: without folder and .regard, where that tells them apart."""
    short = Path(one).name.removesuffix(".regard"), Path(other).name.removesuffix(".regard")
    return short if short[0] != short[1] else (one, other) if one != other else ("first", "second")


def write_file(made: str | bytes, path: "str | os.PathLike[str]") -> Path:
    """Write a file atomically."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {str(target.parent)!r} for {target.name}.")
    return write_whole(target, [made.encode() if isinstance(made, str) else made])


def script(name: str = "regard.js") -> str:
    """A script of the components, built from web/; graph.js has the graph renderer."""
    text = files("regard.views").joinpath("static", name).read_text(encoding="utf-8")
    return text.replace("</script", "<\\/script")


def select_item(amap: AttentionMap, item: int) -> AttentionMap:
    """The heads of one batch item: heads are the last leading axis, earlier ones are the batch."""
    while len(amap.lead) > 1:
        if not -amap.lead[0] <= item < amap.lead[0]:
            raise ValueError(f"item={item}: this batch has {amap.lead[0]} items.")
        made = amap[item]
        made._pyramid = None if amap._pyramid is None else _pyramid_of_item(amap._pyramid, item)
        amap, item = made, 0
    return amap


def _pyramid_of_item(pyramid: Pyramid, item: int) -> Pyramid:
    """Cells that are there already are not made again."""
    levels = [Level(x.size, x.mass[item], x.peak[item], x.count[item]) for x in pyramid.levels]
    return Pyramid(pyramid.cell, tuple(levels))


def _json(data: Any) -> str:
    """JSON that cannot end the script it stands in."""
    text = json.dumps(data, separators=(",", ":"))  # ASCII alone
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
