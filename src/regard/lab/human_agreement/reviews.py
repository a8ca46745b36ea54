"""ERASER Movies: plausibility and faithfulness of attention, with and without supervision by human rationales."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.data.batch import Example
from regard.data.vocabulary import Vocabulary
from regard.judging.adapters.adapter import Adapter
from regard.judging.attribution.gradients import gradient
from regard.judging.attribution.importance import attention
from regard.judging.finding import Better, Finding
from regard.judging.plausibility.overlap import (
    auprc,
    macro_f1,
    macro_span_f1,
    span_counts,
    spans,
    token_counts,
    top_marks,
)
from regard.judging.progress import ProgressCallback, epoch_progress, nested_progress, no_progress
from regard.judging.statistics.comparison import compare
from regard.judging.statistics.intervals import stream
from regard.judging.tests.faithfulness import erased_by
from regard.judging.wording import amount, more
from regard.models.task_model import TaskModel
from regard.models.training.experiment import answers

from ..data.movies import Review
from .review_model import ReviewTraining, adapter_of, examples, taught
from .vector_cache import vectors_of
from .word_encoder import Encoder

TEST = "reviews"
PUBLISHED = {  # DeYoung et al. 2020, attention of BERT + LSTM; and a rerun of their code by others
    "AUPRC": {"BERT, published": 0.417, "BERT, rerun": 0.463, "random, published": 0.259},
    "comprehensiveness": {"BERT, published": 0.129, "BERT, rerun": 0.223, "random, published": 0.058},
    "sufficiency": {"BERT, published": 0.097, "BERT, rerun": 0.141, "random, published": 0.330},
}
ERASED: dict[str, Better] = {"comprehensiveness": "higher", "sufficiency": "lower"}  # of one seed


def judge_reviews(
    encoder: Encoder,
    reviews: Mapping[str, Sequence[Review]],
    *,
    supervise: Sequence[float] = (0.0, 0.1, 1.0),
    seeds: int = 3,
    learn: int = 0,
    erase: int = 100,
    how: ReviewTraining | None = None,
    seed: int = 0,
    resamples: int = 1000,
    out: "Path | None" = None,
    on_progress: ProgressCallback = no_progress,
) -> list[Finding]:
    """Classifiers with and without supervised attention, each from several seeds.

    accuracy                   against a bag of words, and the paired gain over the unsupervised classifier
    AUPRC, token F1, IOU-F1    of attention on exhaustively annotated reviews; baselines: gradient of the same model,
                               chance, word position
    comprehensiveness,         ERASER's, of one seed, by deletion and re-encoding; baselines: gradient, random erasure.
    sufficiency                `erase` test reviews, evenly spaced; 0 skips them

    supervise   weights of the loss on attention; 0, unsupervised, comes first
    learn       number of training reviews, evenly spaced; 0 for all
    out         a folder for embeddings and checkpoints: interrupted runs resume
    on_progress   callback(description, done, total)
    """
    if not supervise or supervise[0] != 0.0 or len(set(supervise)) != len(supervise):
        raise ValueError(f"judge_reviews(supervise={tuple(supervise)}): expected 0 first and other weights after it.")
    how = how or ReviewTraining()
    parts = {name: list(some) for name, some in reviews.items()}
    data = {}
    for name, some in parts.items():
        on_progress(_vectors(name), 0, len(some))
        kept = None if out is None else out / "vectors"
        vectors = vectors_of(encoder, [one.words for one in some], name, kept, partial(on_progress, _vectors(name)))
        data[name] = examples(some, vectors)
    chosen = _evenly(len(parts["train"]), learn)
    train = [data["train"][place] for place in chosen]
    runs: dict[float, list[TaskModel]] = {}
    for done, (weight, one) in enumerate(product(supervise, range(seed, seed + seeds))):
        on_progress(f"{_named(weight)}, seed {one}", done, len(supervise) * seeds)
        epochs = epoch_progress(
            on_progress, f"{_named(weight)}, seed {one}", done, len(supervise) * seeds, how.training
        )
        recipe = ReviewTraining(weight, how.training, how.device)
        folder = None if out is None else out / f"supervise-{weight}-of-{len(train)}-seed-{one}"
        runs.setdefault(weight, []).append(taught(train, data["val"], one, recipe, folder, epochs))
    on_progress("bag of words", 0, None)
    bag = bag_accuracy([parts["train"][place] for place in chosen], parts["test"])
    made = _accuracies(runs, data["test"], bag, how.device, seed, resamples)
    on_progress("attention beside what people marked", 0, None)
    made += _overlaps(runs, encoder, parts["test"], data["test"], seed, resamples)
    places = _evenly(len(parts["test"]), erase) if erase else []
    for done, weight in enumerate(supervise if places else ()):
        texts, vectors = [parts["test"][i] for i in places], [data["test"][i].inputs for i in places]
        adapter = adapter_of(encoder, runs[weight][0], texts, vectors)
        whole = nested_progress(on_progress, done * len(places), len(supervise) * len(places))
        adapter.on_progress = partial(whole, f"words erased, {_named(weight)}")
        adapter.on_progress(0, len(places))
        made += _erasures(adapter, _named(weight), seed, resamples)
    return made


def bag_accuracy(train: Sequence[Review], test: Sequence[Review]) -> float:
    """Logistic regression on TF-IDF of unigrams and bigrams."""
    from ..tasks.texts.text_classification import bag_of_words

    words = Vocabulary.of((one.words for one in train), least=1)
    both = [[Example(words.encode(one.words), torch.tensor(one.label)) for one in some] for some in (train, test)]
    return bag_of_words(*both)


def _vectors(name: str) -> str:
    return f"vectors of the words, {name}"


def _evenly(count: int, wanted: int) -> list[int]:
    """`wanted` evenly spaced indices; all for 0."""
    return [place * count // wanted for place in range(wanted)] if 0 < wanted < count else list(range(count))


def _named(weight: float) -> str:
    return "not taught where to look" if weight == 0 else f"taught where to look (weight {weight:g})"


def _accuracies(
    runs: Mapping[float, Sequence[TaskModel]],
    test: Sequence[Example],
    bag: float,
    device: str,
    seed: int,
    resamples: int,
) -> list[Finding]:
    right = {weight: np.array([_right(model, test, device) for model in models]) for weight, models in runs.items()}
    plain = next(iter(right))
    made = []
    for weight, table in right.items():
        beside = {} if weight == plain else {"not taught": right[plain]}
        found = compare(table, beside, seeds=True, seed=seed, resamples=resamples)
        made.append(
            Finding.of(
                found,
                name=f"accuracy, {_named(weight)}",
                better="higher",
                test=TEST,
                unit="accuracy",
                says=f"{found.value:.1%} of the reviews are judged rightly.",
                baselines={"bag of words": bag},
            )
        )
    for weight, table in right.items():
        if weight != plain:
            found = compare(table - right[plain], {"no gain": 0.0}, seeds=True, seed=seed, resamples=resamples)
            says = f"Taught where to look, a reader is right on {more(found.value)} reviews."
            made.append(
                Finding.of(
                    found,
                    name=f"gain in accuracy, {_named(weight)}",
                    says=says,
                    better="higher",
                    test=TEST,
                    unit="accuracy gained",
                )
            )
    return made


def _right(model: TaskModel, test: Sequence[Example], device: str) -> list[float]:
    found = np.zeros(len(test))
    for places, batch, answer in answers(model, test, device, 16):
        found[places] = (answer.out.argmax(-1) == batch.target).float().cpu().numpy()
    return found.tolist()


def _overlaps(
    runs: Mapping[float, Sequence[TaskModel]],
    encoder: Encoder,
    reviews: Sequence[Review],
    test: Sequence[Example],
    seed: int,
    resamples: int,
) -> list[Finding]:
    full = [place for place, one in enumerate(reviews) if one.exhaustive and one.marks.any()]
    texts, vectors = [reviews[i] for i in full], [test[i].inputs for i in full]
    marks = [one.marks for one in texts]
    share = float(np.mean([one.mean() for one in marks]))
    draw = stream(seed, "random weights")
    trivial: dict[str, list[np.ndarray]] = {
        "random": [draw.random(len(one)) for one in marks],
        "last words": [np.arange(len(one)) for one in marks],
    }
    beside = {name: _measured(some, marks, share) for name, some in trivial.items()}
    made = []
    for weight, models in runs.items():
        tables: dict[str, list[dict[str, np.ndarray]]] = {"attention": [], "gradient": []}
        for model in models:
            adapter = adapter_of(encoder, model, texts, vectors)
            for name, measure in (("attention", attention), ("gradient", gradient)):
                tables[name].append(_measured(_by_text(adapter, measure), marks, share))
        for what, statistic in STATISTICS.items():
            table = {name: np.array([one[what] for one in some]) for name, some in tables.items()}
            others = {"gradient": table["gradient"]}
            others |= {name: np.broadcast_to(some[what], table["attention"].shape) for name, some in beside.items()}
            found = compare(table["attention"], others, statistic, seeds=True, seed=seed, resamples=resamples)
            made.append(
                Finding.of(
                    found,
                    name=f"{what}, {_named(weight)}",
                    better="higher",
                    test=TEST,
                    unit=what,
                    says=f"Attention and what people marked: {what} {found.value:.2f}.",
                    baselines=PUBLISHED.get(what, {}),
                )
            )
    return made


STATISTICS: dict[str, Callable[[np.ndarray], float]] = {
    "AUPRC": lambda x: float(np.nanmean(x)),
    "token F1": macro_f1,
    "IOU-F1": macro_span_f1,
}


def _measured(weights: Sequence[np.ndarray], marks: Sequence[np.ndarray], share: float) -> dict[str, np.ndarray]:
    found = [top_marks(one, share) for one in weights]
    pairs = list(zip(found, marks, strict=True))
    return {
        "AUPRC": np.array([auprc(w, g) for w, g in zip(weights, marks, strict=True)]),
        "token F1": np.array([token_counts(f, g) for f, g in pairs]),
        "IOU-F1": np.array([span_counts(spans(f), spans(g)) for f, g in pairs]),
    }


def _by_text(adapter: Adapter, measure: Callable[..., Tensor]) -> list[np.ndarray]:
    return adapter.each(
        lambda inputs: [
            row[real].cpu().numpy() for row, real in zip(measure(adapter, inputs), inputs.units, strict=True)
        ]
    )


def _erasures(adapter: Adapter, name: str, seed: int, resamples: int) -> list[Finding]:
    measures = {"attention": attention, "gradient": gradient}
    tables = erased_by(adapter, measures, seed=seed, draws=5, flips=False)
    made = []
    for column, (what, better) in enumerate(ERASED.items()):
        beside = {of: table[..., column] for of, table in tables.items() if of != "attention"}
        found = compare(tables["attention"][:, column], beside, scale=(-1.0, 1.0), seed=seed, resamples=resamples)
        says = f"Attention's {what} is {amount(found.value)}, that of random words {amount(found.baselines['random'])}."
        made.append(
            Finding.of(
                found,
                name=f"{what}, {name}",
                says=says,
                better=better,
                test=TEST,
                unit=what,
                baselines=PUBLISHED[what],
            )
        )
    return made
