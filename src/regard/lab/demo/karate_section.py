"""What the karate club showed, as the page says it: who attends whom, what was measured, what may be interpretation."""

from typing import TYPE_CHECKING

from markupsafe import Markup

from regard.views import graph_map

from .karate import EPOCHS, Club, KarateResults, TrainedGAT, agreement
from .page import PageSection, Theme, fill, picture
from .spread import Spread, around, verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW_ANSWERS = 0.05  # a smaller share of changed predictions is called "hardly any"


def section(club: Club, results: KarateResults) -> PageSection:
    first = results.trained[0]
    alike = agreement(club, results)
    attention, equal, alone = (results.spread(kind) for kind in ("attention", "uniform weights", "no edges"))
    baselines = {name: Spread(tuple(values)) for name, values in results.baselines.items()}
    rows = [
        ("A two-layer GAT", "attention", attention, "on"),
        ("", "uniform weights", equal, "off"),
        ("Without attention", "MLP without edges", alone, "base"),
        ("", "harmonic function", baselines["harmonic function"], "base"),
        ("", "Zachary's cut, 1977", baselines["Zachary's cut"], "base"),
    ]
    shown = [first, *([results.trained[other]] if (other := _least_alike(alike)) else [])]
    top = max(float(one.weights.max()) for one in shown)
    panels = [(_panel(club, one, top), _caption(club, one, first, alike)) for one in shown]
    return PageSection(
        title="Node classification: the karate club",
        lead="A karate club of 34 split between its instructor and its administrator (Zachary 1977). Four members are "
        "labelled; the network predicts the side of the other thirty from who met whom.",
        html=fill(
            "karate.html",
            panels=panels,
            around=around,
            rows=rows,
            verdict=verdict(attention, equal),
            beside=beside(attention, baselines),
            interpretation=interpretation(club, results, list(alike.values())),
            results=results,
            epochs=EPOCHS,
        ),
    )


def beside(attention: Spread, baselines: dict[str, Spread]) -> str:
    """A sentence on the training-free baselines, better or worse."""
    best = max(baselines, key=lambda name: baselines[name].mean)
    harmonic, cut = (f"{100 * baselines[name].mean:.1f}%" for name in ("harmonic function", "Zachary's cut"))
    lines = f"the harmonic function, which has no parameters, has {harmonic}, and Zachary's minimum cut {cut}"
    if attention.mean < baselines[best].mean:
        return f"The GAT's {100 * attention.mean:.1f}% are below a baseline without training: {lines}."
    return f"Baselines without training: {lines}."


def interpretation(club: Club, results: KarateResults, alike: list[float]) -> str:
    """What replacing the weights by uniform ones, and retraining, say about the weights."""
    judged = sum(int(club.hidden(one.seed).sum()) for one in results.trained)
    changed = sum(int((one.answers != one.uniform_answers)[club.hidden(one.seed)].sum()) for one in results.trained)
    share = f"{changed / judged:.0%} of the predictions depend"
    depends = "hardly any prediction depends" if changed < FEW_ANSWERS * judged else share
    replaced = (
        f"With the weights of the trained networks replaced by uniform ones, without retraining, {changed} of {judged} "
        f"predictions change: {depends} on the weights beyond the graph itself."
    )
    if not alike:
        return replaced + " One seed: the variance of the weights is unknown."
    low, mean, high = min(alike), sum(alike) / len(alike), max(alike)
    measured = f"rank correlation {low:+.2f} to {high:+.2f}, {mean:+.2f} on average".replace("-", "−")
    if low < 0:
        sentence = f"Two seeds may even rank the edges in opposite order ({measured}): weights are specific to a run."
    elif mean < 0.5:
        sentence = f"Two seeds rank the edges rather differently ({measured}): much of the weights is noise."
    else:
        sentence = f"Two seeds rank the edges similarly ({measured}): stable weights, which need not be faithful."
    return f"{replaced} {sentence}"


def _least_alike(alike: dict[tuple[int, int], float]) -> int | None:
    """The seed whose weights correlate least with those of seed 0; None if there is no other."""
    with_first = {other: value for (one, other), value in alike.items() if one == 0}
    return min(with_first, key=lambda other: with_first[other]) if with_first else None


def _panel(club: Club, one: TrainedGAT, top: float) -> Markup:
    return picture(lambda theme: _draw(club, one, theme, top), _alt(one))


def _draw(
    club: Club, one: TrainedGAT, theme: Theme, top: float | None, size: tuple[float, float] = (5.0, 3.7)
) -> "Figure":
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=size)
    graph_map(
        one.weights,
        club.edge_index,
        club.places,
        colours=[theme.sides[side] for side in one.answers.tolist()],
        rings=[theme.sides[side] for side in club.sides.tolist()],
        squares=club.labelled(one.seed).tolist(),
        names=[str(member + 1) for member in club.graph],
        top=top,
        ax=axes,
    )
    figure.subplots_adjust(0, 0, 1, 1)
    return figure


def _alt(one: TrainedGAT) -> str:
    return (
        f"Attention of the GAT of seed {one.seed} on the karate club: 34 members on two sides, an arc from source to "
        "target of each edge, with width proportional to the weight"
    )


def _caption(club: Club, one: TrainedGAT, first: TrainedGAT, alike: dict[tuple[int, int], float]) -> str:
    wrong = [str(member + 1) for member in (one.answers != club.sides).nonzero()[:, 0].tolist()]
    lines = f"Seed {one.seed}: " + (f"wrong on {_listed(wrong)}" if wrong else "all correct") + "."
    if one.seed == first.seed:
        return lines
    same = int((one.answers == first.answers).sum())
    measured = f"{alike[first.seed, one.seed]:+.2f}".replace("-", "−")
    return (
        f"{lines} Same predictions as seed {first.seed} for {same} of 34; rank correlation of the weights {measured}."
    )


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
