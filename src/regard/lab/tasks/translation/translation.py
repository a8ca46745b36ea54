"""Translation: captions (Multi30k), and a cipher whose alignment is known."""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from regard.data.task import Task
from regard.data.vocabulary import tokens
from regard.models.attention_factory import build_attention, by_row
from regard.models.attention_spec import parse_attention
from regard.models.beam_search import generate
from regard.models.builders import translator
from regard.models.decoder import ORDERS
from regard.models.training.experiment import Experiment, Measure, Result, answers
from regard.models.training.objectives import Objective, Sequences
from regard.models.training.trainer import Training
from regard.models.transformer import Transformer

from ...data.multi30k import TranslationTask, multi30k
from ...data.planted.cipher import cipher
from .bleu import bleu


def said_for(model: nn.Module, task: Task, device: str, longest: int, beam: int) -> list[list[str]]:
    """Generated words for each test example, in order."""
    assert task.target_words is not None
    found: list[list[str]] = [[]] * len(task.test)
    for chosen, batch, _ in answers(model, task.test, device, 64 if beam == 1 else 32):
        for place, words in zip(chosen, generate(model, batch, longest, beam), strict=True):
            found[place] = task.target_words.decode(words)
    return found


def sequence_model(task: Task, attention: str, order: str, **sizes: int | float) -> nn.Module:
    """A translator for the task's vocabularies, with a decoder of this order."""
    assert task.words is not None and task.target_words is not None
    words, target = len(task.words), len(task.target_words)
    if order == "transformer":
        if attention == "none":
            raise ValueError("order='transformer' has no summary to fall back on: attention 'none' is not possible.")
        spec = parse_attention("scaled_dot+uniform" if attention in ("uniform", "mean") else attention)
        return Transformer(
            words,
            target,
            int(sizes["dim"]),
            spec.heads if spec.heads > 1 else 4,
            dropout=float(sizes["dropout"]),
            score=spec.score,
            align=spec.alignment,
        )
    order = "parallel" if by_row(build_attention(attention, 1, 1)) else order
    return translator(words, target, attention, order=order, **sizes)  # type: ignore[arg-type]


class SequenceTask(Experiment):
    """Base of translation tasks, with the decoder's order; transformers need attention."""

    says = {"none": "none (last state of the encoder)"}  # noqa: RUF012

    def __init__(self, small: bool = False, **options: Any):
        super().__init__(small, **options)
        self.order = options.get("order", "parallel")
        if self.order not in (*ORDERS, "transformer"):
            raise ValueError(f"order={self.order!r}: expected one of {', '.join(ORDERS)}, transformer.")
        if self.order == "transformer":
            self.beside, self.usual = ("uniform",), "scaled_dot"


class Multi30k(SequenceTask):
    """English captions into German. order: bahdanau, luong, parallel (the fast one) or transformer."""

    name = "multi30k"
    drawn = False
    measures = {"bleu": Measure("BLEU", 1.0), "lower": Measure("BLEU, lower case", 1.0)}  # noqa: RUF012

    def load(self, seed: int) -> Task:
        to = self.options.get("to", "de")
        if not self.small:
            return multi30k(target=to, pieces=8000)
        task = multi30k(target=to, pieces=2000, lines=10_000)
        task.test = task.test[::2]  # generation takes longer than training: every second line
        return task

    def model(self, task: Task, attention: str) -> nn.Module:
        if self.small:
            return sequence_model(task, attention, self.order, dim=64, width=64, dropout=0.1)
        return sequence_model(task, attention, self.order, dim=256, width=256, dropout=0.4)

    def objective(self) -> Objective:
        return Sequences(smoothing=0.0 if self.small else 0.1)

    @property
    def training(self) -> Training:
        if self.small:
            return Training(epochs=4, batch=64, rate=4e-3, clip=1.0, warmup=100, schedule="cosine", patience=4)
        return Training(epochs=24, batch=128, rate=2e-3, clip=1.0, warmup=300, schedule="cosine", patience=8)

    def measure(self, model: nn.Module, task: Task, device: str) -> Result:
        assert isinstance(task, TranslationTask) and task.target is not None
        words = said_for(model, task, device, 80, 1 if self.small else int(self.options.get("beam", 5)))
        said = [task.target.join(line) for line in words]
        wanted = [task.references[one.id] for one in task.test]
        lengths = [len(tokens(task.sources[one.id])) for one in task.test]
        numbers = {"bleu": bleu(said, wanted), "lower": bleu(said, wanted, lower=True)}
        return Result(numbers, _by_length(lengths, said, wanted), said)

    def baselines(self, task: Task) -> dict[str, dict[str, float]]:
        assert isinstance(task, TranslationTask)
        wanted = [task.references[one.id] for one in task.test]
        ways = {
            "word for word, each by the word it occurs with most": word_for_word(task),
            "the source itself": [task.sources[one.id] for one in task.test],
        }
        return {
            name: {"bleu": bleu(said, wanted), "lower": bleu(said, wanted, lower=True)} for name, said in ways.items()
        }


