"""Builders: task models assembled from the four parts, with any attention by name (`build_attention`)."""

from typing import Any

from torch import nn

from ..nn.attention import Attention
from ..nn.feature import ParallelCoAttention
from ..nn.graph import GATv2Conv
from . import features, output_heads, queries
from .attention_factory import build_attention
from .attention_spec import parse_attention
from .decoder import DecoderGRU, Readout, Seq2Seq
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
    """A bidirectional RNN, attention pooling by a learned query, classes."""
    encoder = features.Recurrent(features.Embedded(words, dim, dropout), width, kind, dropout=dropout)
    query = queries.Learned(encoder.dim)
    return TaskModel(
        encoder,
        query,
        build_attention(attention, encoder.dim, encoder.dim),
        output_heads.Classes(encoder.dim, classes, dropout=dropout),
    )


def document_classifier(
    words: int, classes: int, attention: str = "additive", dim: int = 100, width: int = 50, dropout: float = 0.3
) -> TaskModel:
    """Hierarchical attention: words into sentences, sentences into a document."""
    encoder = features.Documents(words, dim, width, attention, dropout)
    output = output_heads.Classes(encoder.dim, classes, dropout=dropout)
    return TaskModel(
        encoder, queries.Learned(encoder.dim), build_attention(attention, encoder.dim, encoder.dim), output
    )


def retriever(keys: int, values: int, attention: str = "additive", dim: int = 32) -> TaskModel:
    """A query retrieves from a table of keys and values: the smallest task model with a second input."""
    encoder, query = features.Pairs((keys, values), dim), queries.Second(dim, words=keys)
    return TaskModel(
        encoder, query, build_attention(attention, dim, dim), output_heads.Classes(dim, values, hidden=2 * dim)
    )


def pair_classifier(
    words: int,
    classes: int,
    attention: str = "bilinear",
    dim: int = 64,
    width: int = 64,
    dropout: float = 0.2,
    second_words: int | None = None,
) -> TwoInputs:
    """Parallel co-attention between two texts (Lu et al. 2016); `attention` is its affinity score."""
    first, second = (
        features.Recurrent(features.Embedded(count, dim, dropout), width, dropout=dropout)
        for count in (words, second_words or words)
    )
    part = ParallelCoAttention(first.dim, second.dim, score=attention)
    return TwoInputs(first, second, part, output_heads.Classes(first.dim + second.dim, classes, dropout=dropout))


def translator(
    words: int,
    target_words: int,
    attention: str = "additive",
    dim: int = 128,
    width: int = 128,
    order: str = "bahdanau",
    dropout: float = 0.2,
    layers: int = 1,
) -> Seq2Seq:
    """A bidirectional recurrent encoder and a recurrent decoder with attention before or after each step.

    Bahdanau et al. 2015: attention="additive", order="bahdanau". Luong et al. 2015: attention="general" (global) or
    "general+local_predictive", order="luong".
    """
    encoder = features.Embedded(words, dim, dropout, deviation=1.0)
    return _sequencer(encoder, target_words, attention, dim, width, order, dropout, layers)


def spoken_recogniser(
    bands: int,
    target_words: int,
    attention: str = "additive",
    dim: int = 64,
    width: int = 64,
    order: str = "luong",
    dropout: float = 0.2,
) -> Seq2Seq:
    """Speech recogniser: audio frames through three recurrent layers, subsampled twice, and a word decoder."""
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
) -> Seq2Seq:
    encoder = features.Recurrent(before, width, "gru", layers, dropout=dropout, thin=thin)
    state = 2 * width  # the width of the encoder states, so that every score fits
    fed = encoder.dim if order == "bahdanau" else width
    query = DecoderGRU(target_words, dim, state, encoder.dim, fed, order, dropout)
    output = Readout(state, encoder.dim, dim, width, target_words, dropout)
    return Seq2Seq(encoder, query, build_attention(attention, state, encoder.dim), output)


def patch_classifier(classes: int, attention: str = "additive", dim: int = 64) -> TaskModel:
    """Convolutional patches of an image, and attention pooling by a learned query."""
    encoder = features.Filtered(dim)
    attention = "uniform" if attention == "none" else attention
    output = output_heads.Classes(dim, classes, hidden=2 * dim, norm=True)
    return TaskModel(encoder, queries.Learned(dim), build_attention(attention, dim, dim), output)


def image_restorer(
    side: int, attention: str = "scaled_dot", patch: int = 4, dim: int = 64, heads: int = 4
) -> TaskModel:
    """Self-attention over patches; each patch is predicted from itself and its context."""
    spec = parse_attention("scaled_dot+uniform" if attention in ("uniform", "mean", "none") else attention)
    encoder = features.Patches(side, patch, dim, around=4, hidden=2 * dim)
    part = Attention(dim, spec.heads if spec.heads > 1 else heads, score=spec.score, align=spec.alignment)
    return TaskModel(encoder, queries.Itself(), part, output_heads.Pixels(dim, side, patch))


def graph_classifier(
    d: int,
    classes: int,
    attention: str = "additive",
    dim: int = 64,
    layers: int = 3,
    heads: int = 4,
    dropout: float = 0.1,
    layer: Any = GATv2Conv,
    network: str = "",
) -> TaskModel:
    """Graph attention layers, then attention pooling of each graph by a learned query; classes=0: regression.

    "uniform", "mean": means of neighbours and of nodes. "none": no edges at all, and the mean of the nodes.
    network: other layers by name, "gps", "exphormer", "gcn", ...; then "uniform" affects the pooling only.
    "esa" is edge-set attention, which has its own pooling.
    """
    plain = attention in ("uniform", "mean", "none")
    options: dict[str, Any] = {"align": "uniform"} if plain and not network else {}
    layers = 0 if attention == "none" else layers
    encoder: Any
    if network == "esa" and layers:
        encoder = features.EdgeSets(d, dim, layers, heads, dropout)
    else:
        encoder = features.Nodes(d, dim, layers, heads, dropout, layer=layer, network=network, **options)
    part = build_attention("uniform" if plain else attention, dim, dim)
    output = (
        output_heads.Classes(dim, classes, hidden=dim, dropout=dropout)
        if classes
        else output_heads.Number(dim, hidden=dim)
    )
    return TaskModel(encoder, queries.Learned(dim), part, output)


def node_classifier(
    d: int,
    classes: int,
    attention: str = "additive",
    dim: int = 64,
    layers: int = 1,
    heads: int = 4,
    dropout: float = 0.3,
) -> TaskModel:
    """Node classification: attention of every node over its neighbours."""
    encoder = features.Nodes(d, dim, layers, heads, dropout, by_node=True)
    return TaskModel(
        encoder, queries.Itself(), build_attention(attention, dim, dim), output_heads.NodeClasses(dim, classes, dropout)
    )
