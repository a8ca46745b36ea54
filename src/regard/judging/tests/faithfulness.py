"""Faithfulness by erasure: is the prediction lost without the top units, and kept with them alone?"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor

from ..adapters.adapter import Adapter
from ..adapters.inputs import Inputs
from ..artifacts import Grid, Histogram, add_artifact
from ..attribution.gradients import gradient
from ..attribution.importance import Importance, attention, chance, importances, position_baseline, uniform
from ..finding import Finding
from ..registry import asks
from ..statistics.comparison import compare
from ..statistics.intervals import mean
from ..statistics.scale import Scale
from ..wording import loses, percent

BINS = (0.01, 0.05, 0.10, 0.20, 0.50)
TEST = "faithfulness"
RANDOM = "random"
DRAWS = 10  # random erasures beside each figure
ROUNDING = 1e-6  # a change of a probability that numbers of single precision make by themselves
TIES = 5  # orders in which equal scores are erased; without a tie they are one


def sizes(units: int, bins: Sequence[float] = BINS) -> list[int]:
    """How many units each bin erases, k = max(1, ceil(p n)): bins that erase equally many count once; none if n = 0."""
    # 0.07 * 100 is 7.000000000000001: a rounding error is not a unit
    return sorted({max(1, math.ceil(round(share * units, 9))) for share in bins}) if units else []


def steps_of(units: int) -> range:
    """After how many removed units it is seen whether the decision flipped: each one, or a hundred steps."""
    return range(1, units + 1, max(1, math.ceil(units / 100)))


@asks("Is the prediction lost without the units of largest weight, and kept with them alone?", first=2)
def faithfulness(
    adapter: Adapter,
    measure: Importance = attention,
    *,
    name: str = "attention",
    beside: "Mapping[str, Importance] | None" = None,
    bins: Sequence[float] = BINS,
    seed: int = 0,
) -> list[Finding]:
    """Comprehensiveness, sufficiency and decision flips of a measure, the judged weights, beside gradients and chance.

        comprehensiveness   p(y | x) - p(y | x without r_k), mean over k (AOPC): high if what was marked was needed
        sufficiency         p(y | x) - p(y | r_k), mean over k: low if what was marked is enough
        flip                the least share of units, the largest weights first, without which another class is
                            predicted; 1 where none is

    y is the predicted class, r_k the k units with the largest weight, equal weights in five orders that are drawn, of
    which the mean counts (the first for the flip by one unit); special tokens always stay. Ten random erasures of the
    same size stand beside each figure. A measure is undefined on a text of which
    erasing leaves nothing. DeYoung et al. 2020 (ERASER); Nguyen 2018.

    measure   function(adapter, inputs) -> (B, n), and what it is called; the judged weights unless told
    beside    others to stand beside it, by name; the gradient, and of texts the weights by position, unless told
    """
    others = {"gradient": gradient, **position_baseline(adapter)} if beside is None else beside
    found = erased_by(adapter, {name: measure, **others}, bins, seed)
    for column, (what, says) in enumerate(
        (("Comprehensiveness", "Higher is better."), ("Sufficiency", "Lower is better."))
    ):
        add_artifact(
            Histogram(
                f"{what}, instance by instance",
                "probability lost by the predicted class",
                {
                    other: some[..., column].mean(0) if some.ndim == 3 else some[:, column]
                    for other, some in found.items()
                },
                says,
            )
        )
    return _findings(name, found, others, seed)


@asks(
    "Which attribution is faithful: attention, what is derived from it, or gradients?",
    name="importances",
    first=0,  # its first number is that of the test before
)
def faithfulness_of_all(
    adapter: Adapter, names: Sequence[str] | None = None, *, bins: Sequence[float] = BINS, seed: int = 0
) -> list[Finding]:
    """The same of every importance that this model has (`importances`), each beside random erasures and the gradient.

    Measures that would erase the same units of the same text share one run of the model.
    """
    measures, _ = importances(adapter, names)
    found = erased_by(adapter, measures | {"uniform": uniform}, bins, seed)
    beside = [other for other in ("attention", "gradient", "position") if other in found]
    columns = ["comprehensiveness", "sufficiency", "units to flip", "flipped by the first"]
    values = [[mean(one[..., at]) for at in range(4)] for one in found.values()]
    add_artifact(
        Grid(
            "Erasure by each attribution",
            list(found),
            columns,
            values,
            "means of the instances",
            "The first and the last are better higher, the others lower.",
            down="importance",
            across="measure",
        )
    )
    made = []
    for name in measures:
        made += _findings(name, found, [other for other in (*beside, "uniform") if other != name], seed)
    return made


def _findings(name: str, found: Mapping[str, np.ndarray], beside: Iterable[str], seed: int) -> list[Finding]:
    """Of one measure: the four findings."""
    made = []
    for column, what, better, unit, scale, says in (
        (
            0,
            "comprehensiveness",
            "higher",
            "probability",
            (-1.0, 1.0),
            "Without the units of largest weight the predicted class {value_lost}, without random ones it "
            "{random_lost}.",
        ),
        (
            1,
            "sufficiency",
            "lower",
            "probability",
            (-1.0, 1.0),
            "With the units of largest weight alone the predicted class {value_lost}, with random ones alone it "
            "{random_lost}.",
        ),
        (
            2,
            "units to flip the decision",
            "lower",
            "share of units",
            (0.0, 1.0),
            "Until another class is predicted {value} of the units must be removed, the largest weights first (100% if "
            "none ever is); in random order {random}.",
        ),
        (
            3,
            "decision flipped by the first unit",
            "higher",
            "share",
            "share",
            "Without the one unit of largest weight {value} of the predicted classes change, without a random one "
            "{random}.",
        ),
    ):
        baselines = {other: found[other][..., column] for other in (*beside, RANDOM)}
        value = compare(found[name][:, column], baselines, scale=cast(Scale, scale), seed=seed)
        at_random = value.baselines[RANDOM]
        told = says.format(
            value=percent(value.value or 0.0),
            random=percent(at_random or 0.0),
            value_lost=loses(value.value),
            random_lost=loses(at_random),
        )
        if value.value is None:
            told = "undefined: no instance keeps a unit when units are erased."
        made.append(
            Finding.of(
                value,
                name=f"{what} of {name}",
                says=told,
                better=better,  # type: ignore[arg-type]
                test=TEST,
                unit=unit,
            )
        )
    return made


def erased(adapter: Adapter, measure: Importance, bins: Sequence[float] = BINS, seed: int = 0) -> np.ndarray:
    """(instances, 4): comprehensiveness and sufficiency (AOPC), share of units to flip, flipped by the first."""
    return erased_by(adapter, {"it": measure}, bins, seed, draws=0)["it"]


def erased_by(
    adapter: Adapter,
    measures: Mapping[str, Importance],
    bins: Sequence[float] = BINS,
    seed: int = 0,
    draws: int = DRAWS,
    flips: bool = True,
) -> dict[str, np.ndarray]:
    """The same of several measures by name, and of so many random orders as "random", (draws, instances, 4).

    flips=False leaves out what tells when a decision flips, up to a hundred runs of the model on a text: the last two
    columns are NaN then.
    """
    drawn = {f"{RANDOM} {draw}": chance(seed + 1 + draw) for draw in range(draws)}
    names = [*(name for name in measures for _ in range(TIES)), *drawn]
    ties = [torch.Generator().manual_seed(seed + place % TIES) for place in range(len(names))]

    def of_batch(inputs: Inputs) -> list[list[list[float]]]:
        scores = {name: measure(adapter, inputs) for name, measure in {**measures, **drawn}.items()}
        order = torch.stack([ranked(scores[name], inputs.units, tie) for name, tie in zip(names, ties, strict=True)])
        before = adapter.predict(inputs)
        said = before.argmax(-1)
        counts = inputs.units.sum(-1).tolist()
        steps = [(item, k, top) for item, n in enumerate(counts) for k in sizes(n, bins) for top in (True, False)]
        steps += [(item, k, True) for item, n in enumerate(counts) for k in steps_of(n)] if flips else []
        if not steps:
            return [[[math.nan] * 4 for _ in names] for _ in counts]
        item, k, top = (torch.tensor(column, device=order.device) for column in zip(*steps, strict=True))
        gone = order[:, item] < k[:, None]
        gone = torch.where(top[:, None], gone, ~gone) & inputs.units[item]  # (measures, steps, n)
        after = predict_each(adapter, inputs, item.expand(len(names), -1), gone)
        drop = before[item, said[item]] - after.gather(-1, said[item].expand(len(names), -1)[..., None])[..., 0]
        drop = torch.where(drop.abs() < ROUNDING, 0.0, drop)
        turned = (after.argmax(-1) != said[item]) & ~after[..., 0].isnan()
        each = [_by_item(counts, bins, *one, flips) for one in zip(drop.tolist(), turned.tolist(), strict=True)]
        return [list(one) for one in zip(*each, strict=True)]

    table = np.asarray(adapter.each(of_batch), dtype=np.float64).reshape(-1, len(names), 4)
    found = {}
    for place, name in enumerate(measures):
        some = table[:, place * TIES : (place + 1) * TIES]
        found[name] = np.concatenate([some[..., :3].mean(1), some[:, 0, 3:]], -1)
    return found | ({RANDOM: table[:, len(measures) * TIES :].swapaxes(0, 1)} if drawn else {})


def _by_item(
    counts: list[int], bins: Sequence[float], drop: list[float], turns: list[bool], flips: bool
) -> list[list[float]]:
    """The four numbers of each item from what its steps did, in the order in which they were asked for."""
    at, parts, made = 0, [], []
    for n in counts:
        some = drop[at : at + 2 * len(sizes(n, bins))]
        at += len(some)
        parts.append((_mean_of(some[::2]), _mean_of(some[1::2])))
    for n, (comprehensive, sufficient) in zip(counts, parts, strict=True):
        if not flips:
            made.append([comprehensive, sufficient, math.nan, math.nan])
            continue
        turned = turns[at : at + len(steps_of(n))]
        at += len(turned)
        first = next((k for k, flip in zip(steps_of(n), turned, strict=True) if flip), None)
        share = math.nan if n == 0 else 1.0 if first is None else first / n
        made.append([comprehensive, sufficient, share, float(turned[0]) if n else math.nan])
    return made


def predict_each(adapter: Adapter, inputs: Inputs, item: Tensor, gone: Tensor) -> Tensor:
    """Predictions (..., classes) of item (...) without gone (..., n); what is asked for twice is run once."""
    asked = torch.cat([item[..., None], gone.long()], -1).flatten(0, -2)
    once, place = torch.unique(asked, dim=0, return_inverse=True)
    found = adapter.predict_without(inputs.chosen(once[:, 0]), once[:, 1:].bool())
    return found[place].unflatten(0, item.shape)


def ranked(scores: Tensor, units: Tensor, draw: torch.Generator) -> Tensor:
    """(B, n): 0 for the unit with the largest score, 1 for the next; equal scores in a drawn order, others last."""
    drawn = torch.rand(scores.shape, generator=draw).to(scores.device).argsort(-1)
    given = scores.nan_to_num(nan=-torch.inf).masked_fill(~units, -torch.inf)
    order = drawn.gather(-1, given.gather(-1, drawn).sort(dim=-1, descending=True, stable=True).indices)
    inner = units.gather(-1, order).long()
    order = order.gather(-1, inner.sort(dim=-1, descending=True, stable=True).indices)
    return order.argsort(-1)


def _mean_of(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan
