"""A model that looks at photographs: do its weights lie where people looked?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batch import Example, collate

from ..adapters.adapter import Adapter
from ..adapters.inputs import Inputs, Instance, NotApplicable
from ..artifacts import Histogram, add_artifact, collects_artifacts
from ..finding import Finding
from ..plausibility.fixations import MEASURES, human_ceiling, judge_fixations
from ..registry import asks

MEASURED = ("NSS", "AUC-Judd", "CC", "divergence from people")
BY_COUNT = ("NSS", "AUC-Judd")  # against the places looked at; the others against a blurred map
FLOOR = 0.01  # of every map is uniform, so that divergences are finite


@dataclass(frozen=True, eq=False)
class PhotographFixations:
    """Where people looked on one photograph: counts (observers, rows, columns) of patches, share (rows, columns) the
    blurred map of all, and baselines by name, maps of the same shape that no model made."""

    name: str
    counts: np.ndarray
    share: np.ndarray
    baselines: Mapping[str, np.ndarray] = field(default_factory=dict)


class Viewer(Adapter):
    """A model whose one row of weights lies over the patches of a photograph, and where people looked.

    examples   of regard.data: channels (c, rows, columns)
    fixations  of the same photographs, in the same order
    """

    gives, called_instances = "fixations", "photographs"

    def __init__(
        self,
        model: nn.Module,
        examples: Sequence[Example],
        fixations: Sequence[PhotographFixations],
        *,
        size: int = 64,
    ):
        if len(examples) != len(fixations):
            raise ValueError(f"Viewer: {len(examples)} photographs, but fixations on {len(fixations)}.")
        places = [torch.arange(one.share.size) for one in fixations]
        some = [Instance(place, name=one.name) for place, one in zip(places, fixations, strict=True)]
        super().__init__(model, some, forward=_no_classes, size=size)
        self.examples, self.fixations = list(examples), list(fixations)

    @property
    def judged(self) -> list[str]:
        return ["attention over patches"]

    def content(self, place: int) -> list[Tensor | None]:
        one = self.fixations[place]
        return [self.examples[place].inputs, torch.from_numpy(one.counts), torch.from_numpy(one.share)]

    def weights(self) -> list[np.ndarray]:
        """The weights of each photograph, (rows, columns)."""
        found: list[np.ndarray] = [np.zeros(0)] * len(self)
        for places in self.batches():
            with torch.no_grad():
                answer = self.model.eval()(collate([self.examples[place] for place in places]).to(self.device))
            for place, row in zip(places, answer.weights()[:, 0, 0].double().cpu().numpy(), strict=True):
                found[place] = row.reshape(self.fixations[place].share.shape)
        return found


@asks("Do the weights lie where people look?", first=4, of="fixations", aspect="plausibility")
def fixations(adapter: Viewer, *, seed: int = 0) -> list[Finding]:
    """NSS, AUC-Judd, CC and divergence of the weights from people's fixations, in patches.

    Beside: where people look on other photographs, which is what weights by place can reach, a Gaussian at the centre,
    and what saliency without learning has; *people* are the other observers of a photograph, for those that have two.
    Of every map 1 % is uniform, so that divergences are finite.
    """
    weights, made = adapter.weights(), []
    names = list(adapter.fixations[0].baselines)
    if collects_artifacts():
        nss = {
            name: np.array([measured(one, at)["NSS"] for one, at in zip(maps, adapter.fixations, strict=True)])
            for name, maps in {
                "attention": weights,
                **{name: [at.baselines[name] for at in adapter.fixations] for name in names},
            }.items()
        }
        add_artifact(
            Histogram("Where people look, photograph by photograph", "NSS", nss, "0: chance; above: where they look.")
        )
    for name in MEASURED:
        human = [_target(name, one) for one in adapter.fixations]
        beside = {other: [floored(at.baselines[other]) for at in adapter.fixations] for other in names}
        measure = MEASURES[name][0]
        each = (
            [human_ceiling(list(one.counts), measure, floored) for one in adapter.fixations] if name in BY_COUNT else []
        )
        ceiling = {name: float(np.nanmean(each))} if np.isfinite(each).any() else {}
        made += judge_fixations(
            [floored(one) for one in weights], human, (name,), baselines=beside, ceiling=ceiling, seed=seed
        )
    return made


def measured(weights: np.ndarray, one: PhotographFixations) -> dict[str, float]:
    """Each of MEASURED of one map; NaN where it is undefined."""
    map_ = floored(np.asarray(weights, dtype=np.float64).reshape(one.share.shape))
    return {name: float(MEASURES[name][0](map_, _target(name, one))) for name in MEASURED}


def floored(map_: np.ndarray) -> np.ndarray:
    """Normalised to sum 1, with 1 % uniform; a map of zeros becomes uniform."""
    total, even = map_.sum(), np.full(map_.shape, 1 / map_.size)
    return even if not total > 0 else (1 - FLOOR) * map_ / total + FLOOR * even


def _target(name: str, one: PhotographFixations) -> np.ndarray:
    found: np.ndarray = one.counts.sum(0) if name in BY_COUNT else floored(one.share)
    return found


def _no_classes(model: nn.Module, inputs: Inputs) -> Any:
    raise NotApplicable("The model says where people look: it gives no classes.")
