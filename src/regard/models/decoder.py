"""Sequence-to-sequence model: a recurrent decoder with any score and alignment."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..core.attend import Attended
from ..data.batch import Batch
from ..data.vocabulary import START
from .attention_factory import apply_attention, by_row
from .features.encoded import Encoded
from .features.words import Embedded
from .model_output import Answer, maps_and_samples
from .task_model import TaskModel

ORDERS = ("bahdanau", "luong", "parallel")


class DecoderGRU(nn.Module):
    """The query model of a decoder: a GRU over the previous words, initialised from the summary of the features.

        h_t = GRU([y_{t-1}; fed vector], h_{t-1}),   h_0 = tanh(W s)

    order  "bahdanau"  h_{t-1} is the query; the context is fed into the step (Bahdanau et al. 2015)
           "luong"     h_t is the query; the readout's hidden vector is fed into the next step (Luong et al. 2015)
           "parallel"  h_t is the query, nothing is fed: teacher forcing runs in parallel over the target, much faster
    """

    def __init__(
        self, words: int, dim: int, width: int, summary: int, fed: int, order: str = "bahdanau", dropout: float = 0.0
    ):
        super().__init__()
        if order not in ORDERS:
            raise ValueError(f"DecoderGRU(order={order!r}): expected one of {', '.join(ORDERS)}.")
        self.order, self.dim, self.width = order, dim, width
        self.fed = 0 if order == "parallel" else fed
        self.words = Embedded(words, dim, dropout, deviation=1.0)
        self.first = nn.Linear(summary, width)
        self.cell = nn.GRU(dim + self.fed, width, batch_first=True)

    def begin(self, encoded: Encoded) -> Tensor:
        """(B, width)"""
        return torch.tanh(self.first(encoded.mean() if encoded.summary is None else encoded.summary))

    def after(self, vectors: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """States after each of the vectors (B, t, dim + fed), and the last state."""
        states, last = self.cell(vectors, state[None].contiguous())
        return states, last[0]


class Readout(nn.Module):
    """The output model of a decoder: z_t = tanh(W [h_t; c_t; y_{t-1}]), logits = U z_t."""

    def __init__(self, state: int, context: int, dim: int, width: int, words: int, dropout: float = 0.0):
        super().__init__()
        self.hidden = nn.Linear(state + context + dim, width)
        self.dropout = nn.Dropout(dropout)
        self.logits = nn.Linear(width, words)

    def inner(self, state: Tensor, context: Tensor, vector: Tensor) -> Tensor:
        return torch.tanh(self.hidden(torch.cat([state, context, vector], -1)))

    def forward(self, inner: Tensor) -> Tensor:
        return self.logits(self.dropout(inner))


@dataclass(eq=False)
class DecodingState:
    """The state of a decoder between two words."""

    encoded: Encoded
    state: Tensor  # (B, width)
    fed: Tensor | None = None  # (B, fed)
    before: Tensor | None = None  # `Attended.state` of the previous step
    queries: Tensor | None = None  # (B, t, width): previous queries, if the alignment depends on their positions

    def reorder(self, index: Tensor) -> "DecodingState":
        """Surviving beams in their new order."""
        parts = {
            name: x.index_select(0, index)
            for name in ("state", "fed", "before", "queries")
            if (x := getattr(self, name)) is not None
        }
        return replace(self, encoded=self.encoded.reorder(index), **parts)


class Seq2Seq(TaskModel):
    """Feature model -> a recurrent decoder with attention -> words.

    forward(batch) is teacher-forced: Answer.out (B, t, words). begin and step are for generation (models.beam_search).
    """

    query: DecoderGRU
    output: Readout

    def __init__(self, features: nn.Module, query: DecoderGRU, attention: nn.Module | None, output: Readout):
        super().__init__(features, query, attention, output)
        if by_row(attention) and query.order != "parallel":
            raise ValueError(
                f"Seq2Seq(order={query.order!r}) decodes one word at a time, and local attention needs "
                "the position of the query: use order='parallel', or local_predictive."
            )

    def forward(self, batch: Batch) -> Answer:
        encoded = self.features(batch)
        vectors = self.query.words.vectors(F.pad(batch.target[:, :-1], (1, 0), value=START))
        if self.query.order == "parallel":
            states, _ = self.query.after(vectors, self.query.begin(encoded))
            attended = apply_attention(self.attention, states, encoded)
            maps, samples = maps_and_samples(attended)
            return Answer(
                self.output(self.output.inner(states, attended.out, vectors)), maps, encoded.maps, samples, False
            )
        decoding, hidden, calls = self._begun(encoded), [], []
        for vector in vectors.unbind(1):
            inner, decoding, attended = self._word(vector, decoding)
            hidden.append(inner)
            calls.append(attended)
        maps, samples = maps_and_samples(*calls)
        return Answer(self.output(torch.stack(hidden, 1)), maps, encoded.maps, samples)

    def begin(self, batch: Batch) -> DecodingState:
        return self._begun(self.features(batch))

    def step(self, word: Tensor, decoding: DecodingState) -> tuple[Tensor, DecodingState, Attended]:
        """One step from the words (B,): logits (B, words), the next state, and the attention."""
        inner, decoding, attended = self._word(self.query.words.vectors(word), decoding)
        return self.output(inner), decoding, attended

    def _begun(self, encoded: Encoded) -> DecodingState:
        state = self.query.begin(encoded)
        return DecodingState(encoded, state, state.new_zeros(len(state), self.query.fed))

    def _word(self, vector: Tensor, decoding: DecodingState) -> tuple[Tensor, DecodingState, Attended]:
        if self.query.order == "bahdanau":
            attended = apply_attention(self.attention, decoding.state[:, None], decoding.encoded, decoding.before)
            context = attended.out[:, 0]
            _, state = self.query.after(torch.cat([vector, context], -1)[:, None], decoding.state)
            inner = self.output.inner(state, context, vector)
            return inner, replace(decoding, state=state, before=attended.state), attended
        inputs = vector if decoding.fed is None else torch.cat([vector, decoding.fed], -1)
        _, state = self.query.after(inputs[:, None], decoding.state)
        queries = state[:, None]
        if by_row(self.attention):
            queries = queries if decoding.queries is None else torch.cat([decoding.queries, queries], 1)
            decoding = replace(decoding, queries=queries)
        attended = apply_attention(self.attention, queries, decoding.encoded, decoding.before)
        inner = self.output.inner(state, attended.out[:, -1], vector)
        fed = inner if self.query.order == "luong" else decoding.fed
        return inner, replace(decoding, state=state, fed=fed, before=attended.state), attended
