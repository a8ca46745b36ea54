"""A study as one offline page, tables and figures: what was asked, what can be said, and the numbers behind it."""

import io
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..recording.io.writing import write_whole
from ..studies.report import (
    Sheet,
    below_trivial,
    comparison_rows,
    comparison_sheet,
    csv_text,
    latex,
    markdown,
    means_rows,
    means_sheet,
    says,
    unequal,
)
from ..studies.report.wording import number
from ..studies.results import Results
from ..studies.statistics import Analysis, analyse
from .charts import BAD, GOOD, INK, LINE, SERIES, SOFT, drawn
from .html_shell import html_page
from .study_charts import by_length, forest, forest_size, rank_plot, ranks_size
from .templating import fill

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROUPS = (
    ("better", "Better than the baseline", "better, told by the test"),
    ("worse", "Worse than the baseline", "worse, told by the test"),
    ("no difference found", "No difference found", "no difference found"),
    ("cannot be told", "Cannot be told with these seeds", "cannot be told"),
)
PAGE: dict[str, Any] = {  # colours that become those of the page
    "ink": INK,
    "soft": SOFT,
    "line": LINE,
    "better": GOOD,
    "worse": BAD,
    "band": LINE,
    "series": SERIES,
}


def study_report(
    results: Results, folder: "str | Path", baseline: str | None = None, *, alpha: float = 0.05
) -> Analysis:
    """Everything that is told of a study, written into a folder: the page, tables and figures.

    report.html                     one page, offline
    means.md .tex, comparisons.md .tex   tables for a text and a paper
    means.csv, comparisons.csv      every number in full
    differences, ranks, lengths .pdf .svg  figures for a paper; ranks where several tasks were run, lengths where
                                    a task is told by the length of its inputs
    """
    found = analyse(results, baseline, alpha=alpha)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    sheets = {
        "means": [(means_sheet(found, task), _told(found, task)) for task in results.tasks],
        "comparisons": [(comparison_sheet(found), "")],
    }
    files: dict[str, bytes] = {
        "report.html": study_page(found).encode(),
        "means.csv": csv_text(means_rows(found)).encode(),
        "comparisons.csv": csv_text(comparison_rows(found)).encode(),
    }
    for name, some in sheets.items():
        texts = (f"**{one.title}**\n\n{markdown(one)}" + f"\n{said}\n" * bool(said) for one, said in some)
        files[f"{name}.md"] = "\n".join(texts).encode()
        files[f"{name}.tex"] = "\n".join(latex(one) for one, _ in some).encode()
    for name, (draw, size, _) in figures(found).items():
        for ending in ("pdf", "svg"):
            files[f"{name}.{ending}"] = _on_paper(draw, size, ending)
    for name, content in files.items():
        write_whole(place / name, [content])
    return found


def study_page(found: Analysis) -> str:
    """The whole page."""
    results = found.results
    groups = []
    for kind, title, words in GROUPS:
        said = [says(one, results.measures[one.task][one.metric]) for one in found.comparisons if one.verdict == kind]
        groups.append((kind, title, words, said))
    sections = [(task, _table(means_sheet(found, task)), _told(found, task)) for task in results.tasks]
    body = fill(
        "study.html",
        study=results.study,
        baseline=found.baseline,
        foretold=found.foretold.says,
        seeds=len(results.seeds),
        tasks=results.tasks,
        variants=results.variants,
        groups=groups,
        sections=sections,
        table=_table(comparison_sheet(found)),
        missing=results.missing,
        lacking=found.lacking,
        figures=[
            (title, drawn(partial(draw, colours=PAGE), size, title)) for draw, size, title in figures(found).values()
        ],
        improvement=found.improvement,
    )
    return html_page(
        f"Study: {results.study}", body, style=fill("study.css"), facts=_facts(results), how="How it was run"
    )


def figures(found: Analysis) -> "dict[str, tuple[Callable[..., None], tuple[float, float], str]]":
    """By name: what draws it on a figure, its size in inches, and what it shows."""
    made: dict[str, tuple[Callable[..., None], tuple[float, float], str]] = {}
    if found.comparisons:
        shows = (
            f"Each variant minus {found.baseline}. Filled: the test told a difference. The pale band holds the "
            "differences that this study would have missed more often than one time in five."
        )
        made["differences"] = (lambda figure, **how: forest(figure, found, **how), forest_size(found), shows)
    ranks = found.ranks
    if ranks is not None and ranks.tasks > 1:
        shows = f"Average ranks over {ranks.tasks} tasks, 1 is best. Bars join variants not significantly different."
        made["ranks"] = (lambda figure, **how: rank_plot(figure, ranks, **how), ranks_size(ranks), shows)
    for place, (task, lengths) in enumerate(found.results.lengths.items()):
        measure = found.results.measures[task][found.results.main(task)]
        shows = f"{task} by the length of the input: the mean over seeds in bins of about equal count."
        name = "lengths" if len(found.results.lengths) == 1 else f"lengths-{place + 1}"
        made[name] = (partial(by_length, lengths=lengths, measure=measure), (6.4, 3.0), shows)
    return made


def _facts(results: Results) -> dict[str, str]:
    trials = len(results.tasks) * len(results.variants) * len(results.seeds)
    return {
        "trials": f"{trials - len(results.missing)} of {trials}",
        "seeds": ", ".join(map(str, results.seeds)),
        "regard": version("regard"),
    }


def _table(sheet: Sheet) -> dict[str, Any]:
    return {
        "title": sheet.title,
        "columns": sheet.columns,
        "rows": sheet.rows,
        "named": sheet.named,
        "ruled": sheet.ruled,
    }


def _told(found: Analysis, task: str) -> str:
    """What must be read with a table: is it above what is trivial, and was as much trained in all?"""
    return " ".join(filter(None, (_trivial(found, task), unequal(found.results, task, found.baseline))))


def _trivial(found: Analysis, task: str) -> str:
    """DESIGN's question of every task: is it above what is trivial?"""
    told = below_trivial(found.results, task)
    if told is None:
        return ""
    name, best, below = told
    measure = found.results.measures[task][found.results.main(task)]
    beside = f"the best trivial baseline, {name} ({measure.says} {number(best, measure)})"
    if not below:
        return f"Every variant is above {beside}."
    every = len(below) == len(found.results.variants)
    return f"Below {beside}: {'every variant' if every else ', '.join(below)}."


def _on_paper(draw: "Callable[[Figure], None]", size: tuple[float, float], ending: str) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure

    from .plotting import PAPER

    figure, file = Figure(size, layout="constrained"), io.BytesIO()
    with matplotlib.rc_context(PAPER):
        draw(figure)
        undated: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
        figure.savefig(file, format=ending, bbox_inches="tight", metadata=undated[ending])
    return file.getvalue()
