"""A user's sentence pairs: translation, and alignment error rate of attention."""

import math
from functools import cached_property

import torch
from torch import Tensor, nn

from regard.data.aligned_pair import AlignedPair
from regard.data.batch import Example
from regard.data.readers.pharaoh import read_alignments, read_pairs
from regard.data.readers.splits import drawn_parts
from regard.data.task import Task
from regard.data.vocabulary import Vocabulary
from regard.judging.alignment.error_rate import corpus_counts, error_rate
from regard.judging.alignment.forced_decoding import forced_weights
from regard.judging.alignment.word_links import argmax_links, diagonal_links
from regard.models.training.experiment import Measure, Result
from regard.models.training.objectives import Objective, Sequences
from regard.models.training.train_config import Training

from .bleu import bleu
from .translation import SequenceTask, said_for, sequence_model

BATCH = 32
STEPS = {True: 400, False: 3000}  # by `small`


class OwnTranslation(SequenceTask):
    """A user's sentence pairs, words separated by blanks.

    data    the path of the pairs, "a house ||| ein Haus" a line
    gold    the path of gold word alignments in Pharaoh's format, line by line; "" for none
    first   index of the first word in gold, 0 or 1
    split   the seed of the random split: 70, 15 and 15 %
    """

    name = "translation"
    drawn = False
    measures = {"bleu": Measure("BLEU", 1.0)}  # noqa: RUF012

    def __init__(
        self,
        small: bool = False,
        data: str = "",
        gold: str = "",
        first: int = 0,
        order: str = "parallel",
        split: int = 0,
    ):
        super().__init__(small, data=data, gold=gold, first=first, order=order, split=split)
        if not data:
            raise ValueError(
                "translation needs data: the path of a file with a pair a line, such as regard train translation "
                "--data pairs.txt"
            )
        self.source = data
        if len(self.pairs) < 3:
            raise ValueError(f"{data} has {len(self.pairs)} pairs, expected three at least.")
        if gold:
            self.measures = {**self.measures, "aer": Measure("alignment error rate, %", higher=False)}

    @cached_property
    def pairs(self) -> list[AlignedPair]:
        """The pairs with their links."""
        if self.options["gold"]:
            return read_alignments(self.options["gold"], self.source, self.options["first"])
        none: frozenset[tuple[int, int]] = frozenset()
        return [AlignedPair(source, target, none, none) for source, target in read_pairs(self.source)]

    def load(self, seed: int) -> Task:
        sides = [(pair.source, pair.target) for pair in self.pairs]
        parts = drawn_parts([0] * len(sides), self.options["split"], sides)
        words, targets = (
            Vocabulary.of(pair[side] for pair, part in zip(sides, parts, strict=True) if part == 0) for side in (0, 1)
        )
        made: list[list[Example]] = [[], [], []]
        for place, (pair, part) in enumerate(zip(self.pairs, parts, strict=True)):
            gold = _gold(pair) if self.options["gold"] else None
            target = targets.encode(pair.target, end=True)
            made[part].append(Example(words.encode(pair.source), target, gold, id=place))
        return Task("pairs", *made, words=words, target_words=targets)

    def model(self, task: Task, attention: str) -> nn.Module:
        size = 64 if self.small else 128
        return sequence_model(task, attention, self.order, dim=size, width=size, dropout=0.1)

    def objective(self) -> Objective:
        return Sequences()

    @property
    def training(self) -> Training:
        epochs = min(max(math.ceil(STEPS[self.small] / math.ceil(0.7 * len(self.pairs) / BATCH)), 4), 60)
        return Training(epochs=epochs, batch=BATCH, rate=3e-3, clip=1.0, schedule="cosine", patience=epochs)

    def measure(self, model: nn.Module, task: Task, device: str) -> Result:
        said = [" ".join(words) for words in said_for(model, task, device, 100, 1)]
        numbers = {"bleu": bleu(said, self._wanted(task))}
        if self.options["gold"] and getattr(model, "attention", None) is not None:
            weights, gold = forced_weights(model, task.test, device)
            numbers["aer"] = error_rate(corpus_counts([argmax_links(one) for one in weights], gold))
        return Result(numbers, texts=said)

    def baselines(self, task: Task) -> dict[str, dict[str, float]]:
        source = [" ".join(self.pairs[one.id].source) for one in task.test]
        made = {"the source itself": {"bleu": bleu(source, self._wanted(task))}}
        if self.options["gold"]:
            some = [self.pairs[one.id] for one in task.test]
            links = [diagonal_links(len(pair.source), len(pair.target)) for pair in some]
            made["the diagonal"] = {"aer": error_rate(corpus_counts(links, some))}
        return made

    def _wanted(self, task: Task) -> list[str]:
        return [" ".join(self.pairs[one.id].target) for one in task.test]


def _gold(pair: AlignedPair) -> Tensor:
    """(t, n): 1 for a sure link, a half for a possible one; the last row is that of the end token."""
    gold = torch.zeros(len(pair.target) + 1, len(pair.source))
    for source, target in pair.possible:
        gold[target, source] = 1.0 if (source, target) in pair.sure else 0.5
    return gold
