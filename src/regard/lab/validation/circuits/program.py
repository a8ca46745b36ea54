"""Programs: selections and tables over named one-hot spaces of a residual stream, and which edges they need."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Edge = tuple[str, str]  # who writes, who reads: ("embed", "1.0.k")


@dataclass
class Selection:
    """One head: it looks where M of the query's and the key's spaces is large, and copies a space of what it sees."""

    query: str
    key: str
    match: Tensor
    value: str
    out: str
    read: Tensor | None = None  # (width of out, width of value); the identity unless given


@dataclass
class LookupTable:
    """One MLP: relu(W x + b), then a linear map into a space."""

    reads: list[str]
    inner: Tensor  # (hidden, joint width of what it reads)
    bias: Tensor
    outer: Tensor  # (width of out, hidden)
    out: str


@dataclass
class Program:
    """What is compiled: spaces by width, layers of one selection and one table, and the space that is the answer.

    token, place   the spaces that the embedding of tokens and positions write, and what they write: (count, width)
    truth          which writers (by name) each reader needs
    sample         function(generator) -> ids (n,); answer(ids) -> (n,), -1 where there is none
    """

    name: str
    spaces: dict[str, int]
    token: dict[str, Tensor]
    place: dict[str, Tensor]
    layers: list[tuple[Selection | None, LookupTable | None]]
    reads: str
    truth: set[Edge]
    sample: Callable[[torch.Generator], Tensor]
    answer: Callable[[Tensor], Tensor]
    causal: bool = False
    readout: Tensor | None = None
    distractors: int = 2
