"""One or two sentences on what a record holds: its size, its largest weight between two tokens, its sinks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from regard.core.maps.attention_map import AttentionMap
from regard.core.printable import printable
from regard.recording.record import Record

from ..page import maps_of
from ..payload.site_payload import MAX_DENSE, all_weights, join_steps, labels_of, short_name

SINK = 0.5  # a head whose mean weight on the first key is larger is a sink


def describe_record(rec: Record) -> str:
    """What stands out of the maps of a record, in a sentence or two.

    Left out are the first key, the last key and the three central diagonals; the head named is the one whose rows have
    the largest weights elsewhere, on average, with its largest weight: where the page opens. Heads that put more than
    half of their weight on the first key are counted (attention sinks).
    """
    if not rec.maps:
        return "This record has statistics of rows alone: no weights to describe."
    groups = join_steps(maps_of(rec))
    heads = sum(group[0].heads for group in groups.values())
    n, m = max((sum(amap.n for amap in group), max(amap.m for amap in group)) for group in groups.values())
    size = f"{n:,} x {m:,}" if n != m else f"{n:,}"
    said = f"{heads:,} heads at {len(groups):,} sites, {size} tokens."
    small = {name: group for name, group in groups.items() if sum(amap.n for amap in group) * m <= MAX_DENSE}
    if len(small) < len(groups):
        return f"{said} Long maps: zoom in on the page to see single weights."
    found, sinks = most_apart(small)
    if found is not None and found.weight:
        said += f" What stands out is head {found.name}, where {found.query} attends to {found.key} with "
        said += f"{found.weight:.2f}."
    many = f"{sinks:,} heads put most of their" if sinks > 1 else "1 head puts most of its"
    return said + (f" {many} weight on the first token." if sinks else "")


@dataclass(frozen=True)
class StandingOut:
    """A head and its largest weight apart from neighbours and ends: site and head by number, row, column."""

    site: int
    head: int
    row: int
    column: int
    weight: float
    name: str  # layer.head
    query: str
    key: str


def most_apart(groups: Mapping[str, Sequence[AttentionMap]]) -> tuple[StandingOut | None, int]:
    """The head whose rows have, on average, the largest weights apart from neighbours and ends; how many are sinks."""
    best, mean, sinks = None, -1.0, 0
    for place, (name, group) in enumerate(groups.items()):
        w = all_weights(group)
        n, m = w.shape[-2:]
        if not n or m < 2:
            continue
        w = w.reshape(group[0].heads, -1, n, m).mean(1)
        sinks += int((w[..., 0].mean(-1) > SINK).sum())
        rows, columns = labels_of(group)
        apart = w.masked_fill(_near(n, m, rows, columns), 0.0)
        means = apart.amax(-1).mean(-1)
        if float(means.max()) > mean:
            mean, head = float(means.max()), int(means.argmax())
            i, j = (int(x) for x in torch.unravel_index(apart[head].argmax(), (n, m)))
            named = f"{short_name(name, place)}.{head}"
            weight = float(apart[head, i, j])
            best = StandingOut(place, head, i, j, weight, named, _called(rows, i), _called(columns, j))
    return best, sinks


def _near(n: int, m: int, rows: "list[str] | None", columns: "list[str] | None") -> torch.Tensor:
    """(n, m): the first and the last key, and the three central diagonals unless keys are of another text."""
    near = (torch.arange(n)[:, None] + max(0, m - n) - torch.arange(m)).abs() <= 1
    if rows is not None and columns is not None and rows != columns[m - n :]:
        near = torch.zeros_like(near)
    near[:, :1] = near[:, -1:] = True
    return near


def _called(names: "list[str] | None", place: int) -> str:
    return f"“{printable(names[place].strip())}”" if names else f"token {place}"
