"""Roles that are defined by the text, not by places: name movers, who inhibits them, and syntax by a given parse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import Refused

from .why import why

ROWS = 3  # rows of a name mover whose query is taken apart
RIVALS = 6  # repeated tokens that its key is compared with
Scores = dict[tuple[str, int], tuple[float, float]]  # (score, chance) by site and head
Links = Sequence[tuple[int, Sequence[int]]]  # a token, and the tokens of the word that it is linked to


def mover_keys(ids: Tensor) -> Tensor:
    """(n, n): earlier places of the token that comes next, but for those that an induction head would name.

    A name mover looks at the answer itself: at "Mary" where "Mary" is to be said. Wang et al. 2023.
    """
    own = ids.flatten()
    n = len(own)
    following = torch.cat([own[1:], own.new_full((1,), -1)])
    before = torch.cat([own.new_full((1,), -2), own[:-1]])
    keys = following[:, None] == own[None]
    keys &= before[None] != own[:, None]  # the token after the same token: induction
    return keys & (torch.arange(n)[None] < torch.arange(n)[:, None])


def link_keys(links: Links, n: int) -> Tensor:
    """(n, n): the tokens that a parse links each token to."""
    keys = torch.zeros(n, n, dtype=torch.bool)
    for row, targets in links:
        keys[row, list(targets)] = True
    return keys


def named(records: Sequence[Any], keys: Sequence[Tensor], by_distance: bool = False) -> Scores:
    """The weight that each head puts on the keys that are named, over all rows that have one.

    The chance level is what uniform weights over the keys that may be seen would put there; by_distance: the share of
    rows that the most frequent distance alone would get right, which is the baseline of syntax (Voita et al. 2019).
    """
    sums: dict[tuple[str, int], Tensor] = {}
    distances: dict[tuple[str, int], Counter[int]] = {}
    for rec, wanted in zip(records, keys, strict=True):
        for site, amap in rec.maps.items():
            if (amap.n, amap.m) != tuple(wanted.shape):
                continue
            one = amap[0] if len(amap.lead) > 1 else amap
            for head in range(amap.heads):
                w = one[head].weights().reshape(amap.n, amap.m).double()
                seen = one[head].allowed(slice(0, amap.n), slice(0, amap.m)).bool().expand(1, amap.n, amap.m)[0]
                hit = wanted & seen
                rows = hit.any(-1)
                given, chance = (w * hit).sum(-1)[rows], (hit.sum(-1) / seen.sum(-1).clamp_min(1))[rows]
                part = torch.stack([given.sum(), chance.double().sum(), rows.sum().double()])
                sums[site, head] = sums.get((site, head), torch.zeros(3, dtype=torch.float64)) + part
                if by_distance:
                    own = distances.setdefault((site, head), Counter())
                    for i in rows.nonzero().flatten().tolist():
                        own.update({j - i for j in hit[i].nonzero().flatten().tolist()})
    made: Scores = {}
    for at, (given_sum, chance_sum, count) in ((at, x.tolist()) for at, x in sums.items()):
        if count:
            most = max(distances[at].values()) if by_distance else chance_sum
            made[at] = given_sum / count, min(1.0, most / count)
    return made


def inhibitors(rec: Any, ids: Tensor, movers: Sequence[tuple[str, int]]) -> Scores:
    """Who keeps name movers from tokens that were said several times: by what they wrote into the movers' queries.

    Of a mover's row, its key over repeated tokens: the share of each earlier head in all that raises it in the query.
    The chance level is an even share of the earlier heads. Wang et al. 2023 (S-inhibition).
    """
    shares: dict[tuple[str, int], list[float]] = {}
    keys, own = mover_keys(ids), ids.flatten()
    even: list[float] = []
    for site, head in movers:
        amap = rec.maps[site]
        w = (amap[0] if len(amap.lead) > 1 else amap)[head].weights().reshape(amap.n, amap.m)
        best = (w * keys).amax(-1)
        for i in best.argsort(descending=True)[:ROWS].tolist():
            j = int((w[i] * keys[i]).argmax())
            counts = Counter(own[: i + 1].tolist())
            rivals = [t for t in range(1, i + 1) if counts[int(own[t])] > 1 and own[t] != own[j] and w[i, t] > 0]
            if not float(best[i]) or not rivals:
                continue
            try:
                over = why(rec, site, head, i, j, against=rivals[-RIVALS:])
            except Refused:
                break
            raised = {s.writer: s.value for s in over.by_writer("query") if s.writer is not None and s.value > 0}
            total = sum(raised.values())
            earlier = sum(w.kind == "head" for w in over.queries)
            if not total or not earlier:
                continue
            even.append(1.0 / earlier)
            for writer, value in raised.items():
                if writer.kind == "head":
                    shares.setdefault((writer.path, writer.head), []).append(value / total)
    if not even:
        return {}
    return {at: (sum(found) / len(even), sum(even) / len(even)) for at, found in shares.items()}
