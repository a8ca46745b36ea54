"""Demo: the section on the paragraph: a plausible picture, then a test of it."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup
from torch import Tensor

from regard.views import line_map

from .page import LIGHT, PageSection, Theme, fill, picture
from .paragraph import (
    APPLES,
    GRADES,
    PLACES,
    QUESTIONS,
    SEGMENTS,
    TRUANCY,
    EmbeddingAttention,
    Rate,
    SegmentResults,
    SegmentWeights,
    shared_words,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHANCE = 1 / PLACES
ASKED = tuple(QUESTIONS)
SHORT = ("the father", "the grades", "truancy", "apples", "the blood type")
FIVE = ("#c9720c", "#2f6db3", "#3c8a4e", "#a4467c", "#7a6f5a")
FIVE_ON_DARK = ("#ffb648", "#7db4f5", "#7fd08f", "#ec96c4", "#c9bda4")


def section(results: SegmentResults) -> PageSection:
    first, example = results.after[0], chosen(results.after[0])
    paragraph = tuple(range(PLACES))
    top = float(max(results.lines[0].max(), first.weights.mean(1).max()))
    panels = [
        (
            _own(results.lines[0], paragraph, top),
            _caption(results.lines[0], paragraph, first.right, "As the paragraph has it"),
        ),
        *(
            (_own(seen, order, top), _caption(seen, order, first.right, f"Shuffled order {place + 1}"))
            for place, order, seen in example
        ),
    ]
    return PageSection(
        title="Does a question attend to its answer?",
        lead=headline(results.after),
        html=fill(
            "paragraph.html",
            embedded=results.embedded,
            pictures=[_asked(results.embedded), _among(results.embedded)],
            describe_pictures=describe_pictures(results.embedded),
            believed_words=by_words(results.embedded),
            panels=panels,
            grids=[(question, reading, _grid(reading)) for question, reading in zip(ASKED, results.after, strict=True)],
            groups=[
                (question, _rates(results.embedded, index, reading))
                for index, (question, reading) in enumerate(zip(ASKED, results.after, strict=True))
            ],
            looked=describe_positions(results.after),
            readings=others(results),
            orders=len(first.orders),
            total=sum(len(one.orders) for one in results.after),
            rest=1 - float(results.lines[0].sum()),
            segments=SEGMENTS,
            short=SHORT,
        ),
    )


def headline(after: Sequence[SegmentWeights]) -> str:
    """The first line of the section: the same with the baselines of position and chance."""
    near, hits, position = (_sum(rates) for rates in _totals(after))
    orders = len(after[0].orders)
    return (
        f"MiniLM's own attention followed {what_attention_follows(after)}: with five segments and a question in "
        f"{orders} shuffled orders, the segment next to the question had the largest weight in {near.hits} of "
        f"{near.of} runs, "
        f"the one with the answer in {hits.hits}. Always picking the nearest has {position.hits}, chance "
        f"{CHANCE * hits.of:.0f}."
    )


def what_attention_follows(after: Sequence[SegmentWeights]) -> str:
    """Position where the nearest is picked above chance, meaning where the answer is found above chance elsewhere."""
    position = _sum([one.nears() for one in after]).interval[0] > CHANCE
    meaning = _sum([one.elsewhere() for one in after]).interval[0] > CHANCE
    if position and meaning:
        return "both position and meaning"
    if position:
        return "position, not meaning"
    return "meaning, not position" if meaning else "neither position nor meaning measurably"


def describe_positions(after: Sequence[SegmentWeights]) -> list[tuple[str, str]]:
    """Sentences for each question: where the weight was, and whether it found the answer elsewhere than nearest."""
    said = []
    for question, one in zip(ASKED, after, strict=True):
        near, apart, last = one.nears(), one.elsewhere(), one.picks().count(0 if not one.first else PLACES - 1)
        low, high = near.interval
        where = f"The nearest segment has the largest weight in {near.hits} of {near.of} orders ({_range(low, high)})"
        where += f", the first of the text in {last}." if last else "."
        low, high = apart.interval
        found = (
            f"When {SHORT[one.right]} stood anywhere else, the attention found it in {apart.hits} of {apart.of} "
            f"({_range(low, high)}; chance {100 * CHANCE:.0f}%): "
        )
        if low > CHANCE:
            found += "more often than chance, so content matters."
        elif high < CHANCE:
            found += "less often than chance."
        else:
            found += "not significantly more often than chance."
        said.append((question, f"{where} {found}"))
    return said


def describe_pictures(embedded: EmbeddingAttention) -> str:
    """What the lines show, beside what the author of the example expects of them."""
    lines = []
    for question, row in zip(ASKED, embedded.weights, strict=True):
        most = int(row.argmax())
        verb = "puts" if most == QUESTIONS[question] else "should look elsewhere, and puts"
        lines.append(f"“{question.rstrip('.')}” {verb} {float(row[most]):.2f} of its weight on {SHORT[most]}")
    high, low = (float(embedded.among[TRUANCY, other]) for other in (GRADES, APPLES))
    expected = "as the author of the example expects" if high > low else "the opposite of what its author expects"
    among = f"Among the segments, truancy puts {high:.2f} on the grades and {low:.2f} on apples, {expected}."
    return f"{'; '.join(lines)}. {among}"


def by_words(embedded: EmbeddingAttention) -> str:
    """What makes the picture less than it seems: weights that have nowhere to go, and what shared words find."""
    among, cosines = embedded.among, embedded.segments
    apples, blood = (int(among[row].argmax()) for row in (APPLES, 4))
    odd = (
        f"But apples put {float(among[APPLES, apples]):.2f} on {SHORT[apples]}, and the blood type "
        f"{float(among[4, blood]):.2f} on {SHORT[blood]}: a row sums to 1, so a segment that goes with none still "
        f"picks one. Truancy's cosine is {float(cosines[TRUANCY, GRADES]):.2f} with the grades and "
        f"{float(cosines[TRUANCY, APPLES]):.2f} with apples; the scale of 20 makes the lines that different."
    )
    most = [shared_words(question) for question in ASKED]
    alone = [question for question, found in zip(ASKED, most, strict=True) if found == [QUESTIONS[question]]]
    right = sum(int(row.argmax()) == QUESTIONS[q] for q, row in zip(ASKED, embedded.weights, strict=True))
    return (
        f"{odd} The embeddings find {right} of the 2 answers; counting shared words finds {len(alone)} of them"
        + "".join(
            f" and is undecided between {len(found)} segments on the other"
            for found in most
            if len(found) > 1 and len(alone) == 1
        )
        + ". Two questions are an example, not a measurement."
    )


def others(results: SegmentResults) -> list[tuple[str, Rate, Rate]]:
    """Other ways to read a segment's weight from the same records: (name, nearest, right) over both questions."""
    after = results.after
    layers = after[0].weights.shape[1]
    ways = [("all layers and heads (above)", after, [one.picks() for one in after])]
    ways.append(("a token's mean, not a segment's sum", after, [one.picks(per_token=True) for one in after]))
    ways += [(f"layer {layer + 1} alone", after, [one.picks(layer) for one in after]) for layer in range(layers)]
    ways.append(("the question first, all layers", results.before, [one.picks() for one in results.before]))
    return [
        (
            name,
            _sum([one.nears(p) for one, p in zip(readings, picks, strict=True)]),
            _sum([one.hits(p) for one, p in zip(readings, picks, strict=True)]),
        )
        for name, readings, picks in ways
    ]


