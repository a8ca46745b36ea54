"""Demo: the section on digits: pictures, numbers, and sentences that follow from the numbers."""

from markupsafe import Markup

from regard.views import spotlight

from .digits import GRID, HIDDEN, NETWORKS, PATCHES, DigitResults, Digits, query_weights
from .page import PageSection, fill, pixels
from .spread import Spread, around, verdict


def section(data: Digits, results: DigitResults, epochs: int) -> PageSection:
    pairs = {name: (results.spread(name, "softmax"), results.spread(name, "uniform")) for name in NETWORKS}
    baselines = {name: Spread(tuple(values)) for name, values in results.baselines.items()}
    hidden = {way: Spread(tuple(values)) for way, values in results.hidden.items()}
    tiles = _tiles(data, results)
    plain, mixed = pairs["attention only"], pairs["with a perceptron"]
    return PageSection(
        title="Where is the weight when it reads a digit?",
        lead="Each image is cut into 16 patches; one self-attention layer, pooling by a learned query. The weights are "
        "learned without supervision.",
        html=fill(
            "digits.html",
            around=around,
            rows=[
                (name, label, spread, kind)
                for name, both in pairs.items()
                for label, spread, kind in (("attention", both[0], "on"), ("uniform weights", both[1], "off"))
            ],
            baselines=baselines,
            pairs=pairs,
            plain=verdict(plain[0], plain[1]),
            mixed=verdict(mixed[0], mixed[1]),
            beside=beside(plain[0], baselines["nearest neighbour"]),
            hidden=hidden,
            share=HIDDEN / PATCHES,
            interpretation=interpretation(hidden),
            tiles=tiles,
            results=results,
            epochs=epochs,
            images=len(data.labels),
        ),
    )


def beside(attention: Spread, neighbour: Spread) -> str:
    """A sentence on the trivial baseline, better or worse."""
    if attention.mean < neighbour.mean:
        return (
            f"Its {_percent(attention.mean)} are below the trivial baseline: 1-nearest-neighbour on raw pixels has "
            f"{_percent(neighbour.mean)}. "
            "Digits are used because they train in seconds, not because they need attention."
        )
    return f"The trivial baseline, 1-nearest-neighbour on raw pixels, has {_percent(neighbour.mean)}."


def interpretation(hidden: dict[str, Spread]) -> str:
    """What the deletion test says about the pictures, paired over seeds."""
    looked, ink, any_four = (hidden[way] for way in ("four of largest weight", "four with most ink", "four at random"))
    if len(looked.values) < 2:
        return "One seed: the table has the cost of masking, without an interval."
    if not _below(looked, any_four):
        return (
            "Masking the patches of largest weight costs no more than masking random ones: the pictures do not show "
            "what the prediction depends on."
        )
    if not _below(looked, ink):
        return (
            "Masking the patches of largest weight costs more than masking random ones, yet not significantly more "
            "than masking those with most ink: the pictures may show no more than where the ink is."
        )
    return (
        "Masking the patches of largest weight costs more than masking random ones, and more than masking those with "
        "most ink: the pictures show what the prediction depends on, beyond where the ink is."
    )


def _below(one: Spread, other: Spread) -> bool:
    return (one - other).interval[1] < 0


def _tiles(data: Digits, results: DigitResults) -> list[dict[str, Markup | int]]:
    """The first correctly classified test image of each digit, with the weights as an overlay."""
    assert results.reader is not None
    _, test = data.split(0)
    weights, read = query_weights(results.reader, data, test)
    tiles: list[dict[str, Markup | int]] = []
    for digit in range(10):
        found = (data.labels[test] == digit).nonzero()[:, 0]
        right = found[read[found] == digit]
        row = int((right if len(right) else found)[0])
        image, grid = data.images[test[row]].numpy(), weights[row].reshape(GRID, GRID).numpy()
        tiles.append(
            {
                "read": int(read[row]),
                "lit": pixels(spotlight(image, grid), f"A handwritten {digit}, with its attention weights"),
                "plain": pixels(image[..., None].repeat(3, -1), f"The same {digit} without overlay"),
            }
        )
    return tiles


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"
