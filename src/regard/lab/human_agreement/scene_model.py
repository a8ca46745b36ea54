"""A model whose only answer is where it looks: attention over patches of a photograph, taught by fixations."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from regard.data.batch import Batch, Example
from regard.judging.progress import EpochCallback
from regard.models.model_output import Answer
from regard.models.training.experiment import answers
from regard.models.training.objectives import Looking
from regard.models.training.trainer import Trainer, Training
from regard.nn.attend import Attend


class Gaze(nn.Module):
    """One question over all patches; the score of a patch is read off it and its surroundings.

        w = softmax_j (f(x)_j + log prior_j),   c = sum_j w_j x_j

    inputs (B, channels, rows, columns) -> Answer with out (B, channels) and one map (B, 1, 1, patches), patches row by
    row. f is four convolutions that see 19 patches across. prior (rows, columns): where people look whatever is there;
    without one all patches begin alike. With f = 0, as before any learning, the weights are the prior.
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
class Taught:
    """How a gaze is taught. prior: whether it begins from where people look on the other photographs."""

    prior: bool = True
    training: Training = TRAINING
    device: str = "cpu"


def folds(count: int, parts: int, seed: int) -> list[np.ndarray]:
    """Places 0..count-1 in `parts` groups of nearly equal size, drawn by a seed; each place is in one."""
    if not 2 <= parts <= count:
        raise ValueError(f"folds(count={count}, parts={parts}): expected 2 parts or more, and as many as there are.")
    return [np.sort(part) for part in np.array_split(np.random.default_rng(seed).permutation(count), parts)]


def foreseen(
    seen: np.ndarray, looked: np.ndarray, held: ArrayLike, seed: int, how: Taught, epochs: "EpochCallback | None" = None
) -> np.ndarray:
    """Weights (held, rows, columns) on photographs that were held out, by a model of all the others.

    seen (N, channels, rows, columns), looked (N, rows, columns) the share of looks in each patch. An eighth of the
    others chooses the epoch; the rest and their mirror images teach. epochs: hears of each step.
    """
    held = np.asarray(held)
    outside = np.setdiff1d(np.arange(len(seen)), held)
    chosen, taught = np.split(np.random.default_rng([seed, len(outside)]).permutation(outside), [len(outside) // 8])
    middle, spread = seen[taught].mean((0, 2, 3), keepdims=True)[0], seen[taught].std((0, 2, 3), keepdims=True)[0]
    scaled = torch.from_numpy((seen - middle) / np.maximum(spread, 1e-6)).float()
    prior = torch.from_numpy(looked[taught].mean(0)) if how.prior else None
    prior = None if prior is None else (prior + prior.flip(-1)) / 2  # learned from mirror images too

    def example(place: int, mirrored: bool = False) -> Example:
        x, gold = scaled[place], torch.from_numpy(looked[place]).float()
        if mirrored:
            x, gold = x.flip(-1), gold.flip(-1)
        return Example(x, torch.tensor(0), gold=gold.flatten(), id=int(place))

    train = [example(place, mirrored) for place in taught for mirrored in (False, True)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Gaze(seen.shape[1], prior)
    Trainer(how.training, how.device, hear=epochs).fit(
        model, Looking(), train, [example(place) for place in chosen], seed
    )
    made = np.zeros((len(held), *looked.shape[1:]))
    for places, _, answer in answers(model.to(how.device), [example(place) for place in held], how.device):
        made[places] = answer.weights()[:, 0, 0].cpu().numpy().reshape(-1, *looked.shape[1:])
    return made
