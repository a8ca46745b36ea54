"""A classifier of long reviews: frozen word embeddings, one attention over all words, two classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.data.batch import Batch, Example
from regard.judging.adapters.adapter import Adapter
from regard.judging.adapters.attention_selector import AttentionSelector
from regard.judging.adapters.inputs import Instance
from regard.judging.progress import EpochCallback
from regard.models import features, output_heads, queries
from regard.models.attention_factory import build_attention
from regard.models.model_output import Answer
from regard.models.task_model import TaskModel
from regard.models.training.objectives import Classification
from regard.models.training.trainer import Trainer, Training

from ..data.movies import Review
from .word_encoder import Encoder

TRAINING = Training(epochs=4, batch=16, rate=2e-3, decay=1e-3, schedule="cosine", patience=4)


@dataclass(frozen=True)
class ReviewTraining:
    """Training of a classifier. supervise: weight of the loss on attention, with human rationales as gold."""

    supervise: float = 0.0
    training: Training = TRAINING
    device: str = "cpu"


def reader(d: int, dim: int = 64, dropout: float = 0.3) -> TaskModel:
    """inputs (B, n, d) -> two classes: w = softmax_j score(q, h_j), h = relu(W x), one learned question q."""
    return TaskModel(
        features.Frames(d, dim, dropout),
        queries.Learned(dim),
        build_attention("additive", dim, dim),
        output_heads.Classes(dim, 2, dropout=dropout),
    )


def examples(reviews: Sequence[Review], vectors: Sequence[Tensor]) -> list[Example]:
    return [
        Example(vector, torch.tensor(one.label), gold=torch.from_numpy(one.marks).float(), id=place)
        for place, (one, vector) in enumerate(zip(reviews, vectors, strict=True))
    ]


def taught(
    train: Sequence[Example],
    val: Sequence[Example],
    seed: int,
    how: ReviewTraining,
    folder: "Path | None" = None,
    epochs: "EpochCallback | None" = None,
) -> TaskModel:
    """A trained classifier, the best epoch by validation accuracy; with a folder, interrupted runs resume."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = reader(train[0].inputs.shape[1])
    objective = Classification(supervise=how.supervise)
    Trainer(how.training, how.device, folder=folder, on_step=epochs).fit(model, objective, train, val, seed)
    return model.to(how.device).eval()


class Vectors(nn.Module):
    """Word ids (B, n), real (B, n) -> embeddings (B, n, d), zero on padding.

    known: cached embeddings of whole texts, by their ids; others are encoded.
    """

    def __init__(self, encoder: Encoder, words: Sequence[str], known: "dict[tuple[int, ...], Tensor] | None" = None):
        super().__init__()
        self.encoder, self.words, self.known = encoder, list(words), known or {}

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        rows = [tuple(row[keep].tolist()) for row, keep in zip(tokens, real, strict=True)]
        new = [row for row in rows if row not in self.known]
        read = iter(self.encoder([[self.words[at] for at in row] for row in new]))
        made = torch.zeros(*tokens.shape, self.encoder.dim, device=tokens.device)
        for place, row in enumerate(rows):
            found = self.known[row] if row in self.known else next(read)
            made[place][real[place]] = found.to(made)
        return made


class Whole(nn.Module):
    """Encoder and classifier as one model of words, so that words can be erased."""

    def __init__(self, vectors: Vectors, task: TaskModel):
        super().__init__()
        self.vectors, self.task = vectors, task

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        count = torch.arange(len(tokens), device=tokens.device)
        answer: Answer = self.task(Batch(self.vectors(tokens, real), torch.zeros_like(count), real.sum(-1), count))
        return answer.out


def adapter_of(
    encoder: Encoder, task: TaskModel, reviews: Sequence[Review], vectors: Sequence[Tensor], size: int = 8
) -> Adapter:
    """An adapter for judging: a unit is a word, removed by deleting it from the text."""
    words = sorted({word for one in reviews for word in one.words})
    number = {word: place for place, word in enumerate(words)}
    rows = [tuple(number[word] for word in one.words) for one in reviews]
    known = dict(zip(rows, vectors, strict=True))
    instances = [Instance(torch.tensor(row), one.label) for row, one in zip(rows, reviews, strict=True)]
    model = Whole(Vectors(encoder, words, known), task)
    return Adapter(model, instances, selector=AttentionSelector(sites="task.attention*"), vectors="vectors", size=size)
