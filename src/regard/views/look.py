"""A record as one page: a heat map for each head, offline, in a single file."""

import base64
import html
import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..core.maps import AttentionMap

EXACT = 16_000_000  # bytes of weights up to which a page carries them all as they are
LIMIT = 64_000_000  # weights that a page carries at all
BEST = 8  # weights of each row that are exact on a page that carries the others in 8 bits


def page(
    maps: Mapping[str, AttentionMap], title: str, facts: str = "", text: str = "", item: int = 0,
    progress: "Callable[[int, int], None] | None" = None,
) -> str:  # fmt: skip
    """HTML with every head of every map of one item; steps of a generation are joined into one map.

    Weights are carried as float32; past 16 MB as 8 bits, with the 8 largest of each row exact.
    """
    joined = _joined(maps)
    if not joined:
        raise ValueError("This record has no maps to look at: record with keep='qk', 'weights' or 'topk'.")
    count = sum(_heads(group[0], item) * sum(a.n for a in group) * max(a.m for a in group) for group in joined.values())
    if count > LIMIT:
        raise ValueError(f"This page would carry {count:,} weights, more than {LIMIT:,}. Take fewer sites (--sites "
                         "'*layer.0.*'), a shorter text, or record to a file: regard record.")  # fmt: skip
    sites, exact = [], 4 * count <= EXACT
    for done, (name, group) in enumerate(joined.items()):
        sites.append(_site(name, group, item, exact, done))
        if progress is not None:
            progress(done + 1, len(joined))
    spaced = any(str(label)[:1].isspace() for site in sites for label in site["columns"] or ())
    data = {"sites": sites, "spaced": spaced, "start": _start(sites)}
    note = "" if exact else f"The {BEST} largest weights of each row are exact, the others (≈) to 8 bits."
    shown = {"title": html.escape(title), "facts": html.escape(facts), "note": html.escape(note), "data": _json(data),
             "text": f"<blockquote>{html.escape(text)}</blockquote>" if text else ""}  # fmt: skip
    template = files("regard.views").joinpath("templates/look.html").read_text(encoding="utf-8")
    return re.sub(r"%%(\w+)%%", lambda found: shown[found[1]], template)


def write(text: str, path: "str | os.PathLike[str]") -> Path:
    """Whole or not at all."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {str(target.parent)!r} for the page.")
    handle, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(draft, 0o644)
        os.replace(draft, target)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    return target


def _joined(maps: Mapping[str, AttentionMap]) -> dict[str, list[AttentionMap]]:
    """Maps by path; each step of a generation follows the one whose keys it goes on with."""
    made: dict[str, list[AttentionMap]] = {}
    last: dict[str, str] = {}
    for name, amap in maps.items():
        path = re.sub(r":\d+$", "", name)
        group = made.get(last.get(path, ""), [])
        before = group[-1] if group else None
        grows = before is not None and amap.m - amap.n == before.m and amap.lead == before.lead
        crosses = before is not None and amap.n == 1 and amap.m == before.m and amap.columns == before.columns
        if before is not None and (grows or (crosses and amap.columns is not amap.rows and before.m != before.n)):
            group.append(amap)
        else:
            made[name] = [amap]
            last[path] = name
    return made


def _heads(amap: AttentionMap, item: int) -> int:
    return (amap[item] if len(amap.lead) > 1 else amap).heads


def _site(name: str, group: list[AttentionMap], item: int, exact: bool, place: int) -> dict[str, Any]:
    one = [amap[item] if len(amap.lead) > 1 else amap for amap in group]
    m = max(amap.m for amap in one)
    parts = [torch.nn.functional.pad(_flat(amap), (0, m - amap.m)) for amap in one]
    w = torch.cat(parts, -2).float().cpu()
    rows = [label for amap in one for label in amap.rows or ()]
    columns = list(one[-1].columns or ())
    found = re.findall(r"(?:^|\.)(\d+)(?=\.|$)", name)
    site: dict[str, Any] = {
        "site": name, "short": found[0] if found else str(place), "heads": w.shape[0], "n": w.shape[1], "m": m,
        "rows": rows if len(rows) == w.shape[1] else None, "columns": columns if len(columns) == m else None,
        "same": columns[m - w.shape[1] :] == rows and bool(rows),
        "_elsewhere": _elsewhere(w),
    }  # fmt: skip
    if exact:
        return site | {"weights": _text(w)}
    best = w.topk(min(BEST, m), -1)
    coarse = (w.clamp(0, 1).sqrt() * 255).round().to(torch.uint8)
    return site | {"coarse": _text(coarse), "best": _text(best.values), "keys": _text(best.indices.int()),
                   "k": best.values.shape[-1]}  # fmt: skip


def _start(sites: list[dict[str, Any]]) -> dict[str, int]:
    """Where the page opens: the head whose rows differ most in where they look, away from the ends and themselves."""
    place, most = {"site": 0, "head": 0, "i": 0, "j": 0}, -1.0
    for s, site in enumerate(sites):
        w = site.pop("_elsewhere")
        if w.numel() and float(w.amax(-1).mean(-1).max()) > most:
            head = int(w.amax(-1).mean(-1).argmax())
            most, best = float(w[head].amax(-1).mean()), int(w[head].argmax())
            place = {"site": s, "head": head, "i": best // w.shape[-1], "j": best % w.shape[-1]}
    return place


def _elsewhere(w: Tensor) -> Tensor:
    """How much more a row gives a key than the mean row does; 0 at the first key, the last, and beside the diagonal."""
    n, m = w.shape[-2:]
    near = (torch.arange(m) - torch.arange(n)[:, None] - (m - n)).abs() <= 1
    near[:, 0] = near[:, -1] = True
    return (w - w.mean(-2, keepdim=True)).masked_fill(near, 0.0)


def _flat(amap: AttentionMap) -> Tensor:
    w = amap.weights()
    w = w if amap.features is None else w.mean(-3)
    return w.reshape(-1, amap.n, amap.m)


def _text(x: Tensor) -> str:
    return base64.b64encode(x.contiguous().numpy().tobytes()).decode("ascii")


def _json(data: Any) -> str:
    """JSON that cannot end the script it stands in."""
    text = json.dumps(data, separators=(",", ":"))  # ASCII alone
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
