"""An earlier head's part by its source tokens: the head wrote sum_s w_ts v_s, and each term goes the same way."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.core.errors import Refused

from .evaluation import Evaluation, WrittenParts, head_axis
from .run import TracedRun, _double
from .selection import Selection
from .writers import Writer


def sources(
    run: TracedRun, maps: Any, site: str, item: int, head: int, side: str, writer: Writer, i: int, j: int
) -> Tensor:
    """(m,): what each token that an earlier head looked at adds to the score s_ij through that head."""
    call = run.call(site)
    token, other = (i, j) if side == "query" else (j, i)
    x = pushed(run, maps, call, item, head, side, writer, token)
    whole = run.side(call, item, head, [other], "key" if side == "query" else "query").x[:, 0].sum(0)
    own = run.side(call, item, head, [token], side).x[:, 0].sum(0)
    c, _, _ = run.coefficient(call, item, head, i, j, float(own @ whole))
    return c * x @ whole


def pushed(run: TracedRun, maps: Any, call: Any, item: int, head: int, side: str, writer: Writer, token: int) -> Tensor:
    """(m, d): the source tokens of an earlier head, as they arrive in the query or key of a token."""
    node = run.ends(call)[side == "key"]
    earlier = run.tape.calls[writer.path]
    if earlier.values is None or earlier.out is None:
        raise Refused(f"The values at {writer.path!r} are not known: its part cannot be told by source token.")
    values = earlier.values[item, writer.head * earlier.values.shape[1] // earlier.heads].double()
    amap = maps[writer.path]
    weights = (amap[item] if len(amap.lead) > 1 else amap)[writer.head]
    out = earlier.out
    axis, heads = head_axis(out)
    if axis is None:
        raise Refused(f"The output at {writer.path!r} has shape {out.shape}: its heads could not be told apart.")

    def given(chosen: Selection) -> WrittenParts:
        rank = len(out.shape)
        asked, wanted = chosen[axis], chosen[rank - 2]
        index = tuple(range(out.shape[axis])) if asked is None else asked
        tokens = tuple(range(out.shape[rank - 2])) if wanted is None else wanted
        each = torch.stack([weights.row(t).reshape(-1).double()[:, None] * values for t in tokens], 1)  # (m, t, d)
        if (last := chosen[-1]) is not None:
            each = each[..., list(last)]
        flat = item * heads + writer.head if rank == 3 else writer.head
        own = torch.tensor([float(place == flat) for place in index], dtype=torch.float64)
        x = each[:, None] * own.reshape(1, -1, 1, 1)
        x = x[:, None] if rank == 4 else x
        return WrittenParts(tuple((writer.path, s) for s in range(each.shape[0])), x)

    work = Evaluation(run.tape, given={out: given})
    work.silent = True
    work.cast = _double  # type: ignore[method-assign]
    parts = work.parts(node, run.selections(call, item, head, [token], side))
    return parts.x.reshape(parts.x.shape[0], -1)
