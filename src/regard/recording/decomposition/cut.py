"""Cut: one writer's part taken out of a query or a key, and what becomes of the weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..interventions.intervene import intervene
from ..interventions.interventions import Shift
from ..record import Record
from .run import TracedRun
from .same_run import alignment_of
from .writers import Writer


@dataclass(frozen=True)
class CutPart:
    """What becomes of a weight when a writer's part is gone from the query (or key).

    said      the weight by the parts: the score loses the writer's share, scales frozen
    weight    with the normalisation's scale computed again: what a run of the model gives
    before    as it was
    nonlinear the score's change that the frozen scale does not tell
    ran       the weight in a run of the model itself, with run=True; moved: the largest change of an output there
    """

    writer: Writer
    side: str
    before: float
    said: float
    weight: float
    score: float
    nonlinear: float
    shift: Tensor
    ran: float | None = None
    moved: float | None = None

    @property
    def fell(self) -> float:
        """By how much the weight fell."""
        return self.before - (self.weight if self.ran is None else self.ran)

    def __str__(self) -> str:
        now = self.weight if self.ran is None else self.ran
        return (
            f"Without {self.writer.label} in the {self.side} the weight goes from {self.before:.3f} to {now:.3f} "
            f"(said: {self.said:.3f})."
        )


def cut_of(why: Any, writer: Writer, side: str, run: bool = False) -> CutPart:
    """Of one cell of a Why."""
    i, j = why.cell
    call = why.run.call(why.site)
    token = i if side == "query" else j
    values, _ = why.run.without(call, why.item, why.head, token, side, [writer], why.features)
    q = why.run.side(call, why.item, why.head, [token], side, why.features)
    index = [place for place, name in enumerate(q.writers) if name == writer]
    linear = q.x[index, 0].sum(0)  # the writer's part of the query
    row = why.weights(i).double()
    said = weights_after(why, call, row, i, j, side, -linear)
    live = weights_after(why, call, row, i, j, side, values[1] - values[0])
    frozen_change = score_change(why, call, i, j, side, -linear)
    change = score_change(why, call, i, j, side, values[1] - values[0])
    shift = values[1] - values[0]
    made = CutPart(writer, side, float(row[j]), float(said[j]), float(live[j]), change, change - frozen_change, shift)
    return ran(why, made) if run else made


def weights_without(why: Any, side: str, writers: Sequence[Writer]) -> dict[Writer, float]:
    """The weight of a cell without each of several writers, normalisations computed again."""
    i, j = why.cell
    call = why.run.call(why.site)
    token = i if side == "query" else j
    values, _ = why.run.without(call, why.item, why.head, token, side, writers, why.features)
    row = why.weights(i).double()
    return {
        writer: float(weights_after(why, call, row, i, j, side, value - values[0])[j])
        for writer, value in zip(writers, values[1:], strict=True)
    }


def score_change(why: Any, call: Any, i: int, j: int, side: str, shift: Tensor) -> float:
    query, key = (why.run.whole(call, why.item, why.head, *at) for at in ((i, "query"), (j, "key")))
    own, whole = (query, key) if side == "query" else (key, query)
    before = why.run.coefficient(call, why.item, why.head, i, j, float(own @ whole))
    after = why.run.coefficient(call, why.item, why.head, i, j, float((own + shift) @ whole))
    return after[0] * float((own + shift) @ whole) - before[0] * float(own @ whole)


def weights_after(why: Any, call: Any, row: Tensor, i: int, j: int, side: str, shift: Tensor) -> Tensor:
    """The row after a change of one query, or of the key j: softmax with the scores' changes, sinks included.

    w'_l = w_l e^{d_l} / (1 + sum_k w_k (e^{d_k} - 1))

    Other alignments (sparsemax, sigmoid, ...) are computed on the whole row of changed scores.
    """
    change = torch.zeros_like(row)
    amap = why.record.maps[why.site]
    align = alignment_of(amap)
    if align is not None:
        return _aligned_after(why, call, align, amap, i, j, side, shift)
    if side == "key":
        change[j] = score_change(why, call, i, j, side, shift)
    else:
        seen = (row > 0).nonzero().flatten()
        change[seen] = _row_changes(why.run, call, why.item, why.head, i, seen.tolist(), shift)
    most = float(change.max())
    weighed = row * torch.exp(change - most)
    rest = max(0.0, 1.0 - float(row.sum()))  # what a sink has
    return weighed / (weighed.sum() + rest * math.exp(-most))


def _aligned_after(why: Any, call: Any, align: Any, amap: Any, i: int, j: int, side: str, shift: Tensor) -> Tensor:
    """The row by its own alignment, where it is no softmax: (m,)."""
    run, item, head = why.run, why.item, why.head
    one = (amap[item] if len(amap.lead) > 1 else amap)[head]
    keep = one.allowed(slice(i, i + 1), slice(0, one.m)).expand(1, 1, one.m).reshape(1, one.m).bool()
    q = run.side(call, item, head, [i], "query").x[:, 0].sum(0)
    k = run.side(call, item, head, list(range(one.m)), "key").x.sum(0)
    if side == "query":
        q = q + shift
    else:
        k[j] += shift
    scores = torch.zeros(1, one.m, dtype=torch.float64)
    for l in keep[0].nonzero().flatten().tolist():
        raw = float(k[l] @ q)
        factor, rest, _ = run.coefficient(call, item, head, i, l, raw)
        scores[0, l] = factor * raw + rest
    made: Tensor = align(scores, keep)[0]
    return made


def _row_changes(run: TracedRun, call: Any, item: int, head: int, i: int, keys: list[int], shift: Tensor) -> Tensor:
    if call.keys is not None:
        k = call.keys[item, head * call.keys.shape[1] // call.heads, keys].double()
        q = call.queries[item, head, i].double()
    else:
        k = run.side(call, item, head, keys, "key").x.sum(0)
        q = run.whole(call, item, head, i, "query")
    before, after = k @ q, k @ (q + shift)
    if call.queries is not None and not call.cap:
        return (call.scale or 1.0) * (after - before)
    found = []
    for key, a, b in zip(keys, before.tolist(), after.tolist(), strict=True):
        found.append(
            run.coefficient(call, item, head, i, key, b)[0] * b - run.coefficient(call, item, head, i, key, a)[0] * a
        )
    return torch.tensor(found, dtype=torch.float64)


def ran(why: Any, made: CutPart) -> CutPart:
    """The same in a run of the model itself: its query (or key) is shifted at this head alone."""
    i, j = why.cell
    rec = why.record
    token = i if made.side == "query" else j
    shift = Shift(**{made.side: {(why.item, why.head, token): made.shift}})
    model = rec._names.model
    with torch.no_grad(), Record(model) as changed, intervene(model, {why.site: shift}):
        out = model(*rec.inputs.args, **rec.inputs.kwargs)
    amap = changed.maps[why.site]
    amap = (amap[why.item] if len(amap.lead) > 1 else amap)[why.head]
    weight = float(amap.row(i).reshape(-1)[j])
    before = why.run.logit_values
    logits = getattr(out, "logits", out if isinstance(out, torch.Tensor) else None)
    moved = None if before is None or logits is None else float((logits - before).abs().max())
    return replace(made, ran=weight, moved=moved)
