"""The schedule: rows of a graph as pieces and chunks of about equal cost, and the batches of edges in a chunk."""

from typing import Any

import numpy as np

from .config import BATCH, TOPK
from .jit import helper, kernel


@kernel
def cut_into_pieces(start: Any, limit: int, chunk: int) -> Any:
    """Whole rows first, then the parts of rows with more than `limit` edges, and chunks of them of about equal cost.

    row, first, last, place (pieces,): place is where a piece's sum goes, rows + number for a part. hub (hubs, 3): the
    row and the range of its parts. cuts (chunks + 1,) over the pieces; whole: how many of them are whole rows.
    """
    rows = start.size - 1
    parts, hubs = 0, 0
    for i in range(rows):
        degree = start[i + 1] - start[i]
        if degree > limit:
            parts += (degree + limit - 1) // limit
            hubs += 1
    total = rows - hubs + parts
    row, first, last = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    place, hub = np.empty(total, np.int64), np.empty((hubs, 3), np.int64)
    at, whole, part, seen = 0, rows - hubs, 0, 0
    for i in range(rows):
        begin, end = start[i], start[i + 1]
        if end - begin <= limit:
            row[at], first[at], last[at], place[at] = i, begin, end, i
            at += 1
            continue
        hub[seen, 0], hub[seen, 1] = i, part
        for e in range(begin, end, limit):
            k = whole + part
            row[k], first[k], last[k], place[k] = i, e, min(e + limit, end), rows + part
            part += 1
        hub[seen, 2] = part
        seen += 1
    cuts = np.empty(total + 1, np.int64)
    cuts[0], count, cost = 0, 0, 0
    for k in range(total):
        cost += last[k] - first[k] + 1
        if cost >= chunk or k == total - 1 or k == whole - 1:
            count += 1
            cuts[count], cost = k + 1, 0
    return row, first, last, place, hub, cuts[: count + 1], whole


@kernel
def edges_by_source(start: Any, source: Any, sources: int) -> Any:
    """The edges by source, as core.edges.BySource has them, by counting: start (m + 1,), target and slot (E,)."""
    begin, target, slot = np.zeros(sources + 1, np.int64), np.empty_like(source), np.empty_like(source)
    for e in range(source.size):
        begin[source[e] + 1] += 1
    for j in range(sources):
        begin[j + 1] += begin[j]
    place = begin[:-1].copy()
    for i in range(start.size - 1):
        for e in range(start[i], start[i + 1]):
            j = source[e]
            target[place[j]], slot[place[j]] = i, e
            place[j] += 1
    return begin, target, slot


@helper
def largest_batch(cuts, c, plan):
    """Edges of the largest batch of a chunk."""
    first, last = plan.first, plan.last
    widest = BATCH
    for p in range(cuts[c], cuts[c + 1]):
        widest = max(widest, last[p] - first[p])
    return widest


@helper
def list_batch(plan, p, end, graph, config, ends):
    """Lists the edges of whole pieces from p on, about BATCH: ends[0:4] = target, source, slot, id of each edge."""
    row, first, last = plan.row, plan.first, plan.last
    other, slot, edge, by_source = graph.end, graph.slot, graph.edge, graph.by_source
    count, named = 0, config.drops or config.join > 0 or config.adds or config.align == TOPK
    while p < end and (count == 0 or count + last[p] - first[p] <= BATCH):
        mine = row[p]
        for e in range(first[p], last[p]):
            if by_source:
                ends[0, count], ends[1, count], ends[2, count] = other[e], mine, slot[e]
            else:
                ends[0, count], ends[1, count], ends[2, count] = mine, other[e], e
            count += 1
        p += 1
    if named:
        for e in range(count):
            ends[3, e] = edge[ends[2, e]]
    return p, count