def chosen(reading: SegmentWeights) -> list[tuple[int, tuple[int, ...], Tensor]]:
    """The first shuffled order whose picture shows the answer, with its place among them; none where none does."""
    for place, (order, pick) in enumerate(zip(reading.orders, reading.picks(), strict=True)):
        if order[pick] == reading.right:
            return [(place, order, reading.weights.mean(1)[place])]
    return []


def _totals(after: Sequence[SegmentWeights]) -> tuple[list[Rate], list[Rate], list[Rate]]:
    return [one.nears() for one in after], [one.hits() for one in after], [one.by_position() for one in after]


def _sum(rates: Sequence[Rate]) -> Rate:
    return sum(rates[1:], rates[0])


def _range(low: float, high: float) -> str:
    return f"95% interval {100 * low:.0f} to {100 * high:.0f}%"


def _rates(
    embedded: EmbeddingAttention, index: int, reading: SegmentWeights
) -> list[tuple[str, str, float, tuple[float, float], str]]:
    """Rows of the chart: name, kind, share, interval, in words."""
    from scipy.stats import binom

    count = len(reading.orders)
    low, high = (value / count for value in binom.interval(0.95, count, CHANCE))
    hits, position = reading.hits(), reading.by_position()
    always = float(int(embedded.weights[index].argmax()) == reading.right)
    return [
        ("MiniLM's own attention", "on", hits.share, hits.interval, f"{hits.hits} of {count}"),
        ("nearest segment", "off", position.share, position.interval, f"{position.hits} of {count}"),
        ("chance", "base", CHANCE, (low, high), f"{CHANCE * count:.0f} of {count}"),
        ("embeddings, any order", "base", always, (always, always), f"{always * count:.0f} of {count}"),
    ]


