"""Why a cell has its weight, for the application: the sentence, the writers of both sides, and what a cut does."""

from typing import Any

from regard.core.errors import Refused
from regard.recording.decomposition.why import Share, Why, why
from regard.recording.interventions.interventions import Shift
from regard.recording.record import Record

SHOWN = 8  # writers on each side
OTHERS = 16  # keys of the row that a score is compared with


def why_answer(rec: Record, site: str, head: int, row: int, column: int) -> dict[str, Any]:
    """The score of a cell over other keys of its row, by writer; what does not decompose is a ValueError."""
    try:
        found = _explained(rec, site, head, row, column)
        sides = {side: _side(found, side) for side in ("query", "key")}
    except Refused as problem:
        raise ValueError(str(problem)) from problem
    return {
        "sentence": found.sentence,
        "score": found.score,
        "weight": found.weight,
        "layer": found.layer,
        **sides,
        "pairs": [
            {"query": pair.query.label, "key": pair.key.label, "value": pair.value} for pair in found.strongest(5)
        ],
        "cell": [row, column],
    }


def cut_shift(rec: Record, site: str, head: int, row: int, column: int, side: str, writer: str) -> Shift:
    """What takes a writer's part out of the query of a row, or the key of a column, of one head."""
    try:
        found = why(rec, site, head, row, column)
        cut = found.cut(writer, side)
    except Refused as problem:
        raise ValueError(str(problem)) from problem
    token = row if side == "query" else column
    return Shift(**{side: {(0, head, token): cut.shift}})


def _explained(rec: Record, site: str, head: int, row: int, column: int) -> Why:
    amap = rec.maps[site]
    weights = (amap[0] if len(amap.lead) > 1 else amap)[head].row(row).reshape(-1)
    others = [key for key in (weights > 0).nonzero().flatten().tolist() if key != column]
    if len(others) > OTHERS:
        others = [others[place * (len(others) - 1) // (OTHERS - 1)] for place in range(OTHERS)]
    return why(rec, site, head, row, column, against=others or None)


def _side(found: Why, side: str) -> list[dict[str, Any]]:
    """The strongest writers of a side, and the weight without each of them: all in one evaluation."""
    shares = found.by_writer(side, SHOWN)
    without = found.without(side, [share.writer for share in shares if share.writer is not None])
    return [{**_plain(share), "without": None if share.writer is None else without[share.writer]} for share in shares]


def _plain(share: Share) -> dict[str, Any]:
    writer = share.writer
    return {
        "name": share.name,
        "value": share.value,
        "layer": -1 if writer is None else writer.layer,
        "kind": "" if writer is None else writer.kind,
    }
