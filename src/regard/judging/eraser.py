"""What ERASER's benchmark reads: of each instance a rationale, and what the model says without it and by it alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .adapters.adapter import Adapter
from .adapters.inputs import Instance
from .plausibility.overlap import spans, top_marks
from .statistics.divergence import over_units
from .tests.faithfulness import BINS

USUAL = 0.2  # of the words, where nobody marked any


def rows(adapter: Adapter, share: float | None = None, bins: Sequence[float] = BINS) -> list[dict[str, Any]]:
    """One for each instance, under the names that the benchmark's metrics read.

    The soft rationale is the judged weight of each word, its pieces together, special tokens left out; the hard one
    the share of words that have the largest: the mean share that people marked where the data tell it, else a fifth.
    Comprehensiveness has those words taken away, sufficiency has them alone; a text of which nothing is left has no
    such scores. DeYoung et al. 2020.
    """
    share = share or _marked_share(adapter.instances) or USUAL
    found: list[dict[str, Any]] = [{}] * len(adapter)
    for some in adapter.batches():
        inputs = adapter.inputs(some)
        weights, told = over_units(adapter.attention(inputs), inputs.units).cpu(), adapter.predict(inputs)
        soft = [by_word(adapter.instances[place], row) for place, row in zip(some, weights, strict=True)]
        after = []
        for part in (share, *bins):
            gone = torch.zeros(inputs.real.shape, dtype=torch.bool)
            for item, place in enumerate(some):
                hard = torch.from_numpy(top_marks(soft[item], part)) if len(soft[item]) else torch.zeros(0).bool()
                words = word_of(adapter.instances[place])
                gone[item, : len(words)] = torch.where(words >= 0, torch.cat([hard, hard.new_zeros(1)])[words], False)
            gone = gone.to(inputs.real.device)
            after.append([adapter.predict_without(inputs, one) for one in (gone, ~gone)])
        for item, place in enumerate(some):
            of_item = [(without[item], alone[item]) for without, alone in after]
            found[place] = _row(adapter, place, told[item], soft[item], share, bins, of_item)
    return found


def word_of(one: Instance) -> Tensor:
    """(n,): the number of the word that each token is a piece of; -1 of a special token."""
    special = torch.zeros(len(one.tokens), dtype=torch.bool) if one.special is None else one.special
    places = (~special).long().cumsum(0) - 1 if one.places is None else one.places
    return places.masked_fill(special, -1)


def by_word(one: Instance, weights: Tensor) -> np.ndarray:
    """(words of the text,): the weight of each word, that of its pieces together; 0 for words that were cut off."""
    words = word_of(one)
    count = max(one.total or 0, int(words.max()) + 1)
    inside = words >= 0
    return torch.zeros(count, dtype=torch.float64).index_add(0, words[inside], weights[: len(words)][inside]).numpy()


def _marked_share(instances: Sequence[Instance]) -> float | None:
    found = [
        float(one.marks[word_of(one) >= 0].double().mean())
        for one in instances
        if one.marks is not None and bool(one.marks.any())
    ]
    return float(np.mean(found)) if found else None


def _row(
    adapter: Adapter,
    place: int,
    told: Tensor,
    soft: np.ndarray,
    share: float,
    bins: Sequence[float],
    after: Sequence[tuple[Tensor, Tensor]],
) -> dict[str, Any]:
    name = adapter.instances[place].name or str(place)
    hard = spans(top_marks(soft, share)) if len(soft) else []

    def scores(given: Tensor) -> dict[str, float]:
        return {adapter.called(label): round(x, 6) for label, x in enumerate(given.tolist())}

    def without_and_alone(pair: tuple[Tensor, Tensor]) -> dict[str, dict[str, float]]:
        names = ("comprehensiveness_classification_scores", "sufficiency_classification_scores")
        return {key: scores(x) for key, x in zip(names, pair, strict=True) if not bool(x.isnan().any())}

    return {
        "annotation_id": name,
        "rationales": [
            {
                "docid": name,
                "hard_rationale_predictions": [{"start_token": a, "end_token": b} for a, b in hard],
                "soft_rationale_predictions": [round(x, 6) for x in soft.tolist()],
            }
        ],
        "classification": adapter.called(int(told.argmax())),
        "classification_scores": scores(told),
        **without_and_alone(after[0]),
        "thresholded_scores": [
            {"threshold": part} | without_and_alone(pair) for part, pair in zip(bins, after[1:], strict=True)
        ],
    }
