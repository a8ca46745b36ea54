"""What the karate club showed, as the page says it: who attends whom, what was measured, what may be believed."""

from typing import TYPE_CHECKING

from markupsafe import Markup

from regard.views import graph_map

from .karate import EPOCHS, Club, KarateResults, TrainedGAT, agreement
from .page import DARK, PageSection, Theme, fill, picture
from .spread import Spread, around, verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HARDLY = 0.05  # a share of answers below this is called "hardly any"


def part(club: Club, results: KarateResults) -> PageSection:
    first = results.trained[0]
    alike = agreement(club, results)
    attention, equal, alone = (results.spread(kind) for kind in ("attention", "equal weights", "no ties"))
    baselines = {name: Spread(tuple(values)) for name, values in results.baselines.items()}
    rows = [
        ("A two-layer GAT", "attention", attention, "on"),
        ("", "every weight equal", equal, "off"),
        ("Without attention", "MLP without ties", alone, "base"),
        ("", "harmonic function", baselines["harmonic function"], "base"),
        ("", "Zachary's cut, 1977", baselines["Zachary's cut"], "base"),
    ]
    shown = [first, *([results.trained[other]] if (other := _least_alike(alike)) else [])]
    top = max(float(one.weights.max()) for one in shown)
    panels = [(_panel(club, one, top), _caption(club, one, first, alike)) for one in shown]
    hero = picture(lambda theme: _draw(club, first, theme, None, (7.4, 4.9)), _alt(first), themes=(DARK,))
    return PageSection(
        title="On whose side? A club falls apart",
        lead="Zachary watched a karate club of 34 until its instructor and its administrator parted. Four members say "
        "on whose side they stand; the network must find the sides of the other thirty from who met whom.",
        hero=fill("karate_hero.html", picture=hero, attention=attention, uniform=equal, results=results),
        html=fill(
            "karate.html",
            panels=panels,
            around=around,
            rows=rows,
            verdict=verdict(attention, equal),
            beside=beside(attention, baselines),
            believed=believed(club, results, list(alike.values())),
            results=results,
            epochs=EPOCHS,
        ),
    )


def beside(attention: Spread, baselines: dict[str, Spread]) -> str:
    """What needs no network is named whichever way it falls."""
    best = max(baselines, key=lambda name: baselines[name].mean)
    harmonic, cut = (f"{100 * baselines[name].mean:.1f}%" for name in ("harmonic function", "Zachary's cut"))
    told = f"the harmonic function, which has no parameters, finds {harmonic}, and the cheapest cut of 1977 {cut}"
    if attention.mean < baselines[best].mean:
        return f"The GAT's {100 * attention.mean:.1f}% are below what needs no training: {told}."
    return f"Without any training {told}."


def believed(club: Club, results: KarateResults, alike: list[float]) -> str:
    """What levelling the weights and training again allow to be said about the arcs."""
    judged = sum(int(club.hidden(one.seed).sum()) for one in results.trained)
    changed = sum(int((one.answers != one.levelled)[club.hidden(one.seed)].sum()) for one in results.trained)
    rest = "hardly any answer rests" if changed < HARDLY * judged else f"{changed / judged:.0%} of the answers rest"
    levelled = (
        f"When every weight of the trained networks is made equal, without training again, {changed} of {judged} "
        f"answers change: {rest} on what the arcs show beyond who is tied to whom."
    )
    if not alike:
        return levelled + " One seed: nothing is known about how much the arcs owe to chance."
    low, mean, high = min(alike), sum(alike) / len(alike), max(alike)
    measured = f"rank correlation {low:+.2f} to {high:+.2f}, {mean:+.2f} on average".replace("-", "−")
    if low < 0:
        said = f"Two seeds may even rank the same ties the opposite way ({measured}): the arcs belong to one training."
    elif mean < 0.5:
        said = f"Two seeds rank the ties rather differently ({measured}): much of the arcs is chance."
    else:
        said = f"Two seeds rank the ties much alike ({measured}); that makes the arcs stable, not reasons."
    return f"{levelled} {said}"


def _least_alike(alike: dict[tuple[int, int], float]) -> int | None:
    """The seed whose weights are least like those of seed 0; None where it is the only one."""
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
        f"The karate club as the GAT of seed {one.seed} sees it: 34 members on two sides, an arc from each attended "
        "member to each attending one, as broad as the weight"
    )


def _caption(club: Club, one: TrainedGAT, first: TrainedGAT, alike: dict[tuple[int, int], float]) -> str:
    wrong = [str(member + 1) for member in (one.answers != club.sides).nonzero()[:, 0].tolist()]
    told = f"Seed {one.seed}: " + (f"wrong about {_listed(wrong)}" if wrong else "right about everybody") + "."
    if one.seed == first.seed:
        return told
    same = int((one.answers == first.answers).sum())
    measured = f"{alike[first.seed, one.seed]:+.2f}".replace("-", "−")
    return (
        f"{told} It answers as seed {first.seed} does for {same} of 34, with weights whose ranks correlate {measured}."
    )


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
