"""The scores of heads: numbers by detector, the best of them, and a table."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..capture.module_stack import Site


class HeadScore(NamedTuple):
    """Of one detector at one site: score and chance level of each head, (H,), and over how many rows, (H,)."""

    score: Tensor
    chance: Tensor
    rows: Tensor


class Head(NamedTuple):
    """One head by one detector."""

    site: str
    layer: int | None
    head: int
    detector: str
    score: float
    chance: float

    @property
    def above_chance(self) -> float:
        """0 at chance, 1 where all weight is on what the detector names."""
        return (self.score - self.chance) / (1.0 - self.chance) if self.chance < 1.0 else 0.0


class HeadScores:
    """What the heads of a record look at; printed by rich as a table.

    `by_site[site][detector]` is a Score.
    """

    def __init__(self, by_site: dict[str, dict[str, HeadScore]], detectors: list[str]):
        self.by_site, self.detectors = by_site, detectors

    def score(self, detector: str) -> Tensor:
        """(sites, heads), in the order in which sites ran; NaN where it is not defined or there is no such head."""
        return self._grid(detector, 0)

    def chance(self, detector: str) -> Tensor:
        """(sites, heads): the score of uniform weights."""
        return self._grid(detector, 1)

    def _grid(self, detector: str, part: int) -> Tensor:
        self._known(detector)
        rows = [found[detector][part] for found in self.by_site.values()]
        made = torch.full((len(rows), max(len(row) for row in rows)), torch.nan)
        for place, row in enumerate(rows):
            made[place, : len(row)] = row
        return made

    def best(self, detector: str, k: int = 5) -> list[Head]:
        """The k heads with the highest score."""
        self._known(detector)
        found = [head for head in self.all() if head.detector == detector and head.score == head.score]
        return sorted(found, key=lambda head: -head.score)[:k]

    def all(self) -> list[Head]:
        """Every head by every detector, in order."""
        made = []
        for name, found in self.by_site.items():
            layer = _layer(name)
            for detector, (score, chance, _) in found.items():
                for head, (a, b) in enumerate(zip(score.tolist(), chance.tolist(), strict=True)):
                    made.append(Head(name, layer, head, detector, a, b))
        return made

    def table(self, detector: str | None = None, k: int = 12) -> Any:
        """A rich table: a head a row, "score / chance" by detector, the highest first (by one detector if named)."""
        from rich.table import Table

        shown = [name for name in self.detectors if not bool(self.score(name).isnan().all())]
        title = "Weight on what each detector names / by chance"
        made = Table(title=title if detector is None else f"{title}; sorted by {detector}")
        made.add_column("site")
        made.add_column("head", justify="right")
        for name in shown:
            made.add_column(name, justify="right")
        by_head: dict[tuple[str, int], dict[str, Head]] = {}
        for head in self.all():
            by_head.setdefault((head.site, head.head), {})[head.detector] = head
        if detector is not None:
            order = [(head.site, head.head) for head in self.best(detector, k)]
        else:
            order = sorted(by_head, key=lambda at: -max(_rank(x) for x in by_head[at].values()))[:k]
        for site, number in order:
            row = by_head[site, number]
            top = max(row.values(), key=_rank).detector
            cells = [_cell(row[name], name == top) for name in shown]
            made.add_row(site, str(number), *cells)
        return made

    def __rich__(self) -> Any:
        return self.table()

    def __repr__(self) -> str:
        count = sum(len(next(iter(found.values())).score) for found in self.by_site.values())
        return f"HeadScores({count} heads at {len(self.by_site)} sites by {', '.join(self.detectors)})"

    def _known(self, detector: str) -> None:
        if detector not in self.detectors:
            raise KeyError(f"There is no detector {detector!r} here: {', '.join(self.detectors)}.")


def _layer(name: str) -> int | None:
    path, colon, call = name.rpartition(":")
    return (Site(path, int(call)) if colon and call.isdigit() else Site(name)).layer


def _rank(head: Head) -> float:
    """Position foretells something of most heads: others are named first."""
    return -1.0 if head.score != head.score or head.detector == "position" else head.above_chance


def _cell(head: Head, top: bool) -> str:
    if head.score != head.score:
        return "-"
    text = f"{head.score:.2f} / {head.chance:.2f}"
    return f"[bold]{text}[/bold]" if top else text
