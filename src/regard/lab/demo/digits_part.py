"""What the digits showed, as the page says it: pictures, numbers, and sentences that follow from the numbers."""

from markupsafe import Markup

from regard.views import spotlight

from .digits import GRID, HIDDEN, NETWORKS, PATCHES, DigitResults, Digits, looks
from .page import PageSection, fill, pixels
from .spread import Spread, around, verdict


def part(data: Digits, results: DigitResults, epochs: int) -> PageSection:
    pairs = {name: (results.spread(name, "softmax"), results.spread(name, "uniform")) for name in NETWORKS}
    baselines = {name: Spread(tuple(values)) for name, values in results.baselines.items()}
    hidden = {way: Spread(tuple(values)) for way, values in results.hidden.items()}
    tiles = _tiles(data, results)
    plain, mixed = pairs["attention only"], pairs["with a perceptron"]
    return PageSection(
        title="Where does it look when it reads a digit?",
        lead="A network cuts each image into 16 patches, lets the patches meet in one attention layer, and reads the "
        "answer from them with a learned query. Nobody tells it where to look.",
        hero=fill("digits_hero.html", tiles=tiles, attention=plain[0], uniform=plain[1], results=results),
        html=fill(
            "digits.html",
            around=around,
            rows=[
                (name, label, spread, kind)
                for name, both in pairs.items()
                for label, spread, kind in (("attention", both[0], "on"), ("every weight 1/16", both[1], "off"))
            ],
            baselines=baselines,
            pairs=pairs,
            plain=verdict(plain[0], plain[1]),
            mixed=verdict(mixed[0], mixed[1]),
            beside=beside(plain[0], baselines["nearest neighbour"]),
            hidden=hidden,
            share=HIDDEN / PATCHES,
            believed=believed(hidden),
            tiles=tiles,
            results=results,
            epochs=epochs,
            images=len(data.labels),
        ),
    )


def beside(attention: Spread, neighbour: Spread) -> str:
    """The trivial baseline is named whichever way it falls."""
    if attention.mean < neighbour.mean:
        return (
            f"Its {_percent(attention.mean)} are below the trivial baseline: the nearest neighbour in raw pixels reads "
            f"{_percent(neighbour.mean)}. "
            "The digits are here because they train in seconds, not because they need attention."
        )
    return f"The trivial baseline, the nearest neighbour in raw pixels, reads {_percent(neighbour.mean)}."


def believed(hidden: dict[str, Spread]) -> str:
    """What the hiding test allows to be said about the pictures: paired over the seeds, as the verdicts are."""
    looked, ink, any_four = (hidden[way] for way in ("the four most regarded", "the four with most ink", "any four"))
    if len(looked.values) < 2:
        return "One seed: what hiding costs is in the table, with nothing known about its spread."
    if not _below(looked, any_four):
        return "Hiding where it looks costs no more than hiding anything: these pictures do not show what it needs."
    if not _below(looked, ink):
        return (
            "Hiding where it looks costs more than hiding anything, yet not measurably more than hiding the ink: "
            "the pictures show something it needs, and the ink alone may tell as much."
        )
    return (
        "Hiding where it looks costs more than hiding anything, and more than hiding as many patches with most ink: "
        "the pictures show something it needs, beyond where the ink is."
    )


def _below(one: Spread, other: Spread) -> bool:
    return (one - other).interval[1] < 0


def _tiles(data: Digits, results: DigitResults) -> list[dict[str, Markup | int]]:
    """The first test image of each digit that the first seed's reader gets right, under the light of its weights."""
    assert results.reader is not None
    _, test = data.split(0)
    weights, read = looks(results.reader, data, test)
    tiles: list[dict[str, Markup | int]] = []
    for digit in range(10):
        found = (data.labels[test] == digit).nonzero()[:, 0]
        right = found[read[found] == digit]
        row = int((right if len(right) else found)[0])
        image, grid = data.images[test[row]].numpy(), weights[row].reshape(GRID, GRID).numpy()
        tiles.append(
            {
                "read": int(read[row]),
                "lit": pixels(spotlight(image, grid), f"A handwritten {digit}, lit where the network looks"),
                "plain": pixels(image[..., None].repeat(3, -1), f"The same {digit} as it was given"),
            }
        )
    return tiles


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"
