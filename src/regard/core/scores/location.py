"""Scores that know where a key stands, or that ask nobody: location-based, location-aware, query-free."""

import torch
from torch import Tensor, nn

from ..activations import apply_activation, check_activation
from ..arguments import sizes, whole
from ..errors import check_built, check_heads
from ..lowering.score_kernels import DotCore
from .score import Lowered, Score, flat, no_scores, per_head, wide


class Location(Score):
    """The query alone says where to look; what stands there does not matter.

        s_ij = (W q_i)_j

    q (..., H, n, d_q), k only counted  ->  s (..., H, n, m);  W (H or 1, length, d_q), m <= length

    Also known as: location-based attention.
    Luong et al. 2015. No gradient reaches the keys.
    """

    positional = True

    def __init__(self, d_q: int, length: int, heads: int = 1):
        super().__init__()
        given = {"d_q": d_q, "length": length, "heads": heads}
        d_q, length, heads = (whole(x, "Location", name) for name, x in given.items())
        self.places = nn.Parameter(torch.empty(heads, length, d_q))
        nn.init.uniform_(self.places, -(d_q**-0.5), d_q**-0.5)

    def check(self, q: Tensor, k: Tensor) -> None:
        check_built(self, "q", q, self.places.shape[-1], self.places.shape[0])
        self._first(k.shape[-2])

    def _first(self, m: int) -> Tensor:
        if m > self.places.shape[1]:
            raise ValueError(
                f"Location was built for length={self.places.shape[1]} positions, but there are m={m} "
                "keys: build it longer."
            )
        return self.places[:, :m]

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ self._first(k.shape[-2]).to(q.dtype).transpose(-1, -2)

    def lower(self, q: Tensor, k: Tensor) -> Lowered:
        return Lowered(DotCore(flat(q), per_head(self._first(k.shape[-2]).to(q.dtype), q)))


class QueryFree(Score, name="query_free"):
    """Each key speaks for itself; the learned part is what is looked for.

        s_j = w . act(W k_j + b)                        features=F: w becomes a matrix (width, F): source2token

    q only counted, k (..., H, m, d_k)  ->  s (..., H, n, m), equal rows

    Also known as: feed-forward attention, source2token.
    The survey's eq. 33; Yang et al. 2016, Lin et al. 2017. Without sizes: W = I, w = 1 / sqrt(d); features=True then
    makes each feature of a key its own score.
    """

    by_unit = False

    def __init__(
        self,
        d_k: int | None = None,
        width: int | None = None,
        heads: int = 1,
        activation: str = "tanh",
        features: int | bool | None = None,
    ):
        super().__init__()
        check_activation(activation)
        heads = whole(heads, "QueryFree", "heads")
        d_k, width = sizes("QueryFree", d_k=d_k, width=width)
        if features is not None and features is not True:
            features = whole(features, "QueryFree", "features")
        self.by_unit, self.sized = features is True, d_k is not None
        self.activation, self.features = activation, None if features is True else features
        if d_k is None:
            if self.features is not None:
                raise ValueError(f"QueryFree(features={features}) needs sizes: give d_k.")
            return
        if self.by_unit:
            raise ValueError("QueryFree(features=True) has no matrices: give features as a number, or no sizes.")
        width = width or d_k
        self.key = nn.Parameter(torch.empty(heads, width, d_k))
        self.bias = nn.Parameter(torch.zeros(heads, width))
        self.w = nn.Parameter(torch.empty((heads, width) if features is None else (heads, width, features)))
        nn.init.uniform_(self.key, -(d_k**-0.5), d_k**-0.5)
        nn.init.uniform_(self.w, -(width**-0.5), width**-0.5)

    def check(self, q: Tensor, k: Tensor) -> None:
        if self.sized:
            check_built(self, "k", k, self.key.shape[-1])
            check_heads(self, self.key.shape[0], q.shape[1])

    def feature_count(self, q: Tensor) -> int | None:
        return q.shape[-1] if self.by_unit else self.features

    def of_keys(self, k: Tensor) -> Tensor:
        """(..., H, m), or (..., H, F, m) with features."""
        if not self.sized:
            hidden = apply_activation(k.clone(), self.activation)
            return hidden.mT if self.by_unit else hidden.sum(-1) * max(1, k.shape[-1]) ** -0.5
        hidden = apply_activation(
            k @ self.key.to(k.dtype).transpose(-1, -2) + self.bias.to(k.dtype)[:, None], self.activation
        )
        w = self.w.to(k.dtype)
        if self.features is None:
            return (hidden * w[:, None]).sum(-1)
        return (hidden @ w).transpose(-1, -2)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        s = self.of_keys(k).unsqueeze(-2)
        return s.expand(*s.shape[:-2], q.shape[-2], s.shape[-1])

    def lower(self, q: Tensor, k: Tensor) -> Lowered:
        return Lowered(no_scores(q, k), key_bias=self.of_keys(wide(k)).flatten(0, 1))


