"""Sequences out: a recurrent decoder that asks at every word, with any score and alignment."""

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


class Speaker(nn.Module):
    """The query model of a decoder: a GRU over the words said so far, begun from the summary of the features.

        h_t = GRU([y_{t-1}; what was fed], h_{t-1}),   h_0 = tanh(W s)

    order  "bahdanau"  h_{t-1} asks, and the context is fed into the step (Bahdanau et al. 2015)
           "luong"     h_t asks, and the readout's hidden vector is fed into the next step (Luong et al. 2015)
           "parallel"  h_t asks, nothing is fed: all words of a target are learned from at once, much faster
    """

    def __init__(
        self, words: int, dim: int, width: int, summary: int, fed: int, order: str = "bahdanau", dropout: float = 0.0
    ):
        super().__init__()
        if order not in ORDERS:
            raise ValueError(f"Speaker(order={order!r}): expected one of {', '.join(ORDERS)}.")
        self.order, self.dim, self.width = order, dim, width
        self.fed = 0 if order == "parallel" else fed
        self.words = Embedded(words, dim, dropout, deviation=1.0)
        self.first = nn.Linear(summary, width)
        self.cell = nn.GRU(dim + self.fed, width, batch_first=True)

    def begin(self, seen: Encoded) -> Tensor:
        """(B, width)"""
        return torch.tanh(self.first(seen.mean() if seen.summary is None else seen.summary))

    def after(self, vectors: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """States after each of some vectors (B, t, dim + fed), and the last."""
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
class Saying:
    """A decoder between two words."""

    seen: Encoded
    state: Tensor  # (B, width)
    fed: Tensor | None = None  # (B, fed)
    before: Tensor | None = None  # what a stepwise mechanism handed on
    asked: Tensor | None = None  # (B, t, width): queries so far, where their rows matter

    def chosen(self, index: Tensor) -> "Saying":
        """The beams that go on, in their new order."""
        parts = {
            name: x.index_select(0, index)
            for name in ("state", "fed", "before", "asked")
            if (x := getattr(self, name)) is not None
        }
        return replace(self, seen=self.seen.chosen(index), **parts)


class Sequencer(TaskModel):
    """Feature model -> a decoder that asks, looks and says, word by word.

    forward(batch) is teacher-forced: Answer.out (B, t, words). begin and step are for saying (models.search).
    """

    query: Speaker
    output: Readout

    def __init__(self, features: nn.Module, query: Speaker, attention: nn.Module | None, output: Readout):
        super().__init__(features, query, attention, output)
        if by_row(attention) and query.order != "parallel":
            raise ValueError(
                f"Sequencer(order={query.order!r}) asks one word at a time, and local attention must know "
                "the row: use order='parallel', or local_predictive."
            )

    def forward(self, batch: Batch) -> Answer:
        seen = self.features(batch)
        vectors = self.query.words.vectors(F.pad(batch.target[:, :-1], (1, 0), value=START))
        if self.query.order == "parallel":
            states, _ = self.query.after(vectors, self.query.begin(seen))
            ran = apply_attention(self.attention, states, seen)
            maps, samples = maps_and_samples(ran)
            return Answer(self.output(self.output.inner(states, ran.out, vectors)), maps, seen.maps, samples, False)
        saying, said, calls = self._begun(seen), [], []
        for vector in vectors.unbind(1):
            inner, saying, ran = self._word(vector, saying)
            said.append(inner)
            calls.append(ran)
        maps, samples = maps_and_samples(*calls)
        return Answer(self.output(torch.stack(said, 1)), maps, seen.maps, samples)

    def begin(self, batch: Batch) -> Saying:
        return self._begun(self.features(batch))

    def step(self, word: Tensor, saying: Saying) -> tuple[Tensor, Saying, Attended]:
        """Logits (B, words) after the words (B,), the decoder as it then is, and where it looked."""
        inner, saying, ran = self._word(self.query.words.vectors(word), saying)
        return self.output(inner), saying, ran

    def _begun(self, seen: Encoded) -> Saying:
        state = self.query.begin(seen)
        return Saying(seen, state, state.new_zeros(len(state), self.query.fed))

    def _word(self, vector: Tensor, saying: Saying) -> tuple[Tensor, Saying, Attended]:
        if self.query.order == "bahdanau":
            ran = apply_attention(self.attention, saying.state[:, None], saying.seen, saying.before)
            context = ran.out[:, 0]
            _, state = self.query.after(torch.cat([vector, context], -1)[:, None], saying.state)
            inner = self.output.inner(state, context, vector)
            return inner, replace(saying, state=state, before=ran.state), ran
        heard = vector if saying.fed is None else torch.cat([vector, saying.fed], -1)
        _, state = self.query.after(heard[:, None], saying.state)
        asked = state[:, None]
        if by_row(self.attention):
            asked = asked if saying.asked is None else torch.cat([saying.asked, asked], 1)
            saying = replace(saying, asked=asked)
        ran = apply_attention(self.attention, asked, saying.seen, saying.before)
        inner = self.output.inner(state, ran.out[:, -1], vector)
        fed = inner if self.query.order == "luong" else saying.fed
        return inner, replace(saying, state=state, fed=fed, before=ran.state), ran
