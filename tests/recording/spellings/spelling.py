"""Ways of writing attention (and what only resembles it), each with what a record must say of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Truth = Callable[["Given"], Tensor]


class Given:
    """What a spelling computes from: queries of 6 tokens, keys and values of 8, a single head of them, and more.

    q (2, 3, 6, 4), k (2, 3, 8, 4), v (2, 3, 8, 5); s the scores, w their softmax, made anew at each access.
    """

    def __init__(self, model: "Spelt", x: Tensor):
        self.model, self.x = model, x

    def heads(self, name: str, x: Tensor) -> Tensor:
        return self.model.get_submodule(name)(x).unflatten(-1, (3, -1)).transpose(1, 2)

    @cached_property
    def q(self) -> Tensor:
        return self.heads("query", self.x[:, :6])

    @cached_property
    def k(self) -> Tensor:
        return self.heads("key", self.x)

    @cached_property
    def v(self) -> Tensor:
        return self.heads("value", self.x)

    @cached_property
    def q_all(self) -> Tensor:
        """Queries of all 8 tokens."""
        return self.heads("query", self.x)

    @property
    def s(self) -> Tensor:
        return self.q @ self.k.transpose(-1, -2) * 0.5

    @property
    def w(self) -> Tensor:
        return torch.softmax(self.s, -1)

    @property
    def s1(self) -> Tensor:
        """Scores of one head of one item, (6, 8)."""
        return self.q[0, 0] @ self.k[0, 0].t() * 0.5

    @property
    def w1(self) -> Tensor:
        return torch.softmax(self.s1, -1)

    @property
    def v1(self) -> Tensor:
        return self.v[0, 0]

    @property
    def w3(self) -> Tensor:
        """Weights with batch and heads in one axis, (6, 6, 8)."""
        return torch.softmax(self.s.flatten(0, 1), -1)

    @property
    def v3(self) -> Tensor:
        return self.v.flatten(0, 1)

    @property
    def s_all(self) -> Tensor:
        return self.q_all @ self.k.transpose(-1, -2) * 0.5

    @property
    def causal(self) -> Tensor:
        """Which pairs of 8 tokens are closed."""
        return torch.ones(8, 8, dtype=torch.bool).triu(1)


class Spelt(nn.Module):
    """A layer that attends as a spelling says. `table` (8, 5) and `codes` (8, 12) are parameters, `places` a buffer."""

    def __init__(self, spelling: "Spelling"):
        super().__init__()
        self.spelling = spelling
        self.query, self.key, self.value = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 15)
        self.table = nn.Parameter(torch.randn(8, 5))
        self.codes = nn.Parameter(torch.randn(8, 12))
        self.mix = nn.Parameter(torch.randn(3, 3))
        self.vector = nn.Parameter(torch.randn(12))
        self.register_buffer("places", torch.arange(8.0))
        self.extra = nn.ModuleDict({name: make() for name, make in spelling.modules.items()})

    def forward(self, x: Tensor) -> Tensor:
        return self.spelling.run(Given(self, x))


@dataclass(frozen=True)
class Spelling:
    """expected: "exact" (a map equals the truth), "missed", "other" (rec.other), or "nothing".

    truth   the weights in fp64, from the same inputs; a tuple where several maps are due, in their order. Where
            "missed" is expected and there is a truth, a map that equals it is as good
    grad    whether it runs with autograd on; modules: layers of its own by name
    """

    name: str
    run: Callable[[Given], Tensor]
    expected: str
    truth: Truth | None = None
    grad: bool = False
    modules: "dict[str, Callable[[], nn.Module]]" = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        object.__setattr__(self, "modules", self.modules or {})

    @property
    def accepted(self) -> tuple[str, ...]:
        return ("missed", "exact") if self.expected == "missed" and self.truth is not None else (self.expected,)

    def build(self) -> tuple[Spelt, Tensor]:
        torch.manual_seed(0)
        return Spelt(self).eval(), torch.randn(2, 8, 12)


class Spellings:
    """A list that spellings are added to by decorated functions, or by name."""

    def __init__(self) -> None:
        self.all: list[Spelling] = []

    def add(self, expected: str, truth: Truth | None, runs: "dict[str, Callable[[Given], Tensor]]", **more) -> None:
        for name, run in runs.items():
            self.all.append(Spelling(name, run, expected, truth, **more))

    def __call__(self, expected: str, truth: Truth | None = None, **more) -> Callable:
        def register(run: Callable[[Given], Tensor]) -> Callable[[Given], Tensor]:
            self.add(expected, truth, {run.__name__.replace("_", " "): run}, **more)
            return run

        return register

    def __iter__(self) -> Iterator[Spelling]:
        return iter(self.all)


def softmax_weights(g: Given) -> Tensor:
    return F.softmax(g.s, -1)


def one_head(g: Given) -> Tensor:
    return F.softmax(g.s1, -1)


def causal_weights(g: Given) -> Tensor:
    return F.softmax(g.s_all.masked_fill(g.causal, float("-inf")), -1)
