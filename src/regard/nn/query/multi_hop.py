"""Multi-hop attention: the context of each hop updates the query of the next."""

import torch
from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.attend import Attended
from regard.core.structures import Structure

from ..attend import Attend, ScoreLike, mean
from ..call_checks import reads
from ..composed import Composed

WAYS = ("identity", "linear", "gru", "stacked")


class MultiHopAttention(nn.Module):
    """Repeated attention over the same features, with a query updated by the context of each hop.

        c^0 = mean F,   q^{s+1} = transform(q^s, c^s),   c^{s+1} = Att_s([q^{s+1}; c^s], F),   out = c^hops
        stacked:  c^{s+1} = Att_s(q^s, F),   q^{s+1} = q^s + c^{s+1},   out = q^hops

    query (..., n, dim), features (..., m, feature_dim)  ->  out (..., n, feature_dim); maps: hop_1, hop_2, ...

    transform   "identity" (the query stays), "linear" (W [q; c]), "gru" (a GRU cell that c drives), or "stacked"
    tied        one set of parameters for all hops

    Also known as: memory network, stacked attention network, iterative attention.
    Tran and Niederee 2018; stacked: Yang et al. 2016 (SAN), equal widths. Each hop uses the context of the previous
    one, so the first hop's parameters have a gradient. One hop whose score ignores c is attention by q^1.
    """

    @checked
    def __init__(
        self,
        dim: int,
        feature_dim: int | None = None,
        hops: int = 2,
        *,
        transform: str = "identity",
        tied: bool = False,
        score: ScoreLike = "additive",
        align: "str | Alignment" = "softmax",
        dropout: float = 0.0,
    ):
        super().__init__()
        feature_dim = feature_dim or dim
        if transform not in WAYS:
            raise ValueError(f"MultiHopAttention(transform={transform!r}): expected one of {', '.join(WAYS)}.")
        if not isinstance(hops, int) or hops < 1:
            raise ValueError(f"MultiHopAttention(hops={hops!r}): expected a whole number, 1 or more.")
        if transform == "stacked" and dim != feature_dim:
            raise ValueError(
                f"stacked attention adds the context to the query, but dim={dim} and "
                f"feature_dim={feature_dim}: make them equal."
            )
        self.hops, self.transform = hops, transform
        sets = 1 if tied else hops
        asked = dim if transform == "stacked" else dim + feature_dim
        self.looks = nn.ModuleList(Attend(asked, feature_dim, score, align, dropout) for _ in range(sets))
        self.turns = nn.ModuleList()
        if transform == "linear":
            self.turns.extend(nn.Linear(dim + feature_dim, dim) for _ in range(sets))
        elif transform == "gru":
            self.turns.extend(nn.GRUCell(feature_dim, dim) for _ in range(sets))

    @reads(query="dim", features=("feature_dim", "dim"))
    def forward(self, query: Tensor, features: Tensor, over: Structure | None = None) -> Composed:
        steps: dict[str, Attended] = {}
        stacked = self.transform == "stacked"
        read = None if stacked else mean(features, over).expand(*query.shape[:-1], features.shape[-1])
        for hop in range(self.hops):
            look = self.looks[hop % len(self.looks)]
            if stacked:
                found = look(query, features, over=over)
                query = query + found.out
            else:
                assert read is not None
                query = self._turned(hop, query, read)
                found = look(torch.cat([query, read], -1), features, over=over)
                read = found.out
            steps[f"hop_{hop + 1}"] = found
        out = query if read is None else read
        return Composed(out, steps)

    def _turned(self, hop: int, query: Tensor, read: Tensor) -> Tensor:
        if self.transform == "identity":
            return query
        turn = self.turns[hop % len(self.turns)]
        if self.transform == "linear":
            return turn(torch.cat([query, read], -1))
        return turn(read.reshape(-1, read.shape[-1]), query.reshape(-1, query.shape[-1])).reshape(query.shape)
