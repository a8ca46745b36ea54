"""Prediction of fixations on photographs: supervised attention, centre bias, saliency baselines, other observers."""

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from regard.data.readers.fixations import Scene
from regard.judging.finding import Finding
from regard.judging.plausibility.fixations import MEASURES, centre_bias, count_map, fixation_map, told_of
from regard.judging.progress import ProgressCallback, epoch_progress, nested_progress, no_progress
from regard.judging.statistics.comparison import compare
from regard.judging.statistics.intervals import mean
from regard.recording.io.writing import write_whole

from .saliency_baselines import CELL, channels, contrast, patches, spectral_residual
from .scene_model import GazeTraining, folds, foreseen

TEST = "photographs"
FINE = 4  # pixels a side of a cell in which maps are compared
BLUR = 10  # pixels: about one degree of visual angle
FLOOR = 0.01  # of every map is uniform, so that divergences are finite
NAMES = ("NSS", "AUC-Judd", "CC", "divergence from people")


class Looks:
    """The fixations on one photograph by observer, in cells of 4 pixels."""

    def __init__(self, scene: Scene):
        if any(side % CELL for side in scene.size):
            raise ValueError(
                f"The photograph {scene.name} has {scene.size} pixels: expected sides that {CELL} divides."
            )
        self.shape = (scene.size[0] // FINE, scene.size[1] // FINE)
        kept = [np.asarray(one, dtype=np.float64) / FINE for one in scene.fixations if len(one)]
        self.counts = [count_map(one, self.shape) for one in kept]
        self.maps = [floored(fixation_map(one, self.shape, BLUR / FINE)) for one in kept]
        self.all = fixation_map(np.concatenate(kept), self.shape, BLUR / FINE)

    def others(self, place: int) -> np.ndarray:
        """The fixation map of all observers but one."""
        from scipy.ndimage import gaussian_filter

        return gaussian_filter(sum(self.counts) - self.counts[place], BLUR / FINE, mode="constant")

    def measured(self, predicted: np.ndarray) -> list[float]:
        """Each of NAMES, the mean over observers."""
        return self._mean([floored(predicted)] * len(self.counts))

    def ceiling(self) -> list[float]:
        """The same for the other observers (human ceiling); undefined for a single observer."""
        if len(self.counts) < 2:
            return [float("nan")] * len(NAMES)
        return self._mean([floored(self.others(place)) for place in range(len(self.counts))])

    def _mean(self, predicted: Sequence[np.ndarray]) -> list[float]:
        found = [
            [MEASURES[name][0](map_, count if name in ("NSS", "AUC-Judd") else blurred) for name in NAMES]
            for map_, count, blurred in zip(predicted, self.counts, self.maps, strict=True)
        ]
        return [mean(column) for column in np.transpose(found)]


def floored(predicted: np.ndarray) -> np.ndarray:
    """Normalised to sum 1, with 1 % uniform; a zero map becomes uniform."""
    total = predicted.sum()
    even = np.full(predicted.shape, 1 / predicted.size)
    return even if not total > 0 else (1 - FLOOR) * predicted / total + FLOOR * even


def finer(weights: np.ndarray) -> np.ndarray:
    """Patches of 8 pixels as cells of 4, smooth between their middles."""
    from scipy.ndimage import zoom

    return np.maximum(zoom(weights, CELL // FINE, order=1, mode="nearest", grid_mode=True), 0)


def judge_scenes(
    scenes: Sequence[Scene],
    *,
    parts: int = 5,
    seeds: int = 3,
    seed: int = 0,
    resamples: int = 1000,
    how: "dict[str, GazeTraining] | None" = None,
    out: "Path | None" = None,
    on_progress: ProgressCallback = no_progress,
) -> list[Finding]:
    """Attention over patches supervised by fixations, tested by cross-validation over photographs, with baselines.

    Photographs are split into `parts` random folds for each seed; each fold is predicted by a model of the others. NSS,
    AUC-Judd, CC and divergence against one observer at a time, mean over observers, then over photographs; intervals
    over seeds and photographs, crossed. Baselines: centre bias, mean fixation map of other photographs, contrast,
    spectral residual, and *people*, the other observers of the photograph.

    how    training configurations by name; by default with and without the prior
    out    a folder for predictions: existing ones are not recomputed
    on_progress   callback(description, models trained, total)
    """
    if not scenes:
        raise ValueError("judge_scenes(scenes) is empty: expected photographs with fixations, as scenes() has them.")
    how = (
        {"taught attention": GazeTraining(), "taught attention, picture alone": GazeTraining(prior=False)}
        if how is None
        else how
    )
    on_progress("fixations", 0, None)
    looks = [Looks(scene) for scene in scenes]
    looked = np.stack([share_of(look.all) for look in looks])
    pictures, found = [], []
    for done, scene in enumerate(scenes):
        on_progress("channels of the photographs", done, len(scenes))
        pictures.append(scene.pixels())
        found.append(channels(pictures[-1]))
    seen = np.stack(found)
    trivial, beside = _trivial(pictures, seen, looked), {}
    for done, (name, some) in enumerate(trivial.items()):
        on_progress(f"measuring {name}", done, len(trivial) + 1)
        beside[name] = np.array([look.measured(finer(one)) for look, one in zip(looks, some, strict=True)])
    on_progress("measuring people among themselves", len(trivial), len(trivial) + 1)
    beside["people"] = np.array([look.ceiling() for look in looks])
    rows: dict[str, list[list[list[float]]]] = {}
    for done, (name, one) in enumerate(product(how, range(seeds))):
        whole = nested_progress(on_progress, done * parts, len(how) * seeds * parts)
        weights = _foreseen(name, how[name], seen, looked, parts, seed + one, out, whole)
        rows.setdefault(name, []).append(
            [look.measured(finer(map_)) for look, map_ in zip(looks, weights, strict=True)]
        )
    return _findings({name: np.array(some) for name, some in rows.items()}, beside, seed, resamples)


def share_of(fine: np.ndarray) -> np.ndarray:
    """Cells of 4 pixels as patches of 8, sum 1."""
    found = patches(fine, CELL // FINE)
    return found / found.sum()


def _trivial(pictures: Sequence[np.ndarray], seen: np.ndarray, looked: np.ndarray) -> dict[str, list[np.ndarray]]:
    total = looked.sum(0)
    elsewhere = [total - one for one in looked]
    rare = [spectral_residual(picture) for picture in pictures]
    return {
        "a Gaussian at the centre": [centre_bias(looked.shape[1:])] * len(looked),
        "other photographs": elsewhere,
        "contrast": [contrast(one) for one in seen],
        "spectral residual": rare,
        "spectral residual x other photographs": [a * b for a, b in zip(rare, elsewhere, strict=True)],
    }


def _foreseen(
    name: str,
    how: GazeTraining,
    seen: np.ndarray,
    looked: np.ndarray,
    parts: int,
    seed: int,
    out: "Path | None",
    on_progress: ProgressCallback,
) -> np.ndarray:
    """Weights of all photographs, each by a model that was not trained on it."""
    made = np.zeros_like(looked)
    for place, held in enumerate(folds(len(looked), parts, seed)):
        said = f"{name}, seed {seed}, part {place + 1} of {parts}"
        on_progress(said, place, parts)
        file = None if out is None else out / f"{name.replace(', ', '-').replace(' ', '-')}-{seed}-{place}.json"
        if file is not None and file.is_file():
            kept = json.loads(file.read_text(encoding="utf-8"))
            if kept["held"] != held.tolist() or kept["how"] != repr(how):
                raise ValueError(f"{file} was made from other photographs or by another recipe: name another folder.")
            made[held] = np.array(kept["weights"]).reshape(len(held), *looked.shape[1:])
            continue
        made[held] = foreseen(
            seen, looked, held, seed, how, epoch_progress(on_progress, said, place, parts, how.training)
        )
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            kept = {"held": held.tolist(), "how": repr(how), "weights": made[held].round(9).flatten().tolist()}
            write_whole(file, [json.dumps(kept).encode()])
    return made


def _findings(taught: dict[str, np.ndarray], beside: dict[str, np.ndarray], seed: int, resamples: int) -> list[Finding]:
    made = []
    rows = taught | {name: table[None] for name, table in beside.items()}
    for column, measure in enumerate(NAMES):
        _, better, unit, _ = MEASURES[measure]
        for name, table in rows.items():
            mine = table[:, :, column]
            others = (
                {}
                if name in beside
                else {of: np.broadcast_to(one[:, column], mine.shape) for of, one in beside.items()}
            )
            found = compare(mine, others, seeds=True, seed=seed, resamples=resamples)
            made.append(
                Finding.of(
                    found,
                    name=f"{measure}: {name}",
                    says="undefined for every photograph." if found.value is None else told_of(measure, found.value),
                    better=better,
                    test=TEST,
                    unit=unit or "share",
                )
            )
        for name in taught:
            gain = taught[name][:, :, column] - beside["other photographs"][None, :, column]
            found = compare(gain, {"no gain": 0.0}, seeds=True, seed=seed, resamples=resamples)
            told = "undefined" if found.value is None else f"{found.value:+.3f}"
            told = f"Beside where people look on other photographs, photograph by photograph: {told}."
            made.append(
                Finding.of(
                    found,
                    name=f"{measure}: {name}, less other photographs",
                    says=told,
                    better=better,
                    test=TEST,
                    unit=unit or "share",
                )
            )
    return made
