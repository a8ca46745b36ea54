"""Every layer in turn, and all of them at once: what each test means for a model that attends many times."""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from ..adapters.adapter import Adapter
from ..adapters.attention_selector import AttentionSelector
from ..adapters.inputs import Inputs, NotApplicable
from ..artifacts import Plot, Series, add_artifact
from ..attribution.gradients import gradient
from ..attribution.importance import Importance, chance, leave_one_out
from ..finding import Better, Finding
from ..registry import asks
from ..statistics.comparison import compare
from ..wording import amount, loses
from .adversarial import adversary
from .agreement import taus_of
from .faithfulness import BINS, RANDOM, erased_by

TEST = "layers"
DRAWS = 3  # random weights beside each tau; every two measures are compared
ALL = ", all layers at once"
ASKED: tuple[tuple[str, Better, str, str], ...] = (
    ("tau of {} and gradient", "higher", "Kendall tau-b", "The rank correlation of {} and the gradient is {}."),
    ("tau of {} and leave one out", "higher", "Kendall tau-b", "The rank correlation of {} and leave-one-out is {}."),
    (
        "comprehensiveness of {}",
        "higher",
        "probability",
        "Without the units to which {} gives most weight the predicted class {}.",
    ),
    (
        "sufficiency of {}",
        "lower",
        "probability",
        "With only the units to which {} gives most weight the predicted class {}.",
    ),
)


def selectors(adapter: Adapter) -> dict[str, AttentionSelector]:
    """A selector for each layer that fits the adapter's, for their mean and for rollout through all of them."""
    _of_tokens(adapter)
    count = len(replace(adapter.selector, layer="mean").judged(adapter.sites))
    if count < 2:
        raise NotApplicable("This model has one attention layer: there is no other to compare.")
    each = {f"layer {place}": replace(adapter.selector, layer=place) for place in range(count)}
    return each | {f"{how} of layers": replace(adapter.selector, layer=how) for how in ("mean", "rollout")}


def weights_of(selector: AttentionSelector) -> Importance:
    """The weights that another selector reads, as an importance."""

    def read(adapter: Adapter, inputs: Inputs) -> Tensor:
        return selector.read(adapter.maps(inputs), inputs).double()

    return read


@asks(
    "Which layer's weights agree with gradients and erasure, and does rollout through all layers?",
    first=0,  # no layer stands for the others
)
def layers(adapter: Adapter, *, bins: Sequence[float] = BINS, seed: int = 0) -> list[Finding]:
    """The weights of each layer in turn, of their mean, and rollout: agreement with gradients and leave-one-out (tau-b
    over all units, the weights of the adapter's own selector held fast), comprehensiveness and sufficiency.

    The row is that of the adapter's selector. In an early layer the row of [CLS] has seen little that the output reads:
    that a test fails there says nothing about the last one.
    """
    measures: dict[str, Importance] = {name: weights_of(selector) for name, selector in selectors(adapter).items()}
    erased = erased_by(adapter, measures, bins, seed, flips=False)
    drawn = {f"{RANDOM} {draw}": chance(seed + 1 + draw) for draw in range(DRAWS)}
    others: dict[str, Importance] = {"gradient": gradient, "leave one out": leave_one_out, **drawn}
    tau = taus_of(adapter, measures | others)
    first = len(measures)
    made, curves = [], {column: list[Finding]() for column in range(4)}
    for place, name in enumerate(measures):
        for column, (called, better, unit, says) in enumerate(ASKED):
            values, beside = (
                (tau[:, place, first + column], tau[:, -DRAWS:, first + column].T)
                if column < 2
                else (erased[name][:, column - 2], erased[RANDOM][..., column - 2])
            )
            value = compare(values, {RANDOM: beside}, scale=(-1.0, 1.0), seed=seed)
            told = "undefined: no instance has a defined value."
            if value.value is not None:
                told = says.format(name, amount(value.value, 2) if column < 2 else loses(value.value))
            found = Finding.of(
                value,
                name=called.format(name),
                says=told[0].upper() + told[1:],
                better=better,
                test=TEST,
                unit=unit,
            )
            made.append(found)
            curves[column].append(found)
    for column, (called, better, unit, _) in enumerate(ASKED):
        add_artifact(_curve(called.format("each layer"), better, unit, curves[column]))
    return made


@asks("Do very different weights in all layers at once give the same prediction?", name="everywhere")
def adversary_of_all_layers(
    adapter: Adapter, *, starts: int = 2, steps: int = 100, rate: float = 0.1, seed: int = 0
) -> list[Finding]:
    """Other weights in every layer at once that give the same prediction: the rows that are read, of all layers.

    Fewer starts and longer steps than `adversary` takes unless told, since the whole model runs at each step. The
    divergence is the mean of the layers'.
    """
    selectors(adapter)  # of one layer there is nothing more to say
    found = adversary(
        adapter.with_selector(replace(adapter.selector, layer="mean")), starts=starts, steps=steps, rate=rate, seed=seed
    )
    return [replace(one, name=one.name + ALL) for one in found]


@asks("Does it matter whether units are removed by a mask or by deletion?")
def removals(adapter: Adapter, *, bins: Sequence[float] = BINS, seed: int = 0) -> list[Finding]:
    """Comprehensiveness and sufficiency of the judged weights when units are masked, and beside it when they are
    deleted: a mask leaves a hole that a model may never have met, deletion moves what follows."""
    _of_tokens(adapter)
    measure: dict[str, Importance] = {"attention": weights_of(adapter.selector)}
    by = {how: erased_by(adapter.removing(how), measure, bins, seed, flips=False) for how in ("mask", "delete")}
    made = []
    for how, other in (("mask", "delete"), ("delete", "mask")):
        for column, (what, better) in enumerate((("comprehensiveness", "higher"), ("sufficiency", "lower"))):
            beside = {RANDOM: by[how][RANDOM][..., column], f"by {other}": by[other]["attention"][:, column]}
            value = compare(by[how]["attention"][:, column], beside, scale=(-1.0, 1.0), seed=seed)
            units = "the units of largest weight" if column == 0 else "all units but those of largest weight"
            told = (
                "undefined: erasing leaves nothing of any instance, or none has a unit."
                if value.value is None
                else f"The predicted class {loses(value.value)} when {units} are removed by "
                f"{'a mask' if how == 'mask' else 'deletion'}."
            )
            made.append(
                Finding.of(
                    value,
                    name=f"{what} of attention by {how}",
                    says=told,
                    better=better,  # type: ignore[arg-type]
                    test="removals",
                    unit="probability",
                )
            )
    return made


def _of_tokens(adapter: Adapter) -> None:
    if not adapter.selector.tokens:
        raise NotApplicable(
            "Units of this model are edges, which are always deleted, and this test goes through layers by "
            "token: judge another layer by --layer, or on_graph(selector=EdgeSelector(layer=...))."
        )


def _curve(title: str, better: str, unit: str, found: list[Finding]) -> Plot:
    """A line over the layers; their mean and rollout stand after the last of them."""
    x = list(range(len(found)))
    ends = [one.interval or (None, None) for one in found]
    series = Series("weights", x, [one.value for one in found], [low for low, _ in ends], [high for _, high in ends])
    beside = Series(RANDOM, x, [one.baselines[RANDOM] for one in found])
    says = f"{better.capitalize()} is better; the last two places are the mean of all layers and rollout through them."
    return Plot(title[0].upper() + title[1:], "layer", unit, [series, beside], says)
