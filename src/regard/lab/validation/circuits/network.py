"""A small transformer that can be run by edges: what each writer hands to each head's query, key and value."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .program import Edge, Program


class Heads(nn.Module):
    """The attention of one layer; head 0 is the program's, if it has one."""

    def __init__(self, width: int, heads: int, inner: int, causal: bool):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.q, self.k, self.v = (nn.Linear(width, heads * inner, bias=False) for _ in range(3))
        self.o = nn.Linear(heads * inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, scale=1.0)
        return self.o(out.transpose(1, 2).flatten(2))


class Feedforward(nn.Module):
    """relu between two matrices."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.relu(self.up(x)))


class EdgeNetwork(nn.Module):
    """Layers of heads and a feed-forward network over one residual stream: ids (B, n) -> logits (B, n, answers).

    program   what it computes; embed, places, layers, unembed are set by who builds it
    normed    whether each reads the stream divided by its root mean square
    """

    embed: nn.Embedding
    places: nn.Embedding
    layers: nn.ModuleList
    unembed: nn.Linear
    normed = False

    def __init__(self, program: Program):
        super().__init__()
        self.program = program

    def read(self, x: Tensor) -> Tensor:
        """The stream as heads, feed-forward networks and the logits read it."""
        return F.rms_norm(x, x.shape[-1:]) if self.normed else x

    @property
    def stack(self) -> list[tuple[Heads, Feedforward]]:
        """Attention and feed-forward network of each layer."""
        layers = [cast(nn.ModuleDict, layer) for layer in self.layers]
        return [(cast(Heads, layer["attention"]), cast(Feedforward, layer["mlp"])) for layer in layers]

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) + self.places(torch.arange(ids.shape[-1]))
        for attention, mlp in self.stack:
            x = x + attention(self.read(x))
            x = x + mlp(self.read(x))
        return self.unembed(self.read(x))

    # the same by edges, for the methods that patch them

    def writers(self) -> list[str]:
        """Everything that writes into the stream, in order."""
        made = ["embed", "places"]
        for number, (attention, _) in enumerate(self.stack):
            made += [f"{number}.{head}" for head in range(attention.heads)] + [f"mlp {number}"]
        return made

    def edges(self) -> list[Edge]:
        """Every edge from an earlier writer into a head's query, key or value."""
        made: list[Edge] = []
        before = ["embed", "places"]
        for number, (attention, _) in enumerate(self.stack):
            heads = range(attention.heads)
            made += [(w, f"{number}.{head}.{part}") for head in heads for part in "qkv" for w in before]
            before += [*(f"{number}.{head}" for head in heads), f"mlp {number}"]
        return made

    def patched(
        self,
        ids: Tensor,
        mask: dict[Edge, Tensor],
        other: dict[str, Tensor],
        scores: list[Tensor] | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The logits where each edge carries mask of this run and 1 - mask of `other`; and what each writer wrote.

        scores   receives the scores of head 0 of each layer, (B, n, n), masked with -inf
        """
        wrote = {"embed": self.embed(ids), "places": self.places(torch.arange(ids.shape[-1])).expand(len(ids), -1, -1)}
        for number, (attention, mlp) in enumerate(self.stack):
            own = torch.stack(list(wrote.values()))  # (writers, B, n, width)
            names = [f"{number}.{head}" for head in range(attention.heads)]
            x = own.sum(0).expand(3, attention.heads, *own.shape[1:])
            asked = [[[mask.get((w, f"{name}.{part}")) for w in wrote] for name in names] for part in "qkv"]
            if any(share is not None for part in asked for reader in part for share in reader):
                one = torch.ones(())
                shares = torch.stack([one if share is None else share for part in asked for r in part for share in r])
                gone = own - torch.stack([other.get(w, value) for w, value in wrote.items()])
                x = x + torch.einsum("phw,wbnd->phbnd", shares.view(3, attention.heads, -1) - 1, gone)
            q, k, v = (
                torch.einsum("hbnd,hed->bhne", self.read(one), f.weight.unflatten(0, (attention.heads, -1)))
                for one, f in zip(x, (attention.q, attention.k, attention.v), strict=True)
            )
            if scores is not None:
                first = q[:, 0] @ k[:, 0].mT
                closed = torch.ones_like(first[0], dtype=torch.bool).triu(1) if attention.causal else None
                scores.append(first if closed is None else first.masked_fill(closed, -torch.inf))
            out = F.scaled_dot_product_attention(q, k, v, is_causal=attention.causal, scale=1.0)
            made = torch.einsum("bhne,dhe->hbnd", out, attention.o.weight.unflatten(1, (attention.heads, -1)))
            wrote.update(zip(names, made, strict=True))
            wrote[f"mlp {number}"] = mlp(self.read(torch.stack(list(wrote.values())).sum(0)))
        return self.unembed(self.read(torch.stack(list(wrote.values())).sum(0))), wrote
