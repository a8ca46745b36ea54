"""Photographs with fixations: does attention over patches lie where people look?"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property

import numpy as np
from torch import nn

from regard.data.task import Task
from regard.judging.plausibility.fixations import centre_bias
from regard.judging.tests.fixations import MEASURED, PhotographFixations, measured
from regard.models.training.experiment import Experiment, Measure, Result, answers
from regard.models.training.objectives import AttentionSupervision, Objective
from regard.models.training.trainer import Training

from ...human_agreement.saliency_baselines import CELL, channels, contrast, spectral_residual
from ...human_agreement.scene_model import TRAINING, Gaze, gaze_examples, mean_fixations
from ...human_agreement.scenes import Looks, share_of
from .scene_study import VARIANTS, photographs_of

FEWEST = 8  # photographs: half train, an eighth val, the rest test


@dataclass(eq=False)
class PhotographTask(Task):
    """A task with fixations of the test photographs, and baseline maps."""

    _: KW_ONLY
    fixations: list[PhotographFixations] = field(default_factory=list)


class TaughtFixations(Experiment):
    """Attention over patches supervised by fixations, tested on unseen photographs.

    data   "scenes", or the path of a folder with images and fixations.csv (`read_fixations`)

    Every seed has its own split: half train, an eighth val. attention "attention" has the mean fixation map of the
    training photographs as a prior, "picture" has none.
    """

    name = "fixations"
    measures = {  # noqa: RUF012
        "NSS": Measure("NSS", 1.0, 2),
        "AUC-Judd": Measure("AUC-Judd", 1.0, 3),
        "CC": Measure("CC", 1.0, 3),
        "divergence from people": Measure("KL from people, nats", 1.0, 3, higher=False),
    }
    own = tuple(VARIANTS)
    usual = "attention"
    beside = ("picture",)
    overlap = 0.75  # three eighths test, half train
    says = {  # noqa: RUF012
        "attention": "attention, from where people look elsewhere",
        "picture": "attention, from the picture alone",
    }

    def __init__(self, small: bool = False, data: str = "scenes"):
        super().__init__(small, data=data)
        self.source = "" if data == "scenes" else data

    @cached_property
    def _read(self) -> tuple[list[str], np.ndarray, np.ndarray, list[np.ndarray], list[np.ndarray]]:
        """Names, channels (N, c, rows, columns), shares of the fixations, counts by observer, spectral residuals."""
        some = photographs_of(self.options["data"])
        if len(some) < FEWEST:
            raise ValueError(f"{self.options['data']} has {len(some)} photographs: expected {FEWEST} or more.")
        looks, seen, rare, counts = [Looks(one) for one in some], [], [], []
        for one in some:
            pixels = one.pixels()
            seen.append(channels(pixels))
            rare.append(spectral_residual(pixels))
            cells = [np.floor(np.asarray(places) / CELL).astype(int) for places in one.fixations if len(places)]
            each = np.zeros((len(cells), one.size[0] // CELL, one.size[1] // CELL))
            for observer, places in enumerate(cells):
                np.add.at(each[observer], (places[:, 0], places[:, 1]), 1.0)
            counts.append(each)
        return [one.name for one in some], np.stack(seen), np.stack([share_of(one.all) for one in looks]), counts, rare

    def load(self, seed: int) -> Task:
        names, seen, looked, counts, rare = self._read
        order = np.random.default_rng([seed, len(seen)]).permutation(len(seen))
        half, chosen = len(seen) // 2, max(1, len(seen) // 8)
        parts = np.split(order, [half, half + chosen])
        train, val, test = gaze_examples(seen, looked, *parts)
        elsewhere = mean_fixations(train).numpy().reshape(looked.shape[1:])
        made = []
        for place in parts[2]:
            maps = {
                "other photographs": elsewhere,
                "a Gaussian at the centre": centre_bias(looked.shape[1:]),
                "contrast": contrast(seen[place]),
                "spectral residual": rare[place],
            }
            made.append(PhotographFixations(names[place], counts[place], looked[place], maps))
        name = "scenes" if not self.source else self.source.rstrip("/").rpartition("/")[2]
        return PhotographTask(name, train, val, test, fixations=made)

    def model(self, task: Task, attention: str) -> nn.Module:
        if attention not in VARIANTS:
            raise ValueError(f"attention={attention!r}: expected one of {', '.join(VARIANTS)}.")
        first = task.train[0].inputs
        prior = mean_fixations(task.train).unflatten(0, first.shape[1:]) if VARIANTS[attention] else None
        return Gaze(first.shape[0], prior)

    def objective(self) -> Objective:
        return AttentionSupervision()

    @property
    def training(self) -> Training:
        return TRAINING

    def measure(self, model: nn.Module, task: Task, device: str) -> Result:
        assert isinstance(task, PhotographTask)
        rows: list[dict[str, float]] = [{} for _ in task.test]
        for places, _, answer in answers(model, task.test, device):
            weights = answer.weights()[:, 0, 0].double().cpu().numpy()
            for place, w in zip(places, weights, strict=True):
                rows[place] = measured(w, task.fixations[place])
        whole = [name for name in MEASURED if not any(np.isnan(row[name]) for row in rows)]
        return Result(_means(rows), scores={name: [row[name] for row in rows] for name in whole})

    def baselines(self, task: Task) -> dict[str, dict[str, float]]:
        assert isinstance(task, PhotographTask)
        names = task.fixations[0].baselines
        return {name: _means([measured(one.baselines[name].ravel(), one) for one in task.fixations]) for name in names}


def _means(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    columns = {name: np.array([row[name] for row in rows]) for name in MEASURED}
    return {name: float(np.nanmean(some)) for name, some in columns.items() if not np.isnan(some).all()}
