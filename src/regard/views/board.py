"""The page of a board: a ranked table, each cell of which leads to its trials, curves and judged findings."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from .. import __version__
from ..recording.io.writing import write_whole
from ..studies.board import Board
from ..studies.report.wording import number
from ..studies.tasks import folder_of
from .charts import drawn
from .html_shell import html_page
from .study import PAGE
from .study_charts import cost_plot, rank_plot, ranks_size
from .templating import fill

CURVE = (96, 24)  # points of a learning curve's picture


def save_board(found: Board, path: "str | Path", folders: "Mapping[str, Path] | None" = None) -> Path:
    """Write the page; folders: that of each study, to whose trials the page links where they are there."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, [board_page(found, target.parent, folders or {}).encode()])
    return target


def board_page(found: Board, place: Path, folders: Mapping[str, Path]) -> str:
    """The whole page, to lie in the folder `place`."""
    rows = []
    for variant in found.variants:
        cells = [_shown(found, variant, column) for column in range(len(found.tasks))]
        rank = found.mean_rank(variant)
        rows.append((variant, "" if rank is None else f"{rank:.2f}", cells, f"{found.cost[variant]:.2g}"))
    details = [
        _details(found, variant, column, place, folders)
        for column in range(len(found.tasks))
        for variant in found.variants
        if found.of(variant, column) is not None
    ]
    figures = []
    if found.ranks is not None and found.ranks.tasks > 1:
        ranked = found.ranks
        caption = (
            f"Mean ranks over {ranked.tasks} tasks, 1 is best. Bars join variants that are not significantly different."
        )
        figures.append((caption, drawn(partial(_draw_ranks, ranked), ranks_size(ranked), caption)))
        caption = "Mean rank beside cost, core-hours of all trainings with tuning: low and left is best."
        figures.append((caption, drawn(partial(cost_plot, found=found, colours=PAGE), (6.4, 3.2), caption)))
    body = fill(
        "board.html",
        studies=found.studies,
        says=found.says,
        tasks=found.tasks,
        trivial=[_value(one.trivial[1], one.measure) if one.trivial else "" for one in found.tasks],
        rows=rows,
        shared=len(found.shared),
        figures=figures,
        details=details,
    )
    facts = {"variants": str(len(found.variants)), "tasks": str(len(found.tasks)), "regard": __version__}
    return html_page("Board", body, style=fill("board.css"), facts=facts, how="How it was made", scripts=True)


def _draw_ranks(ranked: Any, figure: Any) -> None:
    rank_plot(figure, ranked, colours=PAGE)


def _value(value: float, measure: Any) -> str:
    return number(value, measure)


def _shown(found: Board, variant: str, column: int) -> dict[str, Any] | None:
    cell, measure = found.of(variant, column), found.tasks[column].measure
    if cell is None:
        return None
    low_high = ""
    if cell.interval is not None:
        low_high = f"{_value(cell.interval[0], measure)} to {_value(cell.interval[1], measure)}"
    return {
        "id": _id(found, variant, column),
        "value": _value(cell.value, measure),
        "interval": low_high,
        "first": cell.rank < 2,
    }


def _id(found: Board, variant: str, column: int) -> str:
    return f"c{column}-{found.variants.index(variant)}"


def _details(found: Board, variant: str, column: int, place: Path, folders: Mapping[str, Path]) -> dict[str, Any]:
    cell, task = found.of(variant, column), found.tasks[column]
    assert cell is not None
    measure = task.measure
    facts = [f"{cell.seeds} trainings"]
    facts += [f"{cell.parameters:,} parameters"] if cell.parameters else []
    facts += [f"{cell.seconds:.1f} s a training"] if cell.seconds is not None else []
    if cell.tuned is not None:
        chosen = ", ".join(f"{name} {value}" for name, value in cell.tuned["configuration"].items()) or "the task's own"
        facts.append(f"of {cell.tuned['tried']} configurations, validation chose {chosen}")
    trials = []
    for one in cell.trials:
        folder = folder_of(folders[task.study], one) if task.study in folders else None
        trials.append(
            {
                "seed": one["seed"],
                "value": _value(one["value"], measure),
                "seconds": "" if one["seconds"] is None else f"{one['seconds']:.1f}",
                "memory": _memory(one.get("peak")),
                "curve": learning_curve(one.get("curve") or ()),
                "folder": os.path.relpath(folder, place) if folder is not None and folder.is_dir() else "",
                "findings": _findings(one["judged"]),
            }
        )
    return {
        "id": _id(found, variant, column),
        "title": f"{variant} on {task.label}",
        "measure": measure.says,
        "facts": "; ".join(facts) + ".",
        "trials": trials,
        "judged": any(one["findings"] for one in trials),
        "curves": any(one["curve"] for one in trials),
    }


def _memory(peak: "Mapping[str, int] | None") -> str:
    bytes_ = (peak or {}).get("gpu") or (peak or {}).get("process")
    return "" if bytes_ is None else f"{bytes_ / 2**20:,.0f}"


def _findings(tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """The sentences of the judges."""
    return [str(one["says"]) for test in tests for one in test.get("findings", ()) if one.get("says")]


def learning_curve(values: Sequence[float]) -> Markup:
    """Values by epoch as a small line; its label has the first, the best and the last."""
    if len(values) < 2:
        return Markup("")
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    wide, tall = CURVE
    points = " ".join(
        f"{x * wide / (len(values) - 1):.1f},{tall - 2 - (value - low) / span * (tall - 4):.1f}"
        for x, value in enumerate(values)
    )
    label = escape(f"validation: {values[0]:.3g} at first, {low:.3g} to {high:.3g}, {values[-1]:.3g} at last")
    return Markup(
        f'<svg class="curve" role="img" aria-label="{label}" viewBox="0 0 {wide} {tall}" '
        f'width="{wide}" height="{tall}">'
        f'<polyline points="{points}"/></svg>'
    )
