"""The report of a study: one offline page, tables and figures."""

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
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
    tuning_sheet,
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
    ("better", "Better than the baseline", "significantly better"),
    ("worse", "Worse than the baseline", "significantly worse"),
    ("no significant difference", "No significant difference", "no significant difference"),
    ("underpowered", "Underpowered: too few seeds", "underpowered"),
)
PAGE: dict[str, Any] = {  # replaced by CSS variables in the page
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
    """Write the report of a study into a folder: the page, tables and figures.

    report.html                     one page, offline
    means.md .tex, comparisons.md .tex   tables in Markdown and LaTeX
    tuning.md .tex                  what tuning chose, if the study tunes
    means.csv, comparisons.csv      all numbers, in full precision
    differences, ranks, lengths .pdf .svg  figures; ranks if there are several tasks, lengths for tasks that
                                    report their metric by input length
    """
    found = analyse(results, baseline, alpha=alpha)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    sheets = {
        "means": [(means_sheet(found, task), _caveats(found, task)) for task in results.tasks],
        "comparisons": [(comparison_sheet(found), "")],
        **({"tuning": [(tuning_sheet(results), "")]} if results.tuned else {}),
    }
    files: dict[str, bytes] = {
        "report.html": study_page(found).encode(),
        "means.csv": csv_text(means_rows(found)).encode(),
        "comparisons.csv": csv_text(comparison_rows(found)).encode(),
    }
    for name, some in sheets.items():
        texts = (f"**{one.title}**\n\n{markdown(one)}" + f"\n{caveats}\n" * bool(caveats) for one, caveats in some)
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
    sections = [(task, _table(means_sheet(found, task)), _caveats(found, task)) for task in results.tasks]
    body = fill(
        "study.html",
        study=results.study,
        baseline=found.baseline,
        power=found.power.says,
        seeds=len(results.seeds),
        tasks=results.tasks,
        variants=results.variants,
        groups=groups,
        sections=sections,
        table=_table(comparison_sheet(found)),
        tuning=_table(tuning_sheet(results)) if results.tuned else None,
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
    """By name: the function that draws it, its size in inches, and its caption."""
    made: dict[str, tuple[Callable[..., None], tuple[float, float], str]] = {}
    if found.comparisons:
        shows = (
            f"Each variant minus {found.baseline}. Filled: significant. The pale band has the differences that this "
            "study detects with a power below .8."
        )
        made["differences"] = (lambda figure, **how: forest(figure, found, **how), forest_size(found), shows)
    ranks = found.ranks
    if ranks is not None and ranks.tasks > 1:
        shows = (
            f"Average ranks over {ranks.tasks} tasks, 1 is best. Bars join variants not significantly different. All "
            f"variants alike: p = {ranks.p:.2g} by Friedman's test, {ranks.p_f:.2g} by Iman and Davenport's F."
        )
        made["ranks"] = (lambda figure, **how: rank_plot(figure, ranks, **how), ranks_size(ranks), shows)
    for place, (task, lengths) in enumerate(found.results.lengths.items()):
        measure = found.results.measures[task][found.results.main(task)]
        shows = f"{task} by input length: mean over seeds, in bins of about equal count."
        name = "lengths" if len(found.results.lengths) == 1 else f"lengths-{place + 1}"
        made[name] = (partial(by_length, lengths=lengths, measure=measure), (6.4, 3.0), shows)
    return made


def _facts(results: Results) -> dict[str, str]:
    trials = len(results.tasks) * len(results.variants) * len(results.seeds)
    return {
        "trials": f"{trials - len(results.missing)} of {trials}",
        "seeds": ", ".join(map(str, results.seeds)),
        "regard": __version__,
    }


def _table(sheet: Sheet) -> dict[str, Any]:
    return {
        "title": sheet.title,
        "columns": sheet.columns,
        "rows": sheet.rows,
        "named": sheet.named,
        "ruled": sheet.ruled,
    }


def _caveats(found: Analysis, task: str) -> str:
    """Sentences to read with a table: trivial baselines, and unequal parameter counts."""
    return " ".join(filter(None, (_trivial(found, task), unequal(found.results, task, found.baseline))))


def _trivial(found: Analysis, task: str) -> str:
    """Whether the variants are above the best trivial baseline."""
    compared = below_trivial(found.results, task)
    if compared is None:
        return ""
    name, best, below = compared
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