def _by_length(lengths: Sequence[int], said: Sequence[str], wanted: Sequence[str], bins: int = 4) -> dict[str, float]:
    """BLEU of each quarter of the test lines, by the length of the source."""
    order = sorted(range(len(lengths)), key=lambda place: lengths[place])
    cuts = sorted({lengths[order[len(order) * part // bins]] for part in range(1, bins)})
    edges = [min(lengths) - 1, *cuts, max(lengths)]
    made = {}
    for low, high in itertools.pairwise(edges):
        inside = [place for place in order if low < lengths[place] <= high]
        if inside:
            made[f"{low + 1}-{high}"] = bleu([said[i] for i in inside], [wanted[i] for i in inside])
    return made


def word_for_word(task: TranslationTask, most: int = 10_000) -> list[str]:
    """Each source word by the target word of the largest Dice coefficient: 2 together / (one + other)."""
    assert task.source is not None and task.target is not None
    assert task.words is not None and task.target_words is not None
    one, other, together = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for pair in task.train[:most]:
        left = set(tokens(task.source.join(task.words.decode(pair.inputs))))
        right = set(tokens(task.target.join(task.target_words.decode(pair.target))))
        one.update(left)
        other.update(right)
        together.update((a, b) for a in left for b in right)
    best: dict[str, tuple[float, str]] = {}
    for (a, b), count in together.items():
        best[a] = max(best.get(a, (0.0, a)), (2 * count / (one[a] + other[b]), b))
    return [" ".join(best.get(word, (0.0, word))[1] for word in tokens(task.sources[pair.id])) for pair in task.test]


class Cipher(SequenceTask):
    """Translation into an artificial language. `exact`: sentences without errors; `truth`: words with the largest
    weight on their source word."""

    name = "cipher"
    measures = {"exact": Measure("whole sentences right, %"), "truth": Measure("looks at its source, %")}  # noqa: RUF012

    def load(self, seed: int) -> Task:
        if self.small:
            return cipher(words=20, shortest=3, longest=9, train=1500, val=200, test=200, seed=seed)
        return cipher(train=8000, val=500, test=500, longest=20, seed=seed)

    def model(self, task: Task, attention: str) -> nn.Module:
        size = 48 if self.small else 96
        return sequence_model(task, attention, self.order, dim=size, width=size, dropout=0.0)

    def objective(self) -> Objective:
        return Sequences(supervise=float(self.options.get("supervise", 0.0)))

    @property
    def training(self) -> Training:
        return Training(
            epochs=8 if self.small else 20,
            batch=32,
            rate=5e-3 if self.small else 2e-3,
            clip=1.0,
            schedule="cosine",
            patience=20,
        )

    def measure(self, model: nn.Module, task: Task, device: str) -> Result:
        assert task.target_words is not None
        said = said_for(model, task, device, 60, 1)
        exact = [words == task.target_words.decode(one.target) for words, one in zip(said, task.test, strict=True)]
        found = total = 0.0
        for _, batch, answer in answers(model, task.test, device):
            assert batch.gold is not None
            real = batch.gold.sum(-1) > 0
            if answer.maps:
                best = answer.mean_weights().argmax(-1)  # (B, t)
                found += float((batch.gold.gather(-1, best[..., None])[..., 0] * real).sum())
            total += float(real.sum())
        lengths = torch.tensor([one.length for one in task.test])
        middle = int(lengths.float().median())
        by = {}
        for name, inside in (
            (f"{int(lengths.min())}-{middle}", lengths <= middle),
            (f"{middle + 1}-{int(lengths.max())}", lengths > middle),
        ):
            if bool(inside.any()):
                by[name] = float(torch.tensor(exact)[inside].float().mean())
        scores = {"exact": [float(one) for one in exact]}
        return Result({"exact": sum(exact) / len(exact), "truth": found / total}, by, scores=scores)

    def baselines(self, task: Task) -> dict[str, dict[str, float]]:
        chance = sum(1 / one.length for one in task.test) / len(task.test)
        return {"a word at random": {"exact": 0.0, "truth": chance}}
