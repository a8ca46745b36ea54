"""What frozen scales do not tell, writer by writer: bounded by computing it."""

from __future__ import annotations

from typing import Any, NamedTuple

from .cut import score_change
from .writers import Writer


class NonlinearShare(NamedTuple):
    """Taking one writer away: the score's change by its part alone, and with the normalisation computed again."""

    writer: Writer
    said: float
    live: float

    @property
    def nonlinear(self) -> float:
        """What the frozen scales do not tell."""
        return self.live - self.said


def nonlinear(why: Any, side: str, k: int | None = None) -> list[NonlinearShare]:
    """For the writers of a side, the strongest first: all of them in one evaluation."""
    i, j = why.cell
    run, call, token = why.run, why.run.call(why.site), i if side == "query" else j
    writers = [share.writer for share in why.by_writer(side, k)]
    values, _ = run.without(call, why.item, why.head, token, side, writers, why.features)
    own = run.side(call, why.item, why.head, [token], side, why.features)
    place = {writer: at for at, writer in enumerate(own.writers)}
    made = []
    for writer, value in zip(writers, values[1:], strict=True):
        said = score_change(why, call, i, j, side, -own.x[place[writer], 0])
        made.append(NonlinearShare(writer, said, score_change(why, call, i, j, side, value - values[0])))
    return made
