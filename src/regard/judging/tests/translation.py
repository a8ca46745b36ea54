"""A model that writes: how well it does, and whether its weights link the words that people link."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batch import Example, collate
from regard.data.task import batches
from regard.data.vocabulary import Vocabulary
from regard.models.beam_search import generate

from ..adapters.adapter import Adapter
from ..adapters.inputs import Inputs, Instance, NotApplicable
from ..alignment.error_rate import corpus_counts, error_rate, judge_alignment, judge_soft_alignment
from ..alignment.forced_decoding import forced_weights
from ..alignment.subword_alignment import Pieced
from ..alignment.word_links import argmax_links, diagonal_links
from ..artifacts import Grid, Histogram, add_artifact, collects_artifacts
from ..examples import SHOWN, typical
from ..finding import Finding
from ..registry import asks
from ..task_metrics import extrinsic

LONGEST = 80  # words that it may write


class Translator(Adapter):
    """A sequence model of regard.models and pairs of texts; gold (targets, sources) where links are known.

    examples  of regard.data: words of the source, words of the target with its end mark
    words     the vocabularies of both sides, for those who look at it
    pieced    of the same pairs, gold links of words where the model writes pieces of them

    Weights are those of forced decoding: the model is made to say the reference.
    """

    gives = "text"

    def __init__(
        self,
        model: nn.Module,
        examples: Sequence[Example],
        *,
        words: Vocabulary,
        target_words: Vocabulary,
        pieced: "Sequence[Pieced] | None" = None,
        size: int = 64,
    ):
        some = [
            Instance(one.inputs, words=tuple(words.words[i] for i in one.inputs.tolist()), name=str(one.id))
            for one in examples
        ]
        super().__init__(model, some, forward=_no_classes, size=size)
        self.examples, self.words, self.target_words = list(examples), words, target_words
        self.pieced = None if pieced is None else list(pieced)

    @property
    def judged(self) -> list[str]:
        return ["forced decoding"]

    def content(self, place: int) -> list[Tensor | None]:
        gold = self.examples[place].gold
        if self.pieced is not None:
            links = self.pieced[place].gold
            gold = torch.tensor([[*link, link in links.sure] for link in sorted(links.possible)])
        return [*super().content(place), self.examples[place].target, gold]

    def written(self) -> list[str]:
        """What the model writes for each source, the likeliest word at each step."""
        found = [""] * len(self)
        for chosen in batches(self.examples, self.size):
            batch = collate([self.examples[place] for place in chosen]).to(self.device)
            for place, numbers in zip(chosen, generate(self.model, batch, LONGEST, 1), strict=True):
                found[place] = " ".join(self.target_words.decode(numbers))
        return found


@asks("Do the weights agree with gold word alignments?", of="text", aspect="plausibility")
def alignment(adapter: Translator, *, seed: int = 0) -> list[Finding]:
    """Error rate, precision and recall of the links that the largest weights draw, then of the weights themselves,
    against gold links; beside the diagonal, random links and equal weights. Pairs without gold are not judged."""
    known = adapter.pieced
    linked = [
        known[place].gold.possible if known is not None else one.gold is not None and bool(one.gold.any())
        for place, one in enumerate(adapter.examples)
    ]
    chosen = [place for place, some in enumerate(linked) if some]
    if not chosen:
        raise NotApplicable("No pair carries gold links: whether the weights link the right words cannot be said.")
    weights, gold = forced_weights(adapter.model, [adapter.examples[place] for place in chosen], str(adapter.device))
    if known is not None:
        gold = [known[place].gold for place in chosen]
        weights = [known[place].by_word(w) for place, w in zip(chosen, weights, strict=True)]
    links = [argmax_links(one) for one in weights]
    if collects_artifacts():
        diagonal = [diagonal_links(len(pair.source), len(pair.target)) for pair in gold]
        rates = {
            name: np.array([error_rate(row[None]) for row in corpus_counts(some, gold)])
            for name, some in (("attention", links), ("diagonal", diagonal))
        }
        add_artifact(
            Histogram("Alignment error rate, pair by pair", "error rate", rates, "0: the links that people drew.")
        )
        spot = np.full(len(adapter), np.nan)
        spot[chosen] = rates["attention"]
        for place in typical(spot, SHOWN // 2):
            _show(adapter, place, weights[chosen.index(place)], float(spot[place]))
    return [*judge_alignment(links, gold, seed=seed), *judge_soft_alignment(weights, gold, seed=seed)]


@asks("How well does the model translate?", first=2, of="text", aspect="task")
def translation(adapter: Translator, *, seed: int = 0) -> list[Finding]:
    """BLEU and METEOR of what the model writes, beside the source itself."""
    wanted = [" ".join(adapter.target_words.decode(one.target)) for one in adapter.examples]
    source = [" ".join(one.shown) for one in adapter.instances]
    return extrinsic("translation", adapter.written(), wanted, baselines={"the source itself": source}, seed=seed)


def _show(adapter: Translator, place: int, weights: Tensor, rate: float) -> None:
    one, source = adapter.examples[place], adapter.instances[place]
    said, read = [adapter.target_words.words[i] for i in one.target[:-1].tolist()], list(source.shown)
    if adapter.pieced is not None:
        said, read = (list(side) for side in (adapter.pieced[place].gold.target, adapter.pieced[place].gold.source))
    says = (
        f"Rows are words that were written, columns those of the source; its error rate {rate:.2f} is near the median."
    )
    add_artifact(Grid(f"A typical pair: {source.name}", said, read, list(weights), "weight", says, "written", "read"))


def _no_classes(model: nn.Module, inputs: Inputs) -> Any:
    raise NotApplicable("The model writes texts: it gives no classes.")
