"""A score and what comes after it, as one score."""

from torch import Tensor, nn

from ..errors import check_scores
from ..lowering.tiles import Tile
from ..scores.score import Lowered, Score
from .modifiers import Modifier, Sink


class Modified(Score):
    """A score followed by modifiers; made by score | modifier."""

    def __init__(self, score: Score, modifier: Modifier):
        super().__init__()
        inner = score if isinstance(score, Modified) else None
        self.score: Score = inner.score if inner is not None else score
        self.modifiers: nn.ModuleList = nn.ModuleList([*(inner.modifiers if inner is not None else []), modifier])
        sinks = [m for m in self.modifiers if isinstance(m, Sink)]
        if len(sinks) > 1:
            raise ValueError(
                "score | Sink(...) | Sink(...): a score has one Sink; give it one logit a head, Sink(heads)."
            )
        self.features = self.score.features
        self.stepwise = self.score.stepwise
        if self.stepwise:
            raise ValueError(
                f"{type(self.score).__name__} runs step by step and takes no modifiers: modify another score."
            )

    def check(self, q: Tensor, k: Tensor) -> None:
        self.score.check(q, k)
        for modifier in self.modifiers:
            modifier.check(q.shape[1])  # type: ignore[operator]

    def feature_count(self, q: Tensor) -> int | None:
        return self.score.feature_count(q)

    @property
    def sink(self) -> Tensor | None:
        for modifier in self.modifiers:
            if isinstance(modifier, Sink):
                return modifier.logits
        return None

    def pointwise(self) -> tuple[Modifier, ...]:
        return tuple(m for m in self.modifiers if not isinstance(m, Sink))  # type: ignore[misc]

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        s = self.score(q, k)
        check_scores(self.score, s, q, k, self.score.feature_count(q))
        lead, heads = q.shape[:-3], q.shape[-3]
        batch = 1
        for size in lead:
            batch *= size
        tile = Tile.whole(batch, heads, q.shape[-2], k.shape[-2], q.device)
        tail = s.shape[len(lead) + 1 :]
        s = s.reshape(batch * heads, *tail)
        for modifier in self.pointwise():
            s = modifier(s, tile)
        return s.reshape(*lead, heads, *tail)

    def edge_part(self, key: Tensor, join: str) -> Tensor | None:
        return self.score.edge_part(key, join)

    def lower(self, q: Tensor, k: Tensor) -> Lowered | None:
        inner = self.score.lower(q, k)
        if inner is None:
            return None
        sink = self.sink
        if sink is not None:
            sink = sink.expand(q.shape[0], q.shape[1]).reshape(-1)
        return Lowered(inner.core, inner.key_bias, inner.row_bias, (*inner.modifiers, *self.pointwise()), sink)

    def row_bias(self, q: Tensor) -> Tensor | None:
        return self.score.row_bias(q)
