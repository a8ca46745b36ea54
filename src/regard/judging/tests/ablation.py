"""Ablation of a trained model: how much its output depends on attention, as a whole, by layer and by head."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from regard.recording.interventions.interventions import DropHeads, Intervention, Permute, Uniform, ZeroValue

from ..adapters.adapter import Adapter, Changes
from ..adapters.inputs import Inputs
from ..artifacts import Grid, add_artifact
from ..finding import Finding
from ..registry import asks
from ..statistics.comparison import compare
from ..statistics.divergence import LARGEST, jsd, tvd
from ..statistics.intervals import estimate
from ..statistics.scale import Scale
from ..wording import amount
from ..wording import moves as says_moves
from .heads import dead_heads

TEST = "ablation"
DRAWS = 5  # random units beside the one of the largest weight
TVD = "total variation (max 1)"


@asks("How much does the output depend on attention, on each layer and on each head?", first=2)
def ablation(adapter: Adapter, *, heads: bool = True, seed: int = 0) -> list[Finding]:
    """What changes when attention is taken out of a trained model, which is not trained anew.

    uniform, permuted   the weights of every site that the selector fits; change of the output (total variation and
                        Jensen-Shannon) and, where there are labels, of accuracy
    value               the value of the unit with the largest weight is 0, beside that of a unit drawn at random;
                        not on graphs
    by layer            one site uniform, the others as they are
    by head             one head silent; the most important first; then how many change nothing, and which

    A model that was trained without attention may do as well: ablation says what *this* model uses. Michel et al. 2019.
    """
    even, moved = {adapter.selector.sites: Uniform()}, {adapter.selector.sites: Permute(seed)}
    uniform, permuted = (moves(adapter, lambda inputs, c=change: c) for change in (even, moved))  # type: ignore[misc]
    made = []
    for name, found, other, beside in (
        ("uniform", uniform, permuted, "permuted weights"),
        ("permuted", permuted, uniform, "uniform weights"),
    ):
        baselines = {"no change": 0.0, beside: float(other[:, 0].mean())}
        made.append(
            _finding(
                f"{name} weights: change of the output",
                found[:, 0],
                baselines,
                TVD,
                seed,
                f"With {name} weights the prediction {says_moves(found[:, 0].mean())} on average.",
            )
        )
        if adapter.labelled:
            lost = found[:, 2] - found[:, 3]
            found_lost = compare(lost, {"no change": np.zeros_like(lost)}, scale=(-1.0, 1.0), seed=seed)
            made.append(
                Finding.of(
                    found_lost,
                    name=f"{name} weights: accuracy lost",
                    better="higher",
                    test=TEST,
                    unit="share",
                    baselines={beside: float((other[:, 2] - other[:, 3]).mean())},
                    says=f"Accuracy is {found[:, 2].mean():.3f} with the model's own weights, "
                    f"{found[:, 3].mean():.3f} with {name} weights.",
                )
            )
        baselines = {"no change": 0.0, beside: float(other[:, 1].mean())}
        made.append(
            _finding(
                f"{name} weights: divergence of the output",
                found[:, 1],
                baselines,
                "JSD (max 0.69)",
                seed,
                f"With {name} weights the prediction diverges by {amount(found[:, 1].mean())} on average.",
                (0.0, LARGEST),
            )
        )
    if adapter.selector.tokens:
        made.append(value_zeroing(adapter, seed=seed))
    made += by_layer(adapter, seed=seed)
    return made + by_head(adapter, seed=seed) if heads else made


def by_layer(adapter: Adapter, *, seed: int = 0) -> list[Finding]:
    """Each layer uniform, alone; in the order in which they run."""
    found = {site: _change(adapter, {site: Uniform()}) for site in adapter.sites}
    usual = float(np.mean([one.mean() for one in found.values()]))
    return [
        _finding(
            f"uniform weights at {site}",
            moved,
            {"no change": 0.0, "mean of the layers": usual},
            TVD,
            seed,
            f"With uniform weights at {site} alone the prediction {says_moves(moved.mean())}.",
        )
        for site, moved in found.items()
    ]


def by_head(adapter: Adapter, *, seed: int = 0) -> list[Finding]:
    """Each head silent, alone: the most important first."""
    counts = {site: amap.heads for site, amap in adapter.maps(adapter.inputs([0])).items()}
    found = {
        (site, head): _change(adapter, {site: DropHeads([head])}) for site, n in counts.items() for head in range(n)
    }
    add_artifact(
        Grid(
            "Importance of each head",
            list(counts),
            [f"head {head}" for head in range(max(counts.values()))],
            [
                [found[site, head].mean() if head < n else np.nan for head in range(max(counts.values()))]
                for site, n in counts.items()
            ],
            TVD,
            "How far the prediction moves when this head alone is removed, mean over instances.",
            down="layer",
            across="head",
        )
    )
    usual = float(np.mean([one.mean() for one in found.values()]))
    ranked = sorted(found.items(), key=lambda one: -one[1].mean())
    return [
        _finding(
            f"head {head} of {site} silent",
            moved,
            {"no change": 0.0, "mean of the heads": usual},
            TVD,
            seed,
            f"Without this head the prediction {says_moves(moved.mean())}: rank {place} of {len(ranked)}.",
        )
        for place, ((site, head), moved) in enumerate(ranked, 1)
    ] + [dead_heads(adapter, found, TEST)]


def value_zeroing(adapter: Adapter, *, seed: int = 0) -> Finding:
    """The value of the unit with the largest weight is zeroed at the judged sites, beside a unit drawn at random.

    What a silent unit takes away grows with its weight, also where all values are equal: a large number says that
    weight was lost, not that this unit held it.
    """
    draw = torch.Generator().manual_seed(seed)

    def top(inputs: Inputs) -> Tensor:
        return adapter.attention(inputs)

    def any_unit(inputs: Inputs) -> Tensor:
        return torch.rand(inputs.real.shape, generator=draw).to(inputs.real.device)

    def silent(score: Callable[[Inputs], Tensor]) -> Callable[[Inputs], Changes]:
        def change(inputs: Inputs) -> Changes:
            best = score(inputs).masked_fill(~inputs.units, -torch.inf).argmax(-1, keepdim=True)
            keys = (torch.arange(inputs.real.shape[1], device=best.device) == best) & inputs.units
            return {site: ZeroValue(keys) for site in adapter.judged}

        return change

    most = moves(adapter, silent(top))[:, 0]
    some = np.stack([moves(adapter, silent(any_unit))[:, 0] for _ in range(DRAWS)])
    return Finding.of(
        compare(most, {"random unit": some}, scale=(0.0, 1.0), seed=seed),
        name="value of the top unit silent",
        better="higher",
        test=TEST,
        unit=TVD,
        says=f"Without the value of the most attended unit the prediction {says_moves(most.mean())}; "
        f"without that of a random unit it {says_moves(some.mean())}.",
    )


def moves(adapter: Adapter, change: Callable[[Inputs], Changes]) -> np.ndarray:
    """(instances, 4): total variation and Jensen-Shannon divergence of the output; right before, right after (NaN
    without a label)."""

    def measure(inputs: Inputs) -> list[list[float]]:
        before, after = adapter.predict(inputs), adapter.predict(inputs, change(inputs))
        said = torch.stack([before.argmax(-1), after.argmax(-1)], -1).double()
        return torch.cat([tvd(before, after)[:, None], jsd(before, after)[:, None], said], -1).tolist()

    found = np.asarray(adapter.each(measure))
    labels = np.array([np.nan if label is None else label for label in adapter.labels])[:, None]
    found[:, 2:] = np.where(np.isnan(labels), np.nan, found[:, 2:] == labels)
    return found


def _change(adapter: Adapter, changes: "dict[str, Intervention]") -> np.ndarray:
    return moves(adapter, lambda inputs: changes)[:, 0]


def _finding(
    name: str,
    values: np.ndarray,
    baselines: dict[str, float],
    unit: str,
    seed: int,
    says: str,
    scale: Scale = (0.0, 1.0),
) -> Finding:
    """A distance, which is never below that of no change: its baselines are shown, and none is better or worse."""
    return Finding.of(
        estimate(values, scale=scale, seed=seed),
        name=name,
        says=says,
        better="higher",
        test=TEST,
        unit=unit,
        baselines=baselines,
    )
