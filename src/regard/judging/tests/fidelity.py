"""Fidelity of edges: is the prediction lost without them, and kept with them alone?"""

import math
from collections.abc import Mapping

import numpy as np
import torch

from ..adapters.adapter import Adapter
from ..adapters.inputs import Inputs
from ..attribution.edge_importance import layers_of
from ..attribution.importance import Importance, chance
from ..finding import Finding
from ..registry import asks
from ..statistics.comparison import compare
from ..statistics.intervals import known, mean
from ..wording import amount, loses, percent
from .faithfulness import DRAWS, TIES, ranked

TEST = "fidelity"
KINDS = ("model", "phenomenon")
SHARE = 0.2


@asks("Is the prediction lost without the edges of largest weight, and kept with them alone?", edges=True)
def fidelity(
    adapter: Adapter,
    measures: "Mapping[str, Importance] | None" = None,
    *,
    share: float = SHARE,
    kind: str = "model",
    seed: int = 0,
) -> list[Finding]:
    """Fidelity+ and Fidelity- of the top edges of each measure, by probability and by accuracy, and both in one score.

        Fid+ prob   p(y | G) - p(y | G without S)         Fid- prob   p(y | G) - p(y | S)
        Fid+ acc    |1(y' = y) - 1(y'_(G without S) = y)|   Fid- acc    |1(y' = y) - 1(y'_S = y)|
        characterisation   1 / (0.5 / Fid+ + 0.5 / (1 - Fid-)), by accuracy

    S: the max(1, ceil(share n)) units of n with the largest scores, equal scores in five orders of
    which the mean counts; y' the prediction. kind="model": y is
    the prediction on the whole graph, so that 1(y' = y) = 1; "phenomenon": y is the label. Sparsity, 1 - |S| / n, is in
    the unit of each finding. Edges are deleted, so that the weights of the others sum to one; a mask that is multiplied
    to what is sent along edges (torch_geometric) is another removal. Ten random choices stand beside each figure.

    measures   by name, functions (adapter, inputs) -> (B, n); attention by layer, GAtt and gradient unless told

    Amara et al. 2022 (GraphFramEx).
    """
    measures = layers_of(adapter) if measures is None else measures
    made = {name: kept_and_gone(adapter, measure, share, kind, seed) for name, measure in measures.items()}
    drawn = [kept_and_gone(adapter, chance(seed + 1 + draw), share, kind, seed) for draw in range(DRAWS)]
    beside = {"random": np.stack(drawn)} | made
    sparsity = known(drawn[0][:, 4])
    said = "undefined" if sparsity is None else f"{sparsity:.2f}"
    found = []
    for column, what, better, says in (
        (
            0,
            "Fidelity+ (probability)",
            "higher",
            "Without the top {share} of its edges by {name} the class {value_lost}, without random ones it "
            "{random_lost}.",
        ),
        (
            1,
            "Fidelity- (probability)",
            "lower",
            "With the top {share} of the edges by {name} alone the class {value_lost}, with random ones alone it "
            "{random_lost}.",
        ),
        (
            2,
            "Fidelity+ (accuracy)",
            "higher",
            "Without the top {share} of the edges by {name} {value} of the predicted classes change, without random "
            "ones {random}.",
        ),
        (
            3,
            "Fidelity- (accuracy)",
            "lower",
            "With the top {share} of the edges by {name} alone {value} of the predicted classes change, with random "
            "ones alone {random}.",
        ),
    ):
        for name, table in made.items():
            others = {other: values[..., column] for other, values in beside.items() if other != name}
            value = compare(table[:, column], others, scale=(-1.0, 1.0) if column < 2 else (0.0, 1.0), seed=seed)
            at_random = value.baselines["random"]
            told = says.format(
                share=f"{share:.0%}",
                name=name,
                value=percent(value.value or 0.0),
                random=percent(at_random or 0.0),
                value_lost=loses(value.value),
                random_lost=loses(at_random),
            )
            if value.value is None:
                told = "undefined: no node or graph has an edge."
            found.append(
                Finding.of(
                    value,
                    name=f"{what} of {name}",
                    says=told,
                    better=better,  # type: ignore[arg-type]
                    test=TEST,
                    unit=f"share, {kind}, sparsity {said}",
                )
            )
    for name, table in made.items():
        others = {other: values[..., 2:4] for other, values in beside.items() if other != name}
        value = compare(table[:, 2:4], others, _both, scale=(0.0, 1.0), seed=seed)
        found.append(
            Finding.of(
                value,
                name=f"characterisation of {name}",
                better="higher",
                test=TEST,
                unit=f"share, {kind}, sparsity {said}",
                says="undefined: no node or graph has an edge."
                if value.value is None
                else f"The harmonic mean of Fidelity+ and 1 - Fidelity- is {amount(value.value)}, "
                f"{amount(value.baselines['random'])} for random edges.",
            )
        )
    return found


