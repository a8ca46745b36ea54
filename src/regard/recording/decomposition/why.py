"""why: the score of a pair as a sum of what was written into its query times what was written into its key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.core.display import view
from regard.core.errors import Refused, within

from ..record import answers_of_records
from .cut import CutPart, cut_of, weights_without
from .dictionary import FeatureDictionary
from .linearity import NonlinearShare, nonlinear
from .run import TracedRun
from .same_run import check_same_run
from .sources import sources
from .tape import EDGES
from .weighed import LargestPart, can_weigh, largest, weighed
from .writers import KINDS, Writer

OTHERS = 64  # keys that a score is compared with, at most
CELLS = 64  # cells of a map that are taken apart where its scores were written out by the model, at most


class Part(NamedTuple):
    """One pair of writers and what it adds to the score."""

    query: Writer
    key: Writer
    value: float


class Share(NamedTuple):
    """One writer (or layer, or kind) on one side: the sum of its parts."""

    name: str
    value: float
    writer: Writer | None = None


@dataclass(eq=False, repr=False)
class Why:
    """A score taken apart; made by `regard.why`.

        s_ij = scale * sum_ab (J_q x_i^a) . (J_k x_j^b) + bias_ij

    x_i^a is what writer a put into the residual stream of token i, J_q and J_k are the site's normalisation (its scale
    frozen at the run's value), projection and rotation.

    site, head, item, cells   what was asked for: cells are (i, j, share of it)
    whole                     all cells of the map, weighed by attention; `cells` are then the strongest of some rows
    queries, keys             the writers on either side
    parts                     (queries, keys), float64: their sum is `explained`
    score                     of the cell, as the model computed it; a mean over cells where there are several
    against                   the key (or keys) whose score was subtracted, in words; "" for the score itself
    bias, cap                 what the model adds to the product, and what its soft cap took away
    remainder                 score - bias - parts.sum(): rounding
    frozen                    modules whose scale is taken as it was in this run: normalisations on the way
    features                  dictionaries of the user whose directions are writers
    """

    run: TracedRun
    site: str
    head: int
    item: int
    cells: list[tuple[int, int, float]]
    queries: list[Writer]
    keys: list[Writer]
    parts: Tensor
    score: float
    weight: float | None
    against: str
    bias: float
    cap: float
    remainder: float
    rows: Sequence[str] | None = None
    columns: Sequence[str] | None = None
    weights: Callable[[int], Tensor] | None = None
    record: Any = None
    title: str = ""
    frozen: Sequence[str] = ()
    features: Sequence[FeatureDictionary] = ()
    whole: bool = False

    @property
    def explained(self) -> float:
        return float(self.parts.sum())

    @property
    def exactness(self) -> float:
        """|remainder| over the sum of the parts' absolute values."""
        return abs(self.remainder) / max(float(self.parts.abs().sum()), 1e-30)

    @property
    def layer(self) -> int:
        return self.run.tape.calls[self.site].layer

    @property
    def cell(self) -> tuple[int, int]:
        """The one cell, where one was asked for."""
        if len(self.cells) != 1:
            raise ValueError(f"This is a mean over {len(self.cells)} cells: ask why() for one cell, with i and j.")
        return self.cells[0][:2]

    def strongest(self, k: int = 10) -> list[Part]:
        """The k pairs of writers with the largest parts, by size."""
        flat = self.parts.flatten()
        found = flat.abs().topk(min(k, flat.numel())).indices.tolist()
        width = len(self.keys)
        return [Part(self.queries[p // width], self.keys[p % width], float(flat[p])) for p in found]

    def by_writer(self, side: str = "key", k: int | None = None) -> list[Share]:
        """What each writer of a side adds to the score: its part times the whole of the other side."""
        names, sums = self._side(side)
        found = [Share(name.label, value, name) for name, value in zip(names, sums.tolist(), strict=True)]
        return sorted(found, key=lambda share: -abs(share.value))[:k]

    def by_layer(self, side: str = "key") -> list[Share]:
        """Summed by layer; what stands before the first layer is "input", constants are "bias"."""
        return self._grouped(
            side, lambda w: "bias" if w.kind == "bias" else f"layer {w.layer}" if w.layer >= 0 else "input"
        )

    def by_kind(self, side: str = "key") -> list[Share]:
        """Summed by kind: embedding, position, head, MLP, bias, other."""
        found = {share.name: share for share in self._grouped(side, lambda w: w.kind)}
        return [found[kind] for kind in KINDS if kind in found]

    @torch.no_grad()
    def by_token(self, side: str = "key", writer: Writer | str | None = None, k: int | None = 10) -> list[Share]:
        """What an earlier head's part is made of: its source tokens, by what each handed over.

        writer  a head among `queries` or `keys`, or its label ("head 4.3"); the strongest head unless told
        """
        found = self._writer(side, writer, heads=True)
        i, j = self.cell
        sums = sources(self.run, self.record.maps, self.site, self.item, self.head, side, found, i, j)
        names = self.columns
        made = [
            Share(names[t] if names is not None and t < len(names) else str(t), value)
            for t, value in enumerate(sums.tolist())
        ]
        order = sorted(range(len(made)), key=lambda t: -abs(made[t].value))[:k]
        return [Share(f"{t}: {made[t].name}" if names is not None else str(t), made[t].value) for t in order]

    @torch.no_grad()
    def cut(self, writer: Writer | str, side: str = "key", *, run: bool = False) -> CutPart:
        """Take one writer's part out of the query or the key: what becomes of the weight.

        run  also run the model itself with the changed query or key, and read what its weight and output become
        """
        return cut_of(self, self._writer(side, writer), side, run)

    @torch.no_grad()
    def without(self, side: str = "key", writers: Sequence[Writer | str] | None = None) -> dict[Writer, float]:
        """The weight without each of some writers (all of the side unless told), as `cut` has it: in one evaluation."""
        chosen = [share.writer for share in self.by_writer(side)] if writers is None else list(writers)
        return weights_without(self, side, [self._writer(side, one) for one in chosen if one is not None])

    def effect(self, target: Any = None, position: int = -1) -> Any:
        """What the head does with what it sees: see `regard.recording.decomposition.effects.HeadEffect`.

        target  a class or token id (the largest logit unless told), a direction (width,) of the last hidden state, or
                a function of the model's output
        """
        from .effects import effect_of

        return effect_of(self, target, position)

    @torch.no_grad()
    def nonlinear(self, side: str = "key", k: int | None = 10) -> list[NonlinearShare]:
        """What the frozen scales do not tell: for each writer, the score's change by its part and with live scales.

        One evaluation of the normalisation for all writers; the strongest first.
        """
        return nonlinear(self, side, k)

    @torch.no_grad()
    def largest(self, k: int = 10) -> list[LargestPart]:
        """The k largest parts of all cells of the map, found by bounds: no n x n x writers^2 is made."""
        call = self.run.call(self.site)
        if not can_weigh(call):
            raise Refused(f"The scores at {self.site!r} were written out by the model: ask why() for its cells.")
        amap = self.record.maps[self.site]
        one = (amap[self.item] if len(amap.lead) > 1 else amap)[self.head]
        rows = [one.allowed(slice(i, i + 1), slice(0, one.m)).expand(1, 1, one.m).reshape(1, -1) for i in range(one.n)]
        return largest(self.run, call, self.item, self.head, torch.cat(rows).bool(), k, self.features)

    def _side(self, side: str) -> tuple[list[Writer], Tensor]:
        if side not in ("query", "key"):
            raise ValueError(f"side={side!r}: expected 'query' or 'key'.")
        return (self.queries, self.parts.sum(1)) if side == "query" else (self.keys, self.parts.sum(0))

    def _grouped(self, side: str, name: Callable[[Writer], str]) -> list[Share]:
        names, sums = self._side(side)
        found: dict[str, float] = {}
        for writer, value in zip(names, sums.tolist(), strict=True):
            found[name(writer)] = found.get(name(writer), 0.0) + value
        return [Share(each, value) for each, value in found.items()]

    def _writer(self, side: str, asked: Writer | str | None, heads: bool = False) -> Writer:
        names, _ = self._side(side)
        if asked is None:
            for share in self.by_writer(side):
                if share.writer is not None and (share.writer.kind == "head" or not heads):
                    return share.writer
            raise ValueError(f"No earlier head wrote into the {side} at {self.site!r}.")
        for name in names:
            if asked in (name, name.label):
                return name
        close = ", ".join(share.name for share in self.by_writer(side, 6))
        raise ValueError(f"There is no writer {asked!r} in the {side}; the strongest are {close}.")

    def token(self, place: int, side: str = "key") -> str:
        names = self.columns if side == "key" else self.rows
        return f"{names[place]!r} ({place})" if names is not None and place < len(names) else f"token {place}"

    @property
    def sentence(self) -> str:
        """The answer in words."""
        from .wording import sentence

        return sentence(self)

    def as_dict(self, k: int = 12) -> dict[str, Any]:
        """For JSON: the sentence, the shares of both sides, and the strongest pairs."""
        return {
            "site": self.site,
            "head": self.head,
            "layer": self.layer,
            "cells": [list(cell) for cell in self.cells],
            "sentence": self.sentence,
            "score": self.score,
            "weight": self.weight,
            "against": self.against,
            "bias": self.bias,
            "cap": self.cap,
            "remainder": self.remainder,
            "absolute": float(self.parts.abs().sum()),
            "frozen": list(self.frozen),
            "query": [{"name": s.name, "value": s.value} for s in self.by_writer("query", k)],
            "key": [{"name": s.name, "value": s.value} for s in self.by_writer("key", k)],
            "pairs": [{"query": p.query.label, "key": p.key.label, "value": p.value} for p in self.strongest(k)],
        }

    def plot(self, *, k: int = 10, ax: Any = None, save: Any = None) -> Any:
        """Draw the shares of both sides and the strongest pairs with matplotlib; save="figure.pdf" writes it."""
        return view("why_figure")(self, k=k, ax=ax, save=save)

    def table(self, k: int = 8) -> Any:
        """A rich table: the shares of both sides, and the strongest pairs, with bars."""
        return view("why_table")(self, k)

    def __rich__(self) -> Any:
        return self.table()

    def _repr_html_(self) -> str:
        made: str = view("why_html")(self)
        return made

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        return f"Why({self.sentence})"


@torch.no_grad()
def why(
    rec: Any,
    site: str | int,
    head: int,
    i: int | None = None,
    j: int | None = None,
    *,
    item: int = 0,
    against: int | str | Sequence[int] | None = None,
    features: FeatureDictionary | Sequence[FeatureDictionary] = (),
) -> Why:
    """Why a head looks from token i to token j: its score as a sum over pairs of writers.

        rec = regard.record(model); with rec: model(**inputs)
        regard.why(rec, "model.layers.3.self_attn", 2, 7, 4).strongest()

    rec      a record of one forward pass of a model (several of them: a list, for a head over a corpus); the model is
             run once more, and later questions read what that run left
    site     as in rec.maps, a pattern that fits one, or the number of the layer
    i, j     the query and the key. Without j: the row, its keys weighed by attention; without i: the column. Without
             both: the map, all of its cells weighed by attention
    against  what the score is compared with: a key's number, several (their mean), or "row", the mean over the other
             keys of the row (of at most 64, evenly spaced). Softmax ignores what all keys share: this moves the weight
    features a `FeatureDictionary`, or several: directions of a sparse autoencoder or of probes, as writers

    Models whose residual stream is a sum, of any naming: decoders, encoders, pre- and post-norm, grouped queries,
    rotary positions, normalised queries, soft caps. What does not decompose raises `Refused` with a sentence.
    """
    if isinstance(rec, (list, tuple)):
        return _over_corpus([why(one, site, head, i, j, item=item, against=against, features=features) for one in rec])
    features = (features,) if isinstance(features, FeatureDictionary) else tuple(features)
    run = traced(rec)
    name = _site(rec, site)
    amap = rec.maps[name]
    head, item = (
        within(head, amap.heads, f"head={head}", "heads"),
        within(item, amap.lead[0] if len(amap.lead) > 1 else 1, f"item={item}", "items"),
    )
    if getattr(amap, "graph", None) is not None:
        raise Refused(f"The score at {name!r} does not decompose: {EDGES}.")
    call = run.call(name)
    there = () if call.queries is None or call.keys is None else (call.queries.shape[2], call.keys.shape[2])
    if (there and there != (amap.n, amap.m)) or call.heads != amap.heads:
        raise Refused(
            f"The record's map at {name!r} is {amap.shape}, and the model's run on the first recorded inputs has "
            f"another shape there{f' ({call.heads} heads, {there[0]} x {there[1]})' if there else ''}: why() reads one "
            "forward pass over the whole text, not the steps of a generation. Record that pass by itself: "
            "with regard.record(model) as rec: model(ids)."
        )
    one = amap[item] if len(amap.lead) > 1 else amap
    cells = _cells(one[head], i, j)
    check_same_run(run, call, amap, item, head, cells[0][0])
    if i is not None and j is not None:
        made = _one_cell(run, call, item, head, i, j, one[head], against, features)
    elif can_weigh(call):
        made = _weighed_cells(run, call, item, head, one[head], cells, i is None and j is None, against, features)
    else:
        each = [(share, _one_cell(run, call, item, head, a, b, one[head], against, features)) for a, b, share in cells]
        made = _mean(each)
    made.cells, made.site, made.features = cells, name, features
    made.rows, made.columns, made.record = one.rows, one.columns, rec
    made.weights = lambda row: one[head].row(row).reshape(-1)
    if len(cells) == 1:
        made.weight = float(made.weights(cells[0][0])[cells[0][1]])
    return made


def traced(rec: Any) -> TracedRun:
    """The tape of a record's run; made by the first question, kept with the record."""
    found = rec.__dict__.get("_traced")
    if found is None:
        model = rec._names.model
        if model is None or not rec.inputs:
            raise Refused(
                "why() runs the model once more, and this record has no model or no inputs: it was loaded from a "
                "file, or recorded without a model. Record again in this process: "
                "with regard.record(model) as rec: model(**inputs)."
            )
        found = rec.__dict__["_traced"] = TracedRun(model, rec.inputs.args, rec.inputs.kwargs)
    made: TracedRun = found
    return made


def _site(rec: Any, site: str | int) -> str:
    if isinstance(site, int):
        names = list(rec.maps)
        return str(names[within(site, len(names), f"site={site}", "sites")])
    found = rec.maps[site]
    return next(name for name, amap in rec.maps.items() if amap is found)


def _cells(amap: Any, i: int | None, j: int | None) -> list[tuple[int, int, float]]:
    """The cells that are asked for, and the share of each."""
    if i is not None:
        i = within(i, amap.n, f"i={i}", "queries")
        if j is not None:
            return [(i, within(j, amap.m, f"j={j}", "keys"), 1.0)]
        row = amap.row(i).reshape(-1)
        best = row.sort(descending=True)
        return _normalised([(i, int(b), float(w)) for w, b in zip(best.values, best.indices, strict=True) if w > 0])
    if j is not None:
        column = amap.column(j).reshape(-1)
        best = column.sort(descending=True)
        return _normalised([(int(a), j, float(w)) for w, a in zip(best.values, best.indices, strict=True) if w > 0])
    rows = torch.linspace(0, amap.n - 1, min(amap.n, CELLS)).round().long().unique().tolist()
    strongest = [(a, *amap.row(a).reshape(-1).max(0)) for a in rows]
    return _normalised([(a, int(b), float(w)) for a, w, b in strongest])


def _normalised(cells: list[tuple[int, int, float]]) -> list[tuple[int, int, float]]:
    total = sum(w for *_, w in cells)
    if not total:
        raise ValueError("This row has no weight at all: there is nothing to explain.")
    return [(a, b, w / total) for a, b, w in cells]


def _one_cell(
    run: TracedRun,
    call: Any,
    item: int,
    head: int,
    i: int,
    j: int,
    amap: Any,
    against: int | str | Sequence[int] | None,
    features: Sequence[FeatureDictionary] = (),
) -> Why:
    others, words = _others(amap, i, j, against)
    q = run.side(call, item, head, [i], "query", features)
    k = run.side(call, item, head, [j, *others], "key", features)
    query, key = q.x[:, 0], k.x
    raw = (query.sum(0) @ key.sum(0).mT).tolist()
    c, bias, before = run.coefficient(call, item, head, i, j, raw[0])
    parts = c * query @ key[:, 0].mT
    score = _score(run, call, item, head, i, j, parts, bias)
    cap = score - before if (call.cap or call.q is None) and abs(before - score) > 1e-9 * max(1.0, abs(score)) else 0.0
    if others:
        share = 1.0 / len(others)
        for place, l in enumerate(others, 1):
            c, rest, _ = run.coefficient(call, item, head, i, l, raw[place])
            other = c * query @ key[:, place].mT
            parts = parts - share * other
            score -= share * _score(run, call, item, head, i, l, other, rest)
            bias -= share * rest
    remainder = score - bias - float(parts.sum())
    frozen = list(dict.fromkeys([*q.frozen, *k.frozen]))
    return Why(
        run, call.site, head, item, [], q.writers, k.writers, parts, score, None, words, bias, cap, remainder,
        frozen=frozen,
    )  # fmt: skip


def _weighed_cells(
    run: TracedRun,
    call: Any,
    item: int,
    head: int,
    amap: Any,
    cells: list[tuple[int, int, float]],
    whole: bool,
    against: int | str | Sequence[int] | None,
    features: Sequence[FeatureDictionary],
) -> Why:
    """A row, a column or the map, all of its cells: keys are weighed before they meet the queries."""
    rows = list(range(amap.n)) if whole else sorted({i for i, *_ in cells})
    columns = list(range(amap.m))
    shares = torch.zeros(len(rows), amap.m, dtype=torch.float64)
    words = ""
    if whole:
        for place in rows:
            shares[place] = amap.row(place).reshape(-1).double()
        shares /= shares.sum()
    else:
        at = {i: place for place, i in enumerate(rows)}
        for i, j, share in cells:
            shares[at[i], j] = share
    if against is not None:
        for place, i in enumerate(rows):
            shares[place], words = _over(amap, i, shares[place], against)
    found = weighed(run, call, item, head, rows, columns, shares, features)
    q, k, parts = found.queries, found.keys, found.parts
    remainder = found.score - found.bias - float(parts.sum())
    return Why(
        run, call.site, head, item, [], q.writers, k.writers, parts, found.score, None, words, found.bias, found.cap,
        remainder, frozen=list(dict.fromkeys([*q.frozen, *k.frozen])), whole=whole,
    )  # fmt: skip


def _over(amap: Any, i: int, shares: Tensor, against: int | str | Sequence[int]) -> tuple[Tensor, str]:
    """A row's shares, less the same amount spread over what it is compared with."""
    total = float(shares.sum())
    if against != "row":
        others, words = _others(amap, i, -1, against)
        less = torch.zeros_like(shares)
        less[others] = total / len(others)
        return shares - less, words
    open_keys = amap.allowed(slice(i, i + 1), slice(0, amap.m)).expand(1, 1, amap.m).reshape(-1).double()
    rest = open_keys.sum() - 1
    if not rest:
        return torch.zeros_like(shares), "the mean of the row's other keys"
    return shares - (total * open_keys - shares) / rest, "the mean of the row's other keys"


def _others(amap: Any, i: int, j: int, against: int | str | Sequence[int] | None) -> tuple[list[int], str]:
    if against is None:
        return [], ""
    if against != "row":
        if isinstance(against, (list, tuple)):
            found = [within(key, amap.m, f"against={key}", "keys") for key in against]
            return found, f"the mean of {len(found)} other keys"
        if not isinstance(against, int):
            raise ValueError(f"against={against!r}: expected a key's number, several, 'row', or None.")
        return [within(against, amap.m, f"against={against}", "keys")], f"key {against}"
    allowed = amap.allowed(slice(i, i + 1), slice(0, amap.m)).expand(1, 1, amap.m)
    open_keys = allowed.reshape(-1, amap.m)[0].nonzero().flatten().tolist()
    found = [key for key in open_keys if key != j]
    if len(found) > OTHERS:
        found = [found[place] for place in torch.linspace(0, len(found) - 1, OTHERS).round().long().tolist()]
        return found, f"the mean of {OTHERS} other keys of the row"
    return found, "the mean of the row's other keys" if found else ""


def _score(run: TracedRun, call: Any, item: int, head: int, i: int, j: int, parts: Tensor, bias: float) -> float:
    """As the model's own queries and keys give it; where it wrote its scores out, as the tape gives it."""
    if call.queries is None or call.cap:
        return float(parts.sum()) + bias
    groups = call.keys.shape[1]
    q, k = call.queries[item, head, i].double(), call.keys[item, head * groups // call.heads, j].double()
    return float(q @ k) * (call.scale or 1.0) + bias


def _mean(found: Iterable[tuple[float, Why]]) -> Why:
    """Weighted; writers that only some cells have count as zero in the others."""
    found = list(found)
    if len(found) == 1:
        return found[0][1]
    queries = list(dict.fromkeys(w for _, one in found for w in one.queries))
    keys = list(dict.fromkeys(w for _, one in found for w in one.keys))
    total = torch.zeros(len(queries), len(keys), dtype=torch.float64)
    rows, columns = ({w: p for p, w in enumerate(x)} for x in (queries, keys))
    for share, one in found:
        a = torch.tensor([rows[w] for w in one.queries])
        b = torch.tensor([columns[w] for w in one.keys])
        total[a[:, None], b[None]] += share * one.parts
    first = found[0][1]

    def mean(name: str) -> float:
        return sum(share * float(getattr(one, name)) for share, one in found)

    return Why(
        first.run, first.site, first.head, first.item, [], queries, keys, total, mean("score"), None, first.against,
        mean("bias"), mean("cap"), mean("remainder"), frozen=first.frozen,
    )  # fmt: skip


def _over_corpus(found: list[Why]) -> Why:
    if not found:
        raise ValueError("why() got an empty list of records.")
    made = _mean([(1 / len(found), one) for one in found])
    made.cells = [cell for one in found for cell in one.cells]
    made.title, made.whole = f"{len(found)} texts", all(one.whole for one in found)
    return made


answers_of_records["why"] = why