class LearnedQuery(QueryFree, name="learned_query", free=False, page="query_free"):
    """One learned query for everybody.

        s_j = query . k_j

    q only counted, k (..., H, m, d_k)  ->  s (..., H, n, m), equal rows;  query (H or 1, d_k)

    Also known as: context vector, seed vector.
    Brauwers and Frasincar 2021, eq. 34. It equals the dot score asked by one constant row.
    """

    def __init__(self, d_k: int, heads: int = 1):
        Score.__init__(self)
        d_k, heads = whole(d_k, "LearnedQuery", "d_k"), whole(heads, "LearnedQuery", "heads")
        self.query = nn.Parameter(torch.empty(heads, d_k))
        nn.init.uniform_(self.query, -(d_k**-0.5), d_k**-0.5)

    def check(self, q: Tensor, k: Tensor) -> None:
        check_built(self, "k", k, self.query.shape[-1])
        check_heads(self, self.query.shape[0], q.shape[1])

    def of_keys(self, k: Tensor) -> Tensor:
        return (k * self.query.to(k.dtype)[:, None]).sum(-1)


class LocationAware(Score, name="location_aware", free=False):
    """Additive attention that also sees where it looked one step before.

        s_tj = w . tanh(W q_t + V k_j + U f_tj + b),   f_t = conv1d(weights of step t - 1)

    q (..., H, n, d_q), k (..., H, m, d_k)  ->  s (..., H, n, m), query by query; width of the filters odd

    Also known as: location-sensitive attention, Chorowski attention.
    Chorowski et al. 2015. Steps follow one another, so it runs on the reference and its map is stored; the first
    step sees weights that are uniform over the valid keys. With U = 0 it is the additive score.
    """

    stepwise = True

    def __init__(
        self,
        d_q: int,
        d_k: int | None = None,
        width: int | None = None,
        heads: int = 1,
        filters: int = 8,
        kernel: int = 15,
    ):
        super().__init__()
        who = "LocationAware"
        given = {"d_q": d_q, "heads": heads, "filters": filters, "kernel": kernel}
        d_q, heads, filters, kernel = (whole(x, who, name) for name, x in given.items())
        d_k, width = sizes(who, d_k=d_k, width=width)
        if kernel % 2 == 0:
            raise ValueError(f"LocationAware(kernel={kernel}): expected an odd width, so that the filter is centred.")
        d_k, width = d_k or d_q, width or d_q
        self.query = nn.Parameter(torch.empty(heads, width, d_q))
        self.key = nn.Parameter(torch.empty(heads, width, d_k))
        self.place = nn.Parameter(torch.empty(heads, width, filters))
        self.bias = nn.Parameter(torch.zeros(heads, width))
        self.w = nn.Parameter(torch.empty(heads, width))
        self.conv = nn.Conv1d(1, filters, kernel, padding=kernel // 2, bias=False)
        for matrix in (self.query, self.key, self.place, self.w):
            nn.init.uniform_(matrix, -(matrix.shape[-1] ** -0.5), matrix.shape[-1] ** -0.5)

    def check(self, q: Tensor, k: Tensor) -> None:
        check_built(self, "q", q, self.query.shape[-1], self.query.shape[0])
        check_built(self, "k", k, self.key.shape[-1])

    def step(self, q: Tensor, keys: Tensor, previous: Tensor) -> Tensor:
        """One query q (B, H, d_q), projected keys (B, H, m, w), previous weights (B, H, m) -> scores (B, H, m)."""
        batch, heads, m = previous.shape
        if m == 0:
            return keys.new_zeros(batch, heads, 0)
        filtered = self.conv(previous.reshape(batch * heads, 1, m).to(self.conv.weight.dtype))
        seen = filtered.transpose(-1, -2).unflatten(0, (batch, heads)) @ self.place.transpose(-1, -2)  # (B, H, m, w)
        asked = (q.unsqueeze(-2) @ self.query.transpose(-1, -2).to(q.dtype)) + self.bias.to(q.dtype)[:, None]
        return (torch.tanh(asked + keys + seen.to(q.dtype)) * self.w.to(q.dtype)[:, None]).sum(-1)

    def project_keys(self, k: Tensor) -> Tensor:
        return k @ self.key.to(k.dtype).transpose(-1, -2)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        raise TypeError("LocationAware runs step by step: call attend(..., score=LocationAware(...)).")
