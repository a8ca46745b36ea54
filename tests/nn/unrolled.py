"""A second computation of everything: one query, one key at a time, in plain loops over vectors."""

import torch
from torch import Tensor

from regard import ActivatedGeneral, Additive, General, QueryFree, Trilinear


def pair(score, q: Tensor | None, k: Tensor) -> Tensor:
    """The score of one query and one key, from the formula."""
    if isinstance(score, Additive):
        return score.v[0] @ torch.tanh(score.query[0] @ q + score.key[0] @ k + score.bias[0])
    if isinstance(score, ActivatedGeneral):
        return torch.tanh(k @ score.matrix[0] @ q + score.squash.bias[0])
    if isinstance(score, General):
        return k @ score.matrix[0] @ q
    if isinstance(score, Trilinear):
        u, v, w = score.weights[:, 0]
        return u @ q + v @ k + w @ (q * k)
    if isinstance(score, QueryFree):
        return score.w[0] @ torch.tanh(score.key[0] @ k + score.bias[0])
    raise TypeError(type(score).__name__)


def weights(scores: list[Tensor]) -> list[Tensor]:
    """Softmax, by its definition."""
    exponentials = [torch.exp(s) for s in scores]
    return [e / sum(exponentials) for e in exponentials]


def read(score, q: Tensor | None, features: Tensor) -> Tensor:
    """What one query reads of features (m, d)."""
    return mixed(weights([pair(score, q, k) for k in features]), features)


def mixed(w: list[Tensor], features: Tensor) -> Tensor:
    return sum(a * f for a, f in zip(w, features, strict=True))
