"""The inputs of a model in one fold: training responses, and features standardised on the training part only."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...data.drug_panel import DrugPanel
from .splits import NEW_DRUG, NEW_LINE, divide, tanimoto

KINDS = ("expression", "copy_number", "mutation", "methylation")


def mean_effects(
    y: np.ndarray, drug: bool = True, line: bool = True, shrink: float = 5.0, rounds: int = 10
) -> np.ndarray:
    """(D, L) with NaN where nothing is known  ->  (D, L): an additive model of drugs and cell lines.

        y_dl = mean + a_d + b_l,   fitted alternately, shrunk as if with 5 more responses at 0

    A drug or cell line without responses has effect 0.
    """
    known = ~np.isnan(y)
    centre = float(y[known].mean())
    left = np.where(known, y - centre, 0.0)
    a, b = np.zeros(len(y)), np.zeros(y.shape[1])
    for _ in range(rounds):
        if drug:
            a = ((left - b) * known).sum(1) / (known.sum(1) + shrink)
        if line:
            b = ((left - a[:, None]) * known).sum(0) / (known.sum(0) + shrink)
    return centre + a[:, None] + b[None]


@dataclass(frozen=True, eq=False)
class Fold:
    """One division of the panel. train, test (D, L): masks of measured pairs; kind as in `SPLITS`.

    Every model is fitted to the residuals of the mean effects (`residual`), so it starts from the trivial baseline.
    """

    panel: DrugPanel
    kind: str
    train: np.ndarray
    test: np.ndarray
    seed: int = 0

    @classmethod
    def of(cls, panel: DrugPanel, kind: str, seed: int) -> "Fold":
        return cls(panel, kind, *divide(panel, kind, seed), seed)

    def inner(self) -> "Fold":
        """An inner split of the training part, of the same kind, for tuning."""
        return Fold(self.panel, self.kind, *divide(self.panel, self.kind, self.seed, self.train), self.seed)

    @cached_property
    def lines(self) -> np.ndarray:
        """Indices of the cell lines with training responses."""
        return np.flatnonzero(self.train.any(0))

    @cached_property
    def drugs(self) -> np.ndarray:
        return np.flatnonzero(self.train.any(1))

    @property
    def new_drugs(self) -> bool:
        return self.kind in NEW_DRUG

    @property
    def new_lines(self) -> bool:
        return self.kind in NEW_LINE

    @cached_property
    def known(self) -> np.ndarray:
        """(D, L): training responses, NaN elsewhere."""
        return np.where(self.train, self.panel.response, np.nan)

    @cached_property
    def offset(self) -> np.ndarray:
        """(D, L): the mean effects available for test pairs too. New drugs have no mean."""
        return mean_effects(self.known, drug=not self.new_drugs, line=not self.new_lines)

    @cached_property
    def residual(self) -> np.ndarray:
        """(D, L): residuals of the training responses after mean effects, NaN elsewhere."""
        return self.known - self.offset

    @cached_property
    def omics(self) -> dict[str, np.ndarray]:
        """By kind (L, features): mean 0 and deviation 1 over the training lines."""
        return {kind: self._standardised(getattr(self.panel, kind)) for kind in KINDS}

    def components(self, kind: str, count: int) -> np.ndarray:
        """(L, count): principal components of one kind, their axes from the training lines alone."""
        x = self.omics[kind]
        axes = self._axes(kind, x)[: min(count, len(self.lines) - 1)]
        return x @ axes.T

    def drug_components(self, count: int) -> np.ndarray:
        """(D, count): principal components of the fingerprints, their axes from the training drugs alone."""
        x = self.panel.fingerprints
        centred = x - x[self.drugs].mean(0)
        axes = np.linalg.svd(centred[self.drugs], full_matrices=False)[2][:count]
        return centred @ axes.T

    @cached_property
    def likeness(self) -> np.ndarray:
        """(D, D): Tanimoto similarity of the drugs' fingerprints."""
        return tanimoto(self.panel.fingerprints, self.panel.fingerprints)

    def _standardised(self, x: np.ndarray) -> np.ndarray:
        some = x[self.lines]
        return np.clip((x - some.mean(0)) / np.maximum(some.std(0), 0.05), -6, 6).astype(np.float32)

    def _axes(self, kind: str, x: np.ndarray) -> np.ndarray:
        cache: dict[str, np.ndarray] = self.__dict__.setdefault("_axes_cache", {})
        if kind not in cache:
            cache[kind] = np.linalg.svd(x[self.lines], full_matrices=False)[2]
        return cache[kind]
