"""A model whose only output is attention over image patches, supervised by human fixations."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from regard.data.batch import Batch, Example
from regard.judging.progress import EpochCallback
from regard.models.model_output import Answer
from regard.models.training.experiment import answers
from regard.models.training.objectives import AttentionSupervision
from regard.models.training.trainer import Trainer, Training
from regard.nn.attend import Attend


class Gaze(nn.Module):
    """One query over all patches; scores are a convolutional function of the image.

        w = softmax_j (f(x)_j + log prior_j),   c = sum_j w_j x_j

    inputs (B, channels, rows, columns) -> Answer with out (B, channels) and one map (B, 1, 1, patches), patches row by
    row. f has four convolutions with a receptive field of 19 patches. prior (rows, columns): an image-independent
    distribution of fixations, by default uniform. With f = 0, as at initialisation, the weights are the prior.
    """

    def __init__(self, channels: int, prior: Tensor | None = None, dim: int = 24, dropout: float = 0.2):
        super().__init__()
        sizes = (channels, dim, dim, dim)
        layers: list[nn.Module] = []
        for place, wide in enumerate((1, 2, 4)):
            layers += [
                nn.Conv2d(sizes[place], dim, 3, padding=wide, dilation=wide, padding_mode="replicate"),
                nn.ReLU(),
                nn.Dropout2d(dropout),
            ]
        last = nn.Conv2d(dim, 1, 5, padding=2, padding_mode="replicate")
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)  # type: ignore[arg-type]
        self.score = nn.Sequential(*layers, last)
        self.attention = Attend(None, channels, score=None)
        self.prior: Tensor | None
        self.register_buffer("prior", None if prior is None else (prior / prior.sum()).clamp_min(1e-6).log().float())

    def forward(self, batch: Batch) -> Answer:
        scores = self.score(batch.inputs)[:, 0]
        if self.prior is not None:
            scores = scores + self.prior
        seen = batch.inputs.flatten(2).transpose(1, 2)
        ran = self.attention(None, seen, scores=scores.flatten(1)[:, None])
        return Answer(ran.out[:, 0], (ran.map,))


TRAINING = Training(epochs=8, batch=16, rate=3e-3, decay=1e-2, schedule="cosine", patience=8)


@dataclass(frozen=True)
class GazeTraining:
    """Training of a gaze model. prior: whether it starts from the mean fixation map of the training photographs."""

    prior: bool = True
    training: Training = TRAINING
    device: str = "cpu"


def folds(count: int, parts: int, seed: int) -> list[np.ndarray]:
    """Indices 0..count-1 in `parts` random folds of nearly equal size."""
    if not 2 <= parts <= count:
        raise ValueError(f"folds(count={count}, parts={parts}): expected 2 or more parts, and at most `count`.")
    return [np.sort(part) for part in np.array_split(np.random.default_rng(seed).permutation(count), parts)]


def foreseen(
    seen: np.ndarray,
    looked: np.ndarray,
    held: ArrayLike,
    seed: int,
    how: GazeTraining,
    epochs: "EpochCallback | None" = None,
) -> np.ndarray:
    """Weights (held, rows, columns) on held-out photographs, by a model trained on the others.

    seen (N, channels, rows, columns), looked (N, rows, columns) the share of fixations in each patch. An eighth of the
    others is the validation set; the rest and their mirror images are trained on. epochs: callback of each step.
    """
    held = np.asarray(held)
    outside = np.setdiff1d(np.arange(len(seen)), held)
    order = np.random.default_rng([seed, len(outside)]).permutation(outside)
    chosen, taught = np.split(order, [max(1, len(outside) // 8)])
    train, val, test = gaze_examples(seen, looked, taught, chosen, held)
    prior = mean_fixations(train).unflatten(0, looked.shape[1:]) if how.prior else None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Gaze(seen.shape[1], prior)
    Trainer(how.training, how.device, on_step=epochs).fit(model, AttentionSupervision(), train, val, seed)
    made = np.zeros((len(held), *looked.shape[1:]))
    for places, _, answer in answers(model.to(how.device), test, how.device):
        made[places] = answer.weights()[:, 0, 0].cpu().numpy().reshape(-1, *looked.shape[1:])
    return made


def gaze_examples(
    seen: np.ndarray, looked: np.ndarray, taught: ArrayLike, chosen: ArrayLike, held: ArrayLike
) -> tuple[list[Example], list[Example], list[Example]]:
    """Examples to train on (with their mirror images), to choose an epoch by, and to judge; their gold is where people
    looked, and their channels are standardised by those of the first."""
    parts = [np.asarray(part) for part in (taught, chosen, held)]
    middle, spread = (
        of(seen[parts[0]], axis=(0, 2, 3), keepdims=True)[0]
        for of in (np.mean, np.std)  # one number a channel
    )
    scaled = torch.from_numpy((seen - middle) / np.maximum(spread, 1e-6)).float()

    def example(place: int, mirrored: bool = False) -> Example:
        x, gold = scaled[place], torch.from_numpy(looked[place]).float()
        if mirrored:
            x, gold = x.flip(-1), gold.flip(-1)
        return Example(x, torch.tensor(0), gold=gold.flatten(), id=int(place))

    train = [example(place, mirrored) for place in parts[0] for mirrored in (False, True)]
    return train, [example(place) for place in parts[1]], [example(place) for place in parts[2]]


def mean_fixations(train: Sequence[Example]) -> Tensor:
    """(patches,): where people look on the photographs that are trained on."""
    return torch.stack([one.gold for one in train if one.gold is not None]).double().mean(0)