def _grid(reading: SegmentWeights) -> Markup:
    """Orders across, places down: shade by weight, a ring where the answer stands, a dot on the largest weight."""
    seen = reading.weights.mean(1)
    ranked = sorted(range(len(reading.orders)), key=lambda order: (reading.orders[order].index(reading.right), order))
    low, high = float(seen.min()), float(seen.max())
    picks = reading.picks()
    cells = [
        [
            (
                (float(seen[order, place]) - low) / (high - low or 1.0),
                reading.orders[order][place] == reading.right,
                picks[order] == place,
                f"{SEGMENTS[reading.orders[order][place]]} {float(seen[order, place]):.3f}",
            )
            for order in ranked
        ]
        for place in range(PLACES)
    ]
    return fill("paragraph_grid.html", cells=cells, low=low, high=high, right=SHORT[reading.right], columns=len(ranked))


def _asked(embedded: EmbeddingAttention) -> Markup:
    def draw(theme: Theme) -> "Figure":
        names = [textwrap.fill(question.rstrip("."), 17) for question in ASKED]
        return _lines(embedded.weights, names, [_name(s) for s in range(PLACES)], theme.sides)

    return picture(draw, "Lines from the two questions to the five segments, with width proportional to the weight")


def _among(embedded: EmbeddingAttention) -> Markup:
    def draw(theme: Theme) -> "Figure":
        names = [_name(s) for s in range(PLACES)]
        return _lines(embedded.among, names, names, FIVE if theme is LIGHT else FIVE_ON_DARK)

    return picture(draw, "Lines from each segment to the four others, with width proportional to the weight")


def _own(seen: Tensor, order: tuple[int, ...], top: float) -> Markup:
    def draw(theme: Theme) -> "Figure":
        return _lines(seen[None], [textwrap.fill(ASKED[0], 12)], [_name(s) for s in order], theme.sides[:1], top, 10.0)

    return picture(draw, "MiniLM's own attention from the question to each segment, in the order of the text")


def _lines(
    weights: Tensor,
    queries: list[str],
    keys: list[str],
    colours: Sequence[str],
    top: float | None = None,
    width: float = 14.0,
) -> "Figure":
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(2.1, 2.9))
    line_map(weights, queries, keys, colours=colours, top=top, width=width, ax=axes)
    figure.subplots_adjust(0, 0, 1, 1)
    return figure


def _name(segment: int) -> str:
    words = SEGMENTS[segment].rstrip(".")
    return textwrap.fill(words, max(12, round(0.6 * len(words))))


def _caption(seen: Tensor, order: tuple[int, ...], right: int, which: str) -> str:
    most = order[int(seen.argmax())]
    judged = "that is the answer" if most == right else "the answer is elsewhere"
    return f"{which}: the broadest line reaches {SHORT[most]} ({float(seen.max()):.2f}); {judged}."
