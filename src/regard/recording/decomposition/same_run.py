"""Whether the run that is taken apart is the run that was recorded."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.core.alignments import Softmax
from regard.core.errors import Refused

from .run import TracedRun

LEAST = 1e-6  # weights below it are no witness
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}  # of the largest; half precision and autocast: HALF
HALF = 0.05


def check_same_run(run: TracedRun, call: Any, amap: Any, item: int, head: int, i: int) -> None:
    """Raise `Refused` where the model, run once more, had other queries or weights at a site than the record has.

    Queries are compared with the record's; and the row's weights with the scores, log(w_ij / w_il) = s_ij - s_il.
    Once for each head of a site, by one row.
    """
    if (call.site, item, head) in run.checked:
        return
    problem = _query_distance(call, amap, item, head) or _weight_distance(run, call, amap, item, head, i)
    if problem:
        raise Refused(
            f"why() ran the model once more, and at {call.site!r} {problem} than in the record. Its weights or its "
            "inputs have changed since, it draws at random, or the record was made under an intervention: "
            "model.eval(), record again without interventions, and ask before anything changes."
        )
    run.checked.add((call.site, item, head))


def _query_distance(call: Any, amap: Any, item: int, head: int) -> str:
    """Said where the queries differ; "" where they agree or the map has none."""
    plan = getattr(amap, "plan", None)
    recorded = getattr(plan, "q", None)
    if recorded is None or call.queries is None or recorded.shape != call.queries.shape:
        return ""
    a, b = recorded[item, head].double(), call.queries[item, head].double()
    apart = float((a - b).abs().max()) / max(float(b.abs().max()), 1e-30)
    return f"the queries are other ones (by {apart:.2g} of their size)" if apart > _tolerance(recorded, b) else ""


def _tolerance(*tensors: Tensor) -> float:
    return max(TOLERANCE.get(x.dtype, HALF) for x in tensors)


def _weight_distance(run: TracedRun, call: Any, amap: Any, item: int, head: int, i: int) -> str:
    """The row's strongest weight beside its weakest: their ratio is that of the scores."""
    if alignment_of(amap) is not None:
        return ""
    one = (amap[item] if len(amap.lead) > 1 else amap)[head]
    weights = one.row(i).reshape(-1)
    row = weights.double()
    strong = int(row.argmax())
    rest = torch.where(row > LEAST, row, torch.inf)
    rest[strong] = torch.inf
    weak = int(rest.argmin())
    if not rest[weak].isfinite():
        return ""
    q = run.side(call, item, head, [i], "query").x[:, 0].sum(0)
    keys = run.side(call, item, head, [strong, weak], "key").x.sum(0)
    scores = []
    for j, key in zip((strong, weak), keys, strict=True):
        raw = float(q @ key)
        factor, bias, _ = run.coefficient(call, item, head, i, j, raw)
        scores.append(factor * raw + bias)
    said, seen = scores[0] - scores[1], float((row[strong] / row[weak]).log())
    kept = getattr(getattr(amap, "plan", None), "q", None)
    kind = kept if kept is not None else getattr(amap, "stored", weights)
    if call.queries is not None and call.queries.dtype not in TOLERANCE:
        kind = call.queries
    least = 10 * _tolerance(kind) * max(1.0, abs(scores[0]), abs(scores[1]))
    return "" if abs(said - seen) <= least else f"the weights of row {i} are other ones"


def alignment_of(amap: Any) -> Any:
    """The alignment of a map whose rows are no softmax of their scores; None of softmax.

    Scores that a model wrote out and that decompose stand before a softmax.
    """
    problem = getattr(amap, "live", None)
    return None if problem is None or type(problem.align) is Softmax else problem.align
