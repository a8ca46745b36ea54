"""Means over many cells, exactly, and the largest parts of a whole map; neither holds n x n x writers^2.

    mean_ab = sum_i (J_q x_i^a) . (sum_j u_ij c_ij J_k x_j^b),    u the shares of the cells, c the score's factor

Keys are weighed before they meet the queries, so what is held is (writers, tokens, d), made in blocks of tokens. The
largest parts are found by bounds: |part_ijab| <= |c| |q_i^a| |k_j^b|, pairs of writers in the order of theirs, until
the next bound is below what was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .dictionary import FeatureDictionary
from .run import Side, TracedRun
from .writers import Writer

TOKENS = 128  # taken apart at once


class WeighedParts(NamedTuple):
    """parts (queries, keys), score and bias: means over cells with their shares."""

    queries: Side
    keys: Side
    parts: Tensor
    score: float
    bias: float
    cap: float


class LargestPart(NamedTuple):
    """One part of one cell."""

    i: int
    j: int
    query: Writer
    key: Writer
    value: float


def whole_side(
    run: TracedRun,
    call: Any,
    item: int,
    head: int,
    tokens: Sequence[int],
    side: str,
    features: Sequence[FeatureDictionary] = (),
) -> Side:
    """The queries or keys of many tokens by writer, (A, tokens, d), made in blocks."""
    blocks = [
        run.side(call, item, head, tokens[at : at + TOKENS], side, features) for at in range(0, len(tokens), TOKENS)
    ]
    if len(blocks) == 1:
        return blocks[0]
    place: dict[Writer, int] = {}
    for block in blocks:
        for writer in block.writers:
            place.setdefault(writer, len(place))
    x = blocks[0].x.new_zeros((len(place), len(tokens), blocks[0].x.shape[-1]))
    for at, block in zip(range(0, len(tokens), TOKENS), blocks, strict=True):
        x[torch.tensor([place[w] for w in block.writers]), at : at + TOKENS] = block.x
    return Side(list(place), x, list(dict.fromkeys(name for block in blocks for name in block.frozen)))


def can_weigh(call: Any) -> bool:
    """Whether the factor of every score is known without following it: queries and keys of a kernel."""
    return call.q is not None and call.queries is not None and call.keys is not None


def weighed(
    run: TracedRun,
    call: Any,
    item: int,
    head: int,
    rows: Sequence[int],
    columns: Sequence[int],
    shares: Tensor,
    features: Sequence[FeatureDictionary] = (),
) -> WeighedParts:
    """The mean over cells (rows x columns) with `shares` (r, c), which may be negative (over other keys)."""
    q = whole_side(run, call, item, head, rows, "query", features)
    k = whole_side(run, call, item, head, columns, "key", features)
    plain, capped, bias = _scores(call, item, head, rows, columns)
    factor = torch.where(plain == 0, torch.ones_like(plain), capped / torch.where(plain == 0, 1.0, plain))
    by = shares * factor * (call.scale or 1.0)  # (r, c)
    held = torch.einsum("rc,bcd->brd", by, k.x)
    parts = torch.einsum("ard,brd->ab", q.x, held)
    total = float((shares * (capped + bias)).sum())
    return WeighedParts(
        q, k, parts, total, float((shares * bias).sum()), float((shares * (capped - plain)).sum()) if call.cap else 0.0
    )


def _scores(
    call: Any, item: int, head: int, rows: Sequence[int], columns: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """(before the cap, after it, what is added): the model's own queries and keys."""
    a, b = torch.as_tensor(rows), torch.as_tensor(columns)
    groups = call.keys.shape[1]
    q = call.queries[item if call.queries.shape[0] > 1 else 0, head][a].double()
    k = call.keys[item if call.keys.shape[0] > 1 else 0, head * groups // call.heads][b].double()
    plain = (q @ k.mT) * (call.scale or 1.0)
    capped = call.cap * torch.tanh(plain / call.cap) if call.cap else plain
    bias = torch.zeros_like(plain)
    if call.bias is not None:
        full = call.bias.double()
        while full.ndim < 4:
            full = full[None]
        n, m = call.queries.shape[-2], call.keys.shape[-2]
        full = full[min(item, full.shape[0] - 1), min(head, full.shape[1] - 1)].expand(n, m)
        bias = torch.nan_to_num(full[a][:, b], neginf=0.0)
    return plain, capped, bias


def largest(
    run: TracedRun,
    call: Any,
    item: int,
    head: int,
    allowed: Tensor,
    k: int,
    features: Sequence[FeatureDictionary] = (),
) -> list[LargestPart]:
    """The k largest parts, by size, of all cells that are allowed (n, m)."""
    n, m = allowed.shape
    q = whole_side(run, call, item, head, range(n), "query", features)
    keys = whole_side(run, call, item, head, range(m), "key", features)
    plain, capped, _ = _scores(call, item, head, range(n), range(m))
    factor = torch.where(plain == 0, torch.ones_like(plain), capped / torch.where(plain == 0, 1.0, plain))
    factor = factor.masked_fill(~allowed, 0.0) * (call.scale or 1.0)
    steepest = float(factor.abs().max())
    bounds = steepest * q.x.norm(dim=-1).amax(1)[:, None] * keys.x.norm(dim=-1).amax(1)[None]
    order = bounds.flatten().argsort(descending=True).tolist()
    values, found = torch.zeros(0, dtype=torch.float64), torch.zeros((0, 4), dtype=torch.long)
    for pair in order:
        a, b = divmod(pair, len(keys.writers))
        if len(values) == k and float(bounds[a, b]) <= float(values.abs().min()):
            break
        cells = ((q.x[a] @ keys.x[b].mT) * factor).flatten()
        best = cells.abs().topk(min(k, len(cells))).indices
        best = best[allowed.flatten()[best]]
        at = torch.stack([best // m, best % m, torch.full_like(best, a), torch.full_like(best, b)], 1)
        values, found = torch.cat([values, cells[best]]), torch.cat([found, at])
        top = values.abs().topk(min(k, len(values))).indices
        values, found = values[top], found[top]
    return [
        LargestPart(i, j, q.writers[a], keys.writers[b], value)
        for (i, j, a, b), value in zip(found.tolist(), values.tolist(), strict=True)
    ]
