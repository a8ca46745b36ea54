"""Head roles with their evidence: the score beside chance, why, whether it copies, and what silencing does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import Refused

from ..attribution.detectors import heads as looked_at
from ..attribution.detectors import repeated
from ..interventions.intervene import intervene
from ..interventions.interventions import DropHeads
from ..record import Record, record
from .evaluation import Evaluation
from .role_scores import Links, Scores, inhibitors, link_keys, mover_keys, named
from .why import Share, traced, why
from .writers import writer_of

ROLES = {
    "previous": "previous token",
    "next": "next token",
    "duplicate": "duplicate token",
    "induction": "induction",
    "first": "sink",
    "separator": "delimiter",
    "position": "positional",
    "mover": "name mover",
    "inhibition": "inhibits name movers",
    "governor": "syntax: governor",
    "dependent": "syntax: dependent",
}
Table = dict[tuple[str, int], dict[str, tuple[float, float]]]  # (score, chance) by site and head, and role
CELLS = 3  # cells of a head that are taken apart
OTHERS = 6  # keys that each is compared with
LEAST = 0.1  # of the way from chance to all weight: heads below it are not told of
RANDOM = 200  # tokens that a copy is compared with


@dataclass(frozen=True)
class ParsedText:
    """ids (1, n), and by token the tokens of its word's governor, and of its word's dependents."""

    ids: Tensor
    governor: Links
    dependent: Links


@dataclass(frozen=True)
class HeadRole:
    """One head.

    role, score, chance   what it looks at, and by chance
    because               the writers of key and query that raise the score most, over other keys of the row
    copies                share of its cells in which it raises the logit of the token it looks at above 95 % of random
                          tokens, straight (chance .05); None where there are no logits
    silenced              what dropping it does: rise of the next token's loss in nats, or 1 - cosine of the output
    """

    site: str
    layer: int
    head: int
    role: str
    score: float
    chance: float
    because: tuple[list[Share], list[Share]] | None
    copies: float | None
    silenced: float
    refused: str = ""


def head_roles(
    model: Any,
    texts: Sequence[Tensor],
    *,
    vocabulary: int | None = None,
    separators: Sequence[int] = (),
    best: int = 2,
    parsed: Sequence[ParsedText] = (),
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[HeadRole]:
    """The heads of a model that stand furthest above chance in each role, each with its evidence; a head may have two.

    texts        ids (1, n) of a corpus
    best         heads of each role, at most
    vocabulary   of a model that writes text: induction and duplicates are then looked for in repeated random tokens,
                 and name movers in the texts
    parsed       texts with a parse: heads that look from a word to its governor or to its dependents
    """
    records = [_recorded(model, ids) for ids in texts]
    table = _scores(records, texts, separators)
    runs = dict.fromkeys(ROLES, (records[0], texts[0]))
    if vocabulary is not None:
        ids = repeated(vocabulary, 24, 1, seed=0)
        again = _recorded(model, ids)
        runs |= dict.fromkeys(("induction", "duplicate"), (again, ids))
        for key, row in _scores([again], [ids], separators).items():
            table[key].update({name: row[name] for name in ("induction", "duplicate") if name in row})
        _joined(table, "mover", named(records, [mover_keys(ids) for ids in texts]))
        movers = [(site, head) for site, head, _ in _ranked(table, "mover")[:best]]
        _joined(table, "inhibition", inhibitors(records[0], texts[0], movers))
    if parsed:
        trees = [_recorded(model, one.ids) for one in parsed]
        runs |= dict.fromkeys(("governor", "dependent"), (trees[0], parsed[0].ids))
        for name in ("governor", "dependent"):
            links = [link_keys(getattr(one, name), one.ids.shape[-1]) for one in parsed]
            _joined(table, name, named(trees, links, by_distance=True))
    layers = {site: number for number, site in enumerate(records[0].maps)}
    chosen = [
        (site, head, name)
        for name in ROLES
        for site, head, above in _ranked(table, name)[:best]
        if above > (0.0 if name == "inhibition" else LEAST)
    ]
    made = []
    for place, (site, head, name) in enumerate(chosen):
        on_progress(place, len(chosen))
        rec, ids = runs[name]
        score, chance = table[site, head][name]
        because, copies, refused = None, None, ""
        try:
            because, copies = _evidence(rec, ids, site, head, name)
        except Refused as problem:
            refused = str(problem)
        changed = _silenced(model, rec, ids, site, head)
        made.append(HeadRole(site, layers[site], head, ROLES[name], score, chance, because, copies, changed, refused))
    return made


def _recorded(model: Any, ids: Tensor) -> Record:
    with torch.no_grad(), record(model) as rec:
        model(input_ids=ids)
    return rec


def _scores(records: Sequence[Record], texts: Sequence[Tensor], separators: Sequence[int]) -> Table:
    """(score, chance) by head and detector, over all rows of all texts."""
    sums: dict[tuple[str, int, str], Tensor] = {}
    for rec, ids in zip(records, texts, strict=True):
        found = looked_at(rec, tokens=ids, separators=list(separators) or None)
        for site, by_detector in found.by_site.items():
            for name, (score, chance, rows) in by_detector.items():
                for head in range(len(score)):
                    if rows[head]:
                        part = torch.stack([score[head] * rows[head], chance[head] * rows[head], rows[head].float()])
                        sums[site, head, name] = sums.get((site, head, name), torch.zeros(3)) + part
    made: Table = {}
    for (site, head, name), (score, chance, rows) in sums.items():
        made.setdefault((site, head), {})[name] = float(score / rows), float(chance / rows)
    return made


def _joined(table: Table, name: str, found: Scores) -> None:
    for at, both in found.items():
        table.setdefault(at, {})[name] = both


def _ranked(table: Table, name: str) -> list[tuple[str, int, float]]:
    """Heads by how far they stand above chance."""
    found = [(*at, _above(*row[name])) for at, row in table.items() if name in row]
    return sorted(found, key=lambda one: -one[2])


def _above(score: float, chance: float) -> float:
    return (score - chance) / (1.0 - chance) if chance < 1.0 else 0.0


def _evidence(
    rec: Record, ids: Tensor, site: str, head: int, name: str
) -> tuple[tuple[list[Share], list[Share]], float | None]:
    amap = rec.maps[site]
    w = (amap[0] if len(amap.lead) > 1 else amap)[head].weights().reshape(amap.n, amap.m)
    cells = []
    for i in w.clone().fill_diagonal_(0.0)[:, 1 if name != "first" else 0 :].amax(-1).argsort(descending=True).tolist():
        j = int((w[i] if name == "first" else w[i, 1:]).argmax()) + (name != "first")
        others = [int(x) for x in torch.linspace(0, i, OTHERS + 2)[1:-1].round() if int(x) != j and w[i, int(x)] > 0]
        if others:
            cells.append((i, j, sorted(set(others))))
        if len(cells) == CELLS:
            break
    sums: list[dict[str, float]] = [{}, {}]
    copied: list[float] = []
    for i, j, others in cells:
        found = why(rec, site, head, i, j, against=others)
        for total, side in zip(sums, ("query", "key"), strict=True):
            for share in found.by_writer(side):
                total[share.name] = total.get(share.name, 0.0) + share.value / len(cells)
        one = _copies(rec, ids, site, head, i, j)
        if one is not None:
            copied.append(one)
    best = [[Share(name, value) for name, value in sorted(total.items(), key=lambda x: -x[1])[:2]] for total in sums]
    return (best[0], best[1]), sum(copied) / len(copied) if copied else None


@torch.no_grad()
def _copies(rec: Record, ids: Tensor, site: str, head: int, i: int, j: int) -> float | None:
    """Whether the head raises the logit of the token at j above 95 % of random ones, straight."""
    run = traced(rec)
    node, call = run.logits, run.call(site)
    if node is None or len(node.shape) != 3 or call.out is None or node.shape[-1] < RANDOM:
        return None
    draw = torch.randint(0, node.shape[-1], (RANDOM,), generator=torch.Generator().manual_seed(i)).tolist()
    token = int(ids[0, j])
    wanted = sorted({token, *draw})
    work = Evaluation(run.tape)
    parts = work.parts(node, ((0,), (i,), tuple(wanted)))
    mine = [
        x
        for key, x in zip(parts.keys, parts.x, strict=True)
        if (w := writer_of(key, work.leaves, run.tape)).path == site and w.head == head
    ]
    if not mine:
        return None
    row = sum(mine).flatten()
    return float((row < row[wanted.index(token)]).double().mean() > 0.95)


@torch.no_grad()
def _silenced(model: Any, rec: Record, ids: Tensor, site: str, head: int) -> float:
    with intervene(model, {site: DropHeads(head)}):
        changed = model(input_ids=ids)
    before = traced(rec).out
    if getattr(changed, "logits", None) is not None and changed.logits.ndim == 3 and changed.logits.shape[1] > 1:
        losses = [
            float(torch.nn.functional.cross_entropy(out.logits[0, :-1].float(), ids[0, 1:]))
            for out in (changed, before)
        ]
        return losses[0] - losses[1]
    a, b = (x.last_hidden_state if hasattr(x, "last_hidden_state") else x.logits for x in (changed, before))
    return float(1 - torch.nn.functional.cosine_similarity(a.flatten(0, -2), b.flatten(0, -2)).mean())
