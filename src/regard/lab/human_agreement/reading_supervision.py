"""Supervising the attention of a sentence classifier with human reading times of other sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import torch

from regard.data.batch import Example
from regard.data.readers.reading_times import Reading
from regard.data.task import Task
from regard.data.vocabulary import Vocabulary
from regard.judging.finding import Finding
from regard.judging.plausibility.fixations import rank_correlation
from regard.judging.progress import EpochCallback, ProgressCallback, epoch_progress, no_progress
from regard.judging.statistics.comparison import compare
from regard.judging.statistics.intervals import estimate, stream
from regard.judging.wording import amount, more
from regard.models.builders import text_classifier
from regard.models.task_model import TaskModel
from regard.models.training.experiment import answers
from regard.models.training.objectives import Classification
from regard.models.training.trainer import Trainer, Training

from ..tasks.texts.text_classification import bag_of_words
from .reading_times import bare

TEST = "reading times as a teacher"
NOBODY = -100  # ignore_index of cross-entropy: sentences without a class
WAYS = ("nothing", "reading times", "shuffled reading times")
TRAINING = Training(epochs=5, batch=32, rate=2e-3, schedule="cosine", patience=5)


@dataclass(frozen=True)
class JointTraining:
    """Training of a classifier. weight: of the loss on attention; dim: of word embeddings and states."""

    weight: float = 1.0
    training: Training = TRAINING
    dim: int = 64
    device: str = "cpu"


def judge_joint(
    task: Task,
    readings: Sequence[Reading],
    *,
    ways: Sequence[str] = WAYS,
    seeds: int = 3,
    held: int = 500,
    how: JointTraining | None = None,
    seed: int = 0,
    resamples: int = 1000,
    out: "Path | None" = None,
    on_progress: ProgressCallback = no_progress,
) -> list[Finding]:
    """Accuracy of a BiLSTM whose attention is also supervised with reading times of another text.

    Every epoch has sentences with a class, for the task loss, and sentences with reading times, for the loss on
    attention. *shuffled reading times* are a placebo: permuted within each sentence. Measured: accuracy, its gain
    over the unsupervised classifier, and the correlation of attention with reading times on `held` test sentences.
    Barrett et al. 2018.

    out           a folder for checkpoints: interrupted runs resume
    on_progress   callback(description, classifiers trained, total)
    """
    unknown = [way for way in ways if way not in WAYS]
    if unknown or ways[:1] != (*WAYS[:1],):
        raise ValueError(f"judge_joint(ways={tuple(ways)}): expected 'nothing' first, then some of {WAYS[1:]}.")
    if task.words is None or not 0 < held < len(readings):
        raise ValueError(
            f"judge_joint(held={held}): expected fewer than the {len(readings)} sentences that were read, "
            "and a task whose inputs are words."
        )
    how = how or JointTraining()
    order = stream(seed, "held out").permutation(len(readings))
    rest, kept = ([readings[i] for i in some] for some in (order[held:], order[:held]))
    right: dict[str, list[np.ndarray]] = {}
    agrees: dict[str, list[list[float]]] = {}
    for done, (way, one) in enumerate(product(ways, range(seed, seed + seeds))):
        on_progress(f"taught {way}, seed {one}", done, len(ways) * seeds)
        epochs = epoch_progress(on_progress, f"taught {way}, seed {one}", done, len(ways) * seeds, how.training)
        train = [_unmarked(x) for x in task.train] + as_read(rest, task.words, way, one)
        folder = None if out is None else out / f"{way.replace(' ', '-')}-of-{len(task.train)}-seed-{one}"
        model = _taught(task, train, one, how, way, folder, epochs)
        right.setdefault(way, []).append(_right(model, task.test, how.device))
        agrees.setdefault(way, []).append(_agreement(model, kept, task.words, how.device))
    on_progress("bag of words", 0, None)
    bag = bag_of_words(task.train, task.test)
    return _findings(
        {way: np.array(some) for way, some in right.items()},
        {way: np.array(some) for way, some in agrees.items()},
        bag,
        seed,
        resamples,
    )


def _unmarked(one: Example) -> Example:
    return Example(one.inputs, one.target, gold=torch.zeros(one.length), id=one.id)


def as_read(readings: Sequence[Reading], words: Vocabulary, way: str, seed: int) -> list[Example]:
    """Examples with reading times as gold weights, without a class."""
    if way == "nothing":
        return []
    draw = stream(seed, "shuffled")
    made = []
    for place, one in enumerate(readings):
        share = draw.permutation(one.share) if way == "shuffled reading times" else one.share
        text = words.encode([bare(word) for word in one.words])
        made.append(Example(text, torch.tensor(NOBODY), gold=torch.from_numpy(share.copy()).float(), id=place))
    return made


def _taught(
    task: Task,
    train: list[Example],
    seed: int,
    how: JointTraining,
    way: str,
    folder: "Path | None",
    epochs: EpochCallback,
) -> TaskModel:
    assert task.words is not None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = text_classifier(len(task.words), task.classes, dim=how.dim, width=how.dim)
    objective = Classification(supervise=0.0 if way == "nothing" else how.weight)
    Trainer(how.training, how.device, folder=folder, on_step=epochs).fit(model, objective, train, task.val, seed)
    return model.to(how.device).eval()


def _right(model: TaskModel, test: Sequence[Example], device: str) -> np.ndarray:
    found = np.zeros(len(test))
    for places, batch, answer in answers(model, test, device):
        found[places] = (answer.out.argmax(-1) == batch.target).float().cpu().numpy()
    return found


def _agreement(model: TaskModel, readings: Sequence[Reading], words: Vocabulary, device: str) -> list[float]:
    """Spearman's rho of attention and reading times, a sentence at a time."""
    found = [float("nan")] * len(readings)
    for places, _, answer in answers(model, as_read(readings, words, "reading times", 0), device):
        for place, row in zip(places, answer.weights()[:, 0, 0].cpu().numpy(), strict=True):
            share = readings[place].share
            found[place] = rank_correlation(row[: len(share)], share)
    return found


def _findings(
    right: dict[str, np.ndarray], agrees: dict[str, np.ndarray], bag: float, seed: int, resamples: int
) -> list[Finding]:
    made = []
    for way, table in right.items():
        found = estimate(table, seeds=True, seed=seed, resamples=resamples)
        says = f"{found.value:.1%} of the sentences are judged rightly."
        made.append(
            Finding.of(
                found,
                name=f"accuracy, taught {way}",
                says=says,
                better="higher",
                test=TEST,
                unit="accuracy",
                baselines={"bag of words": bag},
            )
        )
    for way, table in list(right.items())[1:]:
        found = compare(table - right["nothing"], {"no gain": 0.0}, seeds=True, seed=seed, resamples=resamples)
        says = f"Taught {way}, a classifier is right on {more(found.value)} sentences."
        made.append(
            Finding.of(
                found,
                name=f"gain in accuracy, taught {way}",
                says=says,
                better="higher",
                test=TEST,
                unit="accuracy gained",
            )
        )
    for way, table in agrees.items():
        found = compare(table, {"chance": 0.0}, seeds=True, seed=seed, resamples=resamples)
        made.append(
            Finding.of(
                found,
                name=f"agreement with readers, taught {way}",
                better="higher",
                test=TEST,
                says="undefined: on no sentence held out do attention and reading times both vary."
                if found.value is None
                else f"On sentences held out, attention and reading times correlate by {amount(found.value, 2)}.",
                unit="Spearman rho",
            )
        )
    return made
