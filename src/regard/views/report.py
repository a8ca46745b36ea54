"""A report as one page: what was tested, what held and what did not first, then each test with what it saw.

No script and no network: what a model was given stands in it as text and nothing else.
"""

import math
from typing import Any

from markupsafe import Markup

from ..judging.artifacts import Artifact, Caution, Grid, Histogram, Plot, TextExamples
from ..judging.finding import Finding
from ..judging.report import Report, beside, compared, standing, verdicts
from ..judging.suite import Judged
from ..judging.summary import TERMS, counted
from ..judging.validity import weakness
from .charts import chart
from .html_shell import html_page
from .templating import fill

SHOWN = 12  # findings of a test that are not folded away
GROUPS = (
    ("better", "What held", "better than the baseline"),
    ("not significantly different", "Not significantly different", "not significantly different from the baseline"),
    ("worse", "What did not hold", "worse than the baseline"),
    ("undefined", "Without a verdict", "without a verdict"),
)
ASPECTS = {"task": "task", "faithfulness": "faithfulness", "plausibility": "plausibility", "trap": "what to beware of"}


def report_page(report: Report) -> str:
    """The whole page."""
    headlines = [(test, one, *standing(one)) for test, one in report.headlines()]
    groups = []
    for kind, title, _ in GROUPS:
        by_test: dict[str, tuple[Judged, list[dict[str, Any]]]] = {}
        for test, one, _, how in headlines:
            if how == kind:
                by_test.setdefault(test.name, (test, []))[1].append(row(one))
        groups.append((kind, title, list(by_test.values())))
    counts = report.counts()
    said = [(kind, counts[kind], words) for kind, _, words in GROUPS]
    model = report.about.get("model") or report.about["model class"]
    body = fill(
        "report.html",
        about=report.about,
        aspects=ASPECTS,
        counted=counted(report.about),
        family=max((one.family for _, one in report.headlines()), default=0),
        data=report.about.get("data"),
        model=model,
        groups=groups,
        counts=said,
        names={test.name for test in report.tests},
        ran=[test for test in report.tests if not test.left_out],
        sections=[section(test) for test in report.tests],
        summary=report.summary,
        terms=TERMS,
        tests=report.tests,
    )
    return html_page(f"Judged: {model}", body, style=fill("report.css"), facts=_facts(report), how="How it was judged")


def section(test: Judged) -> Markup:
    """One test: its question, its findings in a table, and what it saw."""
    rows = [row(one) for one in test.findings]
    return fill(
        "judged.html", test=test, rows=rows[:SHOWN], more=rows[SHOWN:], figures=[figure(one) for one in test.evidence]
    )


def row(one: Finding) -> dict[str, Any]:
    """A finding as a table shows it: the verdict on each baseline is that of `verdicts`, as on the first page."""
    baselines, known = [], verdicts(one)
    for name, value in one.baselines.items():
        baselines.append(
            {"name": name, "value": number(value), "how": known[name].replace(" ", "-"), "says": compared(one, name)}
        )
    main, verdict = standing(one)
    shown = next(
        (x | {"says": beside(one), "how": verdict.replace(" ", "-")} for x in baselines if x["name"] == main), None
    )
    interval = "" if one.interval is None else f"{number(one.interval[0])} to {number(one.interval[1])}"
    return {
        "name": one.name,
        "says": one.says,
        "value": number(one.value),
        "unit": one.unit,
        "interval": interval,
        "level": f"{one.level:.0%}",
        "method": one.method,
        "better": one.better,
        "n": one.n,
        "undefined": one.undefined,
        "beside": baselines,
        "main": shown,
        "how": verdict,
        "strip": strip(one),
        "weak": weakness(one.name),
        "why": one.why,
    }


def strip(one: Finding) -> dict[str, Any] | None:
    """Value, interval and baselines on a line from 0 to 100 %, with its ends; None where nothing is side by side."""
    ends = [] if one.interval is None else list(one.interval)
    points = [x for x in (one.value, *ends, *one.baselines.values()) if x is not None and math.isfinite(x)]
    if one.value is None or not math.isfinite(one.value) or len(points) < 2 or max(points) == min(points):
        return None
    low, high = min(points), max(points)

    def at(x: float) -> float:
        return round(100 * (x - low) / (high - low), 2)

    bar = None if one.interval is None or not all(map(math.isfinite, one.interval)) else [at(x) for x in one.interval]
    return {
        "value": at(one.value),
        "low": number(low),
        "high": number(high),
        "axis": one.unit.partition(" (")[0] or one.name,
        "bar": bar,
        "beside": [(name, at(x)) for name, x in one.baselines.items() if x is not None and math.isfinite(x)],
    }


def figure(one: Artifact) -> Markup:
    """What a test saw: texts and grids are letters and cells, the rest is drawn."""
    if isinstance(one, TextExamples):
        return fill("texts.html", one=one, texts=[_shaded(text) for text in one.texts])
    if isinstance(one, Grid):
        known = [abs(x) for line in one.values for x in line if x is not None]
        top = max(known, default=0.0) or 1.0
        cells = [
            [None if x is None else (number(x, 2), round(100 * abs(x) / top), x < 0) for x in line]
            for line in one.values
        ]
        return fill("grid.html", one=one, cells=cells)
    if isinstance(one, Caution):
        return Markup('<p class="caution"><b>{}.</b> {}</p>').format(one.title, one.says)
    if not isinstance(one, (Histogram, Plot)):
        raise TypeError(f"A {type(one).__name__} cannot be drawn: expected a Histogram, Plot, Grid or Texts.")
    made = Markup('<figure class="drawn"><figcaption><b>{}</b> {}</figcaption>{}</figure>')
    return made.format(one.title, one.says, chart(one))


def number(x: float | None, digits: int = 3) -> str:
    """As pages and terminals say it."""
    if x is None:
        return "undefined"
    if math.isinf(x):
        return "∞" if x > 0 else "−∞"
    if abs(x) < 1e-15:  # what rounding left of a mean that is 0
        return "0"
    return f"{x:.{digits}g}".replace("-", "−")


def _shaded(text: Any) -> dict[str, Any]:
    """A text with, for each of its weights, how dark each word is; marks of 0 and 1 are underlined instead."""
    shades = []
    for name, some in text.weights.items():
        known = [abs(x) for x in some if x is not None]
        top = max(known, default=0.0) or 1.0
        marks = set(known) <= {0.0, 1.0}
        cells = [(word, round(100 * abs(x or 0.0) / top), number(x)) for word, x in zip(text.words, some, strict=True)]
        shades.append((name, marks, cells))
    return {"name": text.name, "facts": dict(text.facts), "shades": shades}


def _facts(report: Report) -> dict[str, str]:
    """The configuration in words, flat."""
    made = {}
    for name, fact in report.about.items():
        if isinstance(fact, dict):
            fact = ", ".join(f"{key} {value}" for key, value in fact.items())
        elif isinstance(fact, (list, tuple)):
            fact = ", ".join(map(str, fact))
        if fact not in (None, ""):
            made[name] = str(fact)
    return made