def kept_and_gone(
    adapter: Adapter, measure: Importance, share: float = SHARE, kind: str = "model", seed: int = 0
) -> np.ndarray:
    """(instances, 5): Fid+ and Fid- by probability, Fid+ and Fid- by accuracy, sparsity; NaN without units."""
    if kind not in KINDS:
        raise ValueError(f"fidelity(kind={kind!r}): expected one of {', '.join(KINDS)}.")
    if not 0 < share <= 1:
        raise ValueError(f"fidelity(share={share}): expected a share of the edges, above 0 and at most 1.")
    if kind == "phenomenon" and not adapter.labelled:
        raise ValueError(
            "fidelity(kind='phenomenon') is about labels, and some instance has none: give labels, or ask "
            "for kind='model'."
        )
    draw = torch.Generator().manual_seed(seed)

    def of_batch(inputs: Inputs) -> list[list[float]]:
        scores = measure(adapter, inputs)
        size = inputs.units.sum(-1)
        top = (share * size).sub(1e-9).ceil().clamp_min(1)  # 0.07 * 100 is 7.000000000000001
        before = adapter.predict(inputs)
        said = before.argmax(-1) if kind == "model" else _labels_of(adapter, inputs)
        orders = [(ranked(scores, inputs.units, draw) < top[:, None]) & inputs.units for _ in range(TIES)]
        if all(torch.equal(orders[0], one) for one in orders):
            orders = orders[:1]
        found = torch.stack([_of(adapter, inputs, chosen, before, said, top, size) for chosen in orders]).mean(0)
        return found.masked_fill((size == 0)[:, None], torch.nan).tolist()

    return np.asarray(adapter.each(of_batch), dtype=np.float64).reshape(-1, 5)


def _of(
    adapter: Adapter,
    inputs: Inputs,
    chosen: torch.Tensor,
    before: torch.Tensor,
    said: torch.Tensor,
    top: torch.Tensor,
    size: torch.Tensor,
) -> torch.Tensor:
    """(B, 5) of `kept_and_gone` for the units that were chosen, bool (B, n)."""
    without = adapter.predict_without(inputs, chosen)
    alone = adapter.predict_without(inputs, inputs.units & ~chosen)
    by_class = [one.gather(-1, said[:, None])[:, 0] for one in (before, without, alone)]
    right = [(one.argmax(-1) == said).double() for one in (before, without, alone)]
    return torch.stack(
        [
            by_class[0] - by_class[1],
            by_class[0] - by_class[2],
            (right[0] - right[1]).abs(),
            (right[0] - right[2]).abs(),
            1 - top / size.clamp_min(1),
        ],
        -1,
    )


def characterisation(plus: float, minus: float) -> float:
    """1 / (0.5 / plus + 0.5 / (1 - minus)): 0 where nothing goes or nothing stays, NaN outside of 0 to 1."""
    if not (0 <= plus <= 1 and 0 <= minus <= 1):
        return math.nan
    return 0.0 if plus == 0 or minus == 1 else 1 / (0.5 / plus + 0.5 / (1 - minus))


def _both(columns: np.ndarray) -> float:
    return characterisation(mean(columns[:, 0]), mean(columns[:, 1]))


def _labels_of(adapter: Adapter, inputs: Inputs) -> torch.Tensor:
    return torch.tensor(
        [adapter.labels[-1 - case] for case in inputs.tokens[:, 0].tolist()], device=inputs.tokens.device
    )
