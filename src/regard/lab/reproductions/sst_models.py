"""SST judged as Jain & Wallace and Wiegreffe & Pinter did, over seeds: their recipe, as their code has it.

A BiLSTM of 128 in each direction between a start and an end mark that nobody attends to, a scorer v . tanh(W h + b) of
half its width (or a dot with one learned vector over sqrt(d)), Adam (amsgrad) at 0.001 with 1e-5 of each weight in the
gradient of a summed loss (none for attention), batches of 32, positive examples weighed by balance, sentences of more
than five words. Eight epochs at most, of which the best by the area under the ROC curve on validation is kept, never
the first. Training ends two epochs after the best.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.scores import QueryFree
from regard.data.batch import Example
from regard.data.task import Task
from regard.data.vocabulary import SPECIAL, Vocabulary
from regard.judging.adapters.adapter import Adapter
from regard.judging.retraining.retraining import Retraining
from regard.judging.tests.adversarial import KEPT, OPTIMISED, seek
from regard.judging.tests.correlation import taus
from regard.models import features, output_heads, queries
from regard.models.guided_attention import GoldQuery, GuidedAttention
from regard.models.task_model import TaskModel
from regard.models.training.objectives import Ranking
from regard.models.training.trainer import Training
from regard.nn.attend import Attend
from regard.recording.pretrained import load_model

from ..data.sst import sst

SHORTEST, WIDTH, BATCH = 6, 128, 32
TRAINING = Training(epochs=8, batch=BATCH, rate=1e-3, clip=float("inf"), patience=2)
DIM, SCALE = 128, 2.5  # principal components of the word-piece means, and what they are multiplied by


def retraining(vectors: str = "minilm", folder: Path | None = None, device: str = "cpu") -> Retraining:
    """The recipe on SST; vectors: "minilm", or "random" (drawn from N(0, 1) for each seed)."""
    if vectors not in ("minilm", "random"):
        raise ValueError(f"retraining(vectors={vectors!r}): expected 'minilm' or 'random'.")
    task = longer(sst(phrases=False))
    assert task.words is not None
    known = piece_means(task.words) if vectors == "minilm" else None
    positive = sum(int(one.target) for one in task.train)
    balance = len(task.train) / positive - 1
    return Retraining(
        task,
        builder(len(task.words), known),
        TRAINING,
        lambda: Ranking(balance),
        optimiser,
        earliest=2,
        device=device,
        folder=None if folder is None else folder / vectors,
    )


def longer(task: Task, shortest: int = SHORTEST) -> Task:
    """Sentences of so many words or more."""
    train, val, test = ([one for one in part if one.length >= shortest] for part in (task.train, task.val, task.test))
    return replace(task, train=train, val=val, test=test)


def piece_means(words: Vocabulary, dim: int = DIM, scale: float = SCALE) -> Tensor:
    """(words, dim): of each word the mean vector of its pieces in MiniLM's table, the first principal components of all
    of them, larger by `scale`; 0 for the special words."""
    model, tokenizer = load_model("minilm")
    table = model.get_input_embeddings().weight.detach()
    pieces = tokenizer(list(words.words[len(SPECIAL) :]), add_special_tokens=False)["input_ids"]
    means = torch.stack([table[some].mean(0) if some else table.new_zeros(table.shape[1]) for some in pieces])
    means = means - means.mean(0)
    _, _, axes = torch.linalg.svd(means, full_matrices=False)
    axes = axes * axes.gather(1, axes.abs().argmax(1, keepdim=True)).sign()  # an axis has no direction of its own
    made = table.new_zeros(len(words), dim)
    made[len(SPECIAL) :] = scale * means @ axes[:dim].T
    return made


def builder(words: int, vectors: Tensor | None, dim: int = 300) -> Callable[[str, bool], TaskModel]:
    def build(attention: str, context: bool) -> TaskModel:
        wide = dim if vectors is None else vectors.shape[1]
        before = features.Embedded(words, wide, deviation=1.0, vectors=vectors)
        seen: nn.Module
        if context:
            seen = features.Recurrent(before, WIDTH, "lstm", marks=True)
            if vectors is not None and seen.marks is not None:
                nn.init.zeros_(seen.marks)  # as a word that has no vector
        else:
            seen = features.Alone(before, WIDTH)
        d: int = seen.dim
        said = output_heads.Classes(d, 2)
        if attention == "given":
            return TaskModel(seen, GoldQuery(), GuidedAttention(d), said)
        if attention not in ("additive", "dot", "uniform"):
            raise ValueError(f"attention={attention!r}: expected 'additive', 'dot', 'uniform' or 'given'.")
        part = Attend(
            d,
            d,
            "scaled_dot" if attention == "dot" else QueryFree(d, d // 2),
            "uniform" if attention == "uniform" else "softmax",
        )
        return TaskModel(seen, queries.Learned(d), part, said)

    return build


def optimiser(model: nn.Module) -> torch.optim.Optimizer:
    """Adam as the authors have it. Their loss is a sum over a batch and ours its mean: decay and epsilon are smaller by
    as much, which is the same steps."""
    own = {
        name: [p for place, p in model.named_parameters() if (".attention." in f".{place}") == name]
        for name in (True, False)
    }
    groups = [{"params": own[True], "weight_decay": 0.0}, {"params": own[False], "weight_decay": 1e-5 / BATCH}]
    return torch.optim.Adam(groups, lr=TRAINING.rate, eps=1e-8 / BATCH, amsgrad=True, fused=True)


def measured(
    task: Task, every: int = 0, seed: int = 0, on_progress: Callable[[str], None] = lambda now: None
) -> Callable[[nn.Module], dict[str, np.ndarray]]:
    """What Jain & Wallace measure of a model on test sentences, all words counted: tau and p (n, 5), and with `every`
    above 0 the adversary's largest divergence within 0.05 and 0.01 on every `every`-th sentence."""

    def adapter(model: nn.Module, test: Sequence[Example], what: str) -> Adapter:
        made = Adapter(model, test)
        made.on_progress = lambda done, of: on_progress(f"{what}: {done} of {of}")
        return made

    def of(model: nn.Module) -> dict[str, np.ndarray]:
        on_progress("tau")
        tau, p = taus(adapter(model, task.test, "tau"), ends=True, seed=seed)
        made = {"tau": tau, "p": p}
        if every:
            on_progress("adversary")
            found = seek(adapter(model, task.test[::every], "adversary"), seed=seed)
            made |= {
                "far": found.best(KEPT),
                "far tight": found.best(OPTIMISED),
                "limit": found.limit,
                "random": np.where(found.start_moved <= KEPT, found.start, 0.0).max(1),
            }
        return made

    return of
