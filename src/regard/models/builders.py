"""Ready models: the four parts put together for a task, with any attention by name (`looking.look`)."""

from typing import Any

from torch import nn

from ..nn.attention import Attention
from ..nn.feature import ParallelCoAttention
from ..nn.graph import GATv2Conv
from . import features, outputs, queries
from .attention_factory import look
from .attention_spec import way_of
from .decoder import Readout, Sequencer, Speaker
from .task_model import TaskModel
from .two_inputs import TwoInputs


def text_classifier(
    words: int,
    classes: int,
    attention: str = "additive",
    dim: int = 128,
    width: int = 128,
    kind: str = "lstm",
    dropout: float = 0.3,
) -> TaskModel:
    """A recurrent net in both directions, one learned question that looks at its states, classes."""
    seen = features.Recurrent(features.Embedded(words, dim, dropout), width, kind, dropout=dropout)
    asked = queries.Learned(seen.dim)
    return TaskModel(
        seen, asked, look(attention, seen.dim, seen.dim), outputs.Classes(seen.dim, classes, dropout=dropout)
    )


def document_classifier(
    words: int, classes: int, attention: str = "additive", dim: int = 100, width: int = 50, dropout: float = 0.3
) -> TaskModel:
    """Words into sentences, sentences into a document, each by attention of its own (hierarchical attention)."""
    seen = features.Documents(words, dim, width, attention, dropout)
    said = outputs.Classes(seen.dim, classes, dropout=dropout)
    return TaskModel(seen, queries.Learned(seen.dim), look(attention, seen.dim, seen.dim), said)


def retriever(keys: int, values: int, attention: str = "additive", dim: int = 32) -> TaskModel:
    """The question looks at a table of keys and values: the smallest model of all four parts with a second input."""
    seen, asked = features.Pairs((keys, values), dim), queries.Second(dim, words=keys)
    return TaskModel(seen, asked, look(attention, dim, dim), outputs.Classes(dim, values, hidden=2 * dim))


def pair_classifier(
    words: int,
    classes: int,
    attention: str = "bilinear",
    dim: int = 64,
    width: int = 64,
    dropout: float = 0.2,
    second_words: int | None = None,
) -> TwoInputs:
    """Two texts that look at each other (parallel co-attention, Lu et al. 2016); attention is its affinity."""
    first, second = (
        features.Recurrent(features.Embedded(count, dim, dropout), width, dropout=dropout)
        for count in (words, second_words or words)
    )
    part = ParallelCoAttention(first.dim, second.dim, score=attention)
    return TwoInputs(first, second, part, outputs.Classes(first.dim + second.dim, classes, dropout=dropout))


def translator(
    words: int,
    target_words: int,
    attention: str = "additive",
    dim: int = 128,
    width: int = 128,
    order: str = "bahdanau",
    dropout: float = 0.2,
    layers: int = 1,
) -> Sequencer:
    """A recurrent encoder in both directions and a recurrent decoder that looks at it before or after each step.

    Bahdanau et al. 2015: attention="additive", order="bahdanau". Luong et al. 2015: attention="general" (global) or
    "general+local_predictive", order="luong".
    """
    seen = features.Embedded(words, dim, dropout, deviation=1.0)
    return _sequencer(seen, target_words, attention, dim, width, order, dropout, layers)


def spoken_recogniser(
    bands: int,
    target_words: int,
    attention: str = "additive",
    dim: int = 64,
    width: int = 64,
    order: str = "luong",
    dropout: float = 0.2,
) -> Sequencer:
    """Frames of a sound, thinned twice on their way through three recurrent layers, and a decoder that says words."""
    frames = features.Frames(bands, dim)
    return _sequencer(frames, target_words, attention, 32, width, order, dropout, 3, thin=2)


def _sequencer(
    before: nn.Module,
    target_words: int,
    attention: str,
    dim: int,
    width: int,
    order: str,
    dropout: float,
    layers: int,
    thin: int = 1,
) -> Sequencer:
    seen = features.Recurrent(before, width, "gru", layers, dropout=dropout, thin=thin)
    state = 2 * width  # as wide as the states it looks at, so that every score fits
    fed = seen.dim if order == "bahdanau" else width
    asked = Speaker(target_words, dim, state, seen.dim, fed, order, dropout)
    said = Readout(state, seen.dim, dim, width, target_words, dropout)
    return Sequencer(seen, asked, look(attention, state, seen.dim), said)


def patch_classifier(classes: int, attention: str = "additive", dim: int = 64) -> TaskModel:
    """Patches of an image by convolutions, and one learned question that finds the patch that matters."""
    seen = features.Filtered(dim)
    attention = "uniform" if attention == "none" else attention
    said = outputs.Classes(dim, classes, hidden=2 * dim, norm=True)
    return TaskModel(seen, queries.Learned(dim), look(attention, dim, dim), said)


def image_restorer(
    side: int, attention: str = "scaled_dot", patch: int = 4, dim: int = 64, heads: int = 4
) -> TaskModel:
    """Every patch asks all patches what such a patch looks like, and is painted anew from itself and the answer."""
    way = way_of("scaled_dot+uniform" if attention in ("uniform", "mean", "none") else attention)
    seen = features.Patches(side, patch, dim, around=4, hidden=2 * dim)
    part = Attention(dim, way.heads if way.heads > 1 else heads, score=way.score, align=way.alignment)
    return TaskModel(seen, queries.Itself(), part, outputs.Pixels(dim, side, patch))


def graph_classifier(
    d: int,
    classes: int,
    attention: str = "additive",
    dim: int = 64,
    layers: int = 3,
    heads: int = 4,
    dropout: float = 0.1,
    layer: Any = GATv2Conv,
) -> TaskModel:
    """Layers of graph attention, then one learned question over the nodes of each graph; classes=0: a number.

    "uniform", "mean": means of neighbours and of nodes. "none": no edges at all, and the mean of the nodes.
    """
    plain = attention in ("uniform", "mean", "none")
    options: dict[str, Any] = {"align": "uniform"} if plain else {}
    layers = 0 if attention == "none" else layers
    seen = features.Nodes(d, dim, layers, heads, dropout, layer=layer, **options)
    part = look("uniform" if plain else attention, dim, dim)
    said = outputs.Classes(dim, classes, hidden=dim, dropout=dropout) if classes else outputs.Number(dim, hidden=dim)
    return TaskModel(seen, queries.Learned(dim), part, said)


def node_classifier(
    d: int,
    classes: int,
    attention: str = "additive",
    dim: int = 64,
    layers: int = 1,
    heads: int = 4,
    dropout: float = 0.3,
) -> TaskModel:
    """Every node asks its neighbours: the queries are the nodes, and attention goes along the edges."""
    seen = features.Nodes(d, dim, layers, heads, dropout, by_node=True)
    return TaskModel(seen, queries.Itself(), look(attention, dim, dim), outputs.NodeClasses(dim, classes, dropout))
