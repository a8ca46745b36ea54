"""Multi-head attention with its projections."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ..core.alignments import Alignment
from ..core.arguments import checked, number, shown
from ..core.arguments.torch_arguments import translated
from ..core.attend import Attended, attend
from ..core.plan import Plan, plan
from ..core.scores import Modifier, Rotary, Score, score_of
from ..core.structures import Structure
from ..core.structures.packed import unpacked
from ..core.structures.packing import Packing
from .build import build_alignment, build_score
from .kv_cache import Cache
from .other_names import CALL_ANSWERS, CONSTRUCTOR_ANSWERS, also_named
from .torch_interop import check_torch, from_torch_names


class Attention(nn.Module):
    """Multi-head attention with any score, any alignment, over any structure.

        y = W_o [head_1; ...; head_h] + b_o,   head_c = attend(W_q^c x, W_k^c z, W_v^c z)

    query (..., n, dim), key (..., m, key_dim), value (..., m, value_dim)  ->  out (..., n, out_dim)
    and the map of the weights, (..., heads, n, m)

    dim, heads        width of the queries, number of heads
    d_k, d_v          width of a head's queries and keys, and of its values; dim / heads unless given
    kv_heads          fewer heads for keys and values, each shared by heads / kv_heads query heads (GQA)
    key_dim, out_dim  dim unless given; value_dim is key_dim unless given, since values are the keys unless given
    score             a name builds the learned form (`build_score`: "additive" has its W and v for each head);
                      a Score object is used as it is
    align             a name or an Alignment: Entmax(1.5, learned=True, heads=8)
    dropout           on the weights, in training mode
    rotary            RoPE: True, a base (10000.0) or a Rotary

    A score may be a modifier alone, ALiBi(8), of the scaled dot product. Names of other libraries are understood:
    embed_dim, num_heads, num_kv_heads, num_key_value_heads, kdim, vdim, head_dim.

    Also known as: MHA, grouped-query attention, GQA, multi-query attention, MQA.
    Vaswani et al. 2017. In training mode stochastic alignments sample (Hard, Gumbel, Reinforced, Monotonic); in
    evaluation mode they are deterministic. Permuting heads together with their columns of W_o changes nothing.
    """

    @also_named(
        "Attention",
        CONSTRUCTOR_ANSWERS,
        embed_dim="dim",
        hidden_size="dim",
        d_model="dim",
        num_heads="heads",
        num_attention_heads="heads",
        n_heads="heads",
        n_head="heads",
        nhead="heads",
        num_kv_heads="kv_heads",
        num_key_value_heads="kv_heads",
        n_kv_heads="kv_heads",
        kdim="key_dim",
        vdim="value_dim",
        head_dim=("d_k", "d_v"),
        dim_head=("d_k", "d_v"),
        dropout_p="dropout",
        attn_dropout="dropout",
        attn_drop="dropout",
        attention_dropout="dropout",
    )
    @checked
    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        d_k: int | None = None,
        d_v: int | None = None,
        kv_heads: int | None = None,
        key_dim: int | None = None,
        value_dim: int | None = None,
        out_dim: int | None = None,
        score: "str | Score | Modifier" = "scaled_dot",
        align: "str | Alignment" = "softmax",
        dropout: float = 0.0,
        bias: bool = True,
        rotary: "bool | float | Rotary | None" = None,
        dtype: torch.dtype | None = None,
        device: "torch.device | str | None" = None,
    ):
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        _check_kind(dtype, device)
        if dim % heads and (d_k is None or d_v is None):
            raise ValueError(
                f"Attention(dim={dim}, heads={heads}): heads do not divide dim. Say how wide a head is: "
                f"d_k={max(1, dim // heads)}, d_v={max(1, dim // heads)}."
            )
        if heads % kv_heads:
            raise ValueError(
                f"Attention(heads={heads}, kv_heads={kv_heads}): expected a number that divides heads, "
                "since each key head is shared by a group of query heads."
            )
        self.dim, self.heads, self.kv_heads, self.dropout = dim, heads, kv_heads, float(dropout)
        self.d_k, self.d_v = d_k or dim // heads, d_v or dim // heads
        self.key_dim = key_dim or dim
        self.value_dim = value_dim or (dim if key_dim is None else key_dim)
        self.out_dim = out_dim or dim
        made: dict[str, Any] = {"bias": bias, "dtype": dtype, "device": device}
        self.q_proj = nn.Linear(dim, heads * self.d_k, **made)
        self.k_proj = nn.Linear(self.key_dim, kv_heads * self.d_k, **made)
        self.v_proj = nn.Linear(self.value_dim, kv_heads * self.d_v, **made)
        self.out_proj = nn.Linear(heads * self.d_v, self.out_dim, **made)
        self.score = self._score(score).to(device=device, dtype=dtype)
        self.align = self._alignment(align).to(device=device, dtype=dtype)
        self.rotary = _rotary(rotary, self.d_k)
        if self.rotary is not None:
            self.rotary.to(device=device)
        self.register_load_state_dict_pre_hook(from_torch_names)
        self.reset_parameters()
        self._check_fit()

    def reset_parameters(self) -> None:
        """Projections as in nn.MultiheadAttention: Xavier-uniform weights, zero biases. The score keeps its own."""
        for proj in (self.q_proj, self.k_proj, self.v_proj, self.out_proj):
            nn.init.xavier_uniform_(proj.weight)
            if proj.bias is not None:
                nn.init.zeros_(proj.bias)

    @classmethod
    def from_torch(cls, mha: nn.MultiheadAttention) -> "Attention":
        """From a torch.nn.MultiheadAttention, with equal outputs, attention weights and gradients.

        Two things differ. Inputs are (batch, length, dim) whatever mha.batch_first was; and a row without a key gives
        zeros where torch gives NaN. Its masks become structures: key_padding_mask -> Mask(keep=~mask[:, None, None]),
        attn_mask (bool) -> Mask(keep=~mask), is_causal -> Causal(). Averaged weights are map.weights().mean(-3).
        """
        check_torch(mha)
        weight = mha.out_proj.weight
        made = cls(
            mha.embed_dim,
            mha.num_heads,
            key_dim=mha.kdim,
            value_dim=mha.vdim,
            dropout=mha.dropout,
            bias=mha.in_proj_bias is not None,
            dtype=weight.dtype,
            device=weight.device,
        )
        made.load_state_dict(mha.state_dict())
        return made.train(mha.training)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        over: "Structure | str | None" = None,
        *,
        cache: Cache | None = None,
        positions: "Tensor | tuple[Tensor, Tensor] | None" = None,
        state: Tensor | None = None,
        seed: "int | Tensor | None" = None,
        backend: str = "auto",
        stats: "str | tuple[str, ...] | list[str] | None" = None,
        **by_torch: Any,
    ) -> Attended:
        """Self-attention with a query alone, cross-attention with a key (and a value; the key unless given).

        query (B, j, dim) may be a jagged NestedTensor: each sequence attends itself (or its own keys), and out is
        jagged too.

        over       which pairs may attend; all unless given. Required with a growing cache:
                   Causal(align="end") for decoding
        cache      a Cache: the new keys and values are appended and attention runs over all of it;
                   or a fixed memory from `remember`; or sequences of a `PagedCache`
        positions  position ids (..., n) for rotary: of the queries, or (of the queries, of the keys); from the
                   cache, or 0, 1, 2, ... unless given
        state      `Attended.state` of the previous step (stepwise mechanisms)
        seed       makes dropout and sampling reproducible
        backend    as in `attend`
        stats      as in `attend`: row statistics in `Attended.stats`
        by_torch   is_causal as in torch; for masks and other names of torch the error says what to write
        """
        if by_torch:
            over = _over_of(by_torch, query, key, over)
        if isinstance(query, Tensor) and query.is_nested:
            return self._over_sequences(query, key, value, over, cache, state, seed, backend)
        if cache is not None and not isinstance(cache, Cache):
            raise TypeError(
                f"cache= got {shown(cache)}, expected a Cache: cache = Cache() before the first step, then "
                "cache=cache at every step."
            )
        if state is not None and (not isinstance(state, Tensor) or state.ndim < 2):
            raise TypeError(
                f"state= got {shown(state)}, expected Attended.state of the previous step, a tensor (..., heads, m)."
            )
        if cache is not None and not cache.closed and getattr(self.score, "score", self.score).looks_back:
            raise ValueError(
                f"score={type(self.score).__name__} needs earlier queries, which this cache does not hold: "
                "use nn.MultiTokenAttention for decoding; Attention runs whole sequences."
            )
        before = 0 if cache is None else cache.length
        q, k, v = self._project(query, key, value, over, cache, positions)
        training = self.training
        if state is not None and cache is not None:  # no weight on keys newer than the previous step
            state = nn.functional.pad(state, (0, k.shape[-2] - state.shape[-1]))
        try:
            over = over if cache is None else cache.structure(over, q.shape[-2])
            attended = attend(
                q,
                k,
                v,
                self.score,
                self.align,
                over,
                dropout=self.dropout if training else 0.0,
                sample=training,
                seed=seed,
                backend=backend,
                state=state,
                stats=stats,
            )
        except Exception:
            if cache is not None:  # roll the cache back if the step fails
                cache.truncate(before)
            raise
        return replace(attended, out=self.join_heads(attended.out, query))

    def join_heads(self, out: Tensor, query: Tensor) -> Tensor:
        """(..., heads, n, d_v) -> (..., n, out_dim)"""
        joined: Tensor = self.out_proj(out.transpose(-3, -2).flatten(-2))
        return joined

    def _over_sequences(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        over: "Structure | str | None",
        cache: Cache | None,
        state: Tensor | None,
        seed: "int | Tensor | None",
        backend: str,
    ) -> Attended:
        """Jagged inputs (B, j, dim) as packed rows, with positions restarting at 0 in each sequence."""
        if cache is not None or state is not None:
            raise ValueError("cache= and state= belong to padded batches: use a PagedCache for growing sequences.")
        jagged: Any = query  # not in torch's stubs: attributes of jagged tensors
        keys: Any = query if key is None else key
        values = keys if value is None else value
        rows = unpacked(query, keys, values, over)
        given = (None, None) if key is None else (rows.k, None if value is None else rows.v)
        places = tuple(Packing(x.offsets(), x.values().shape[-2]).places for x in (jagged, keys))
        found = self(rows.q, *given, rows.over, positions=places, seed=seed, backend=backend)
        return replace(found, out=rows.like(found.out))

    def remember(self, key: Tensor, value: Tensor | None = None) -> Cache:
        """Projects the keys and values of a memory once: attention(query, cache=memory) at every step of a decoder."""
        if self.rotary is not None:
            raise ValueError(
                "remember(key): this layer applies rotary positions to keys, and a later query "
                "has no position among them. Use rotary=None for cross-attention."
            )
        value = key if value is None else value
        self._check_inputs(key, key, value, queries=False)
        return Cache.holding(_split(self.k_proj(key), self.kv_heads), _split(self.v_proj(value), self.kv_heads))

    def plan(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        over: "Structure | str | None" = None,
        *,
        backend: str = "auto",
    ) -> Plan:
        """The plan of a call in the current mode: print it to see the core, the backend and every refusal."""
        q, k, v = self._project(query, key, value, over, None, None)
        dropout = self.dropout if self.training else 0.0
        return plan(q, k, v, self.score, self.align, over, dropout=dropout, sample=self.training, backend=backend)

    def _project(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        over: "Structure | str | None",
        cache: Cache | None,
        positions: "Tensor | tuple[Tensor, Tensor] | None",
    ) -> tuple[Tensor, Tensor, Tensor]:
        """q (..., heads, n, d_k), k (..., kv_heads, m, d_k), v (..., kv_heads, m, d_v)."""
        if key is None and value is not None:
            raise ValueError("value= was given without key=: pass both (cross-attention) or neither (self-attention).")
        if cache is not None and cache.closed:
            return self._over_memory(query, key, cache)
        if cache is not None and over is None:
            raise ValueError(
                "cache= needs over=, so that new queries do not attend future tokens by accident:\n"
                'over=Causal(align="end") for decoding (the last query sees every key);\n'
                "over=Full() if every query may see every key, new ones included."
            )
        key = query if key is None else key
        value = key if value is None else value
        self._check_inputs(query, key, value)
        q = _split(self.q_proj(query), self.heads)
        k = _split(self.k_proj(key), self.kv_heads)
        v = _split(self.v_proj(value), self.kv_heads)
        if self.rotary is not None:
            starts = _starts(positions, cache, query.shape[-2])
            q, k = self.rotary(q, starts[0]), self.rotary(k, starts[1])
        if cache is not None:
            k, v = cache.append(k, v)
        return q, k, v

    def _over_memory(self, query: Tensor, key: Tensor | None, cache: Cache) -> tuple[Tensor, Tensor, Tensor]:
        if key is not None:
            raise ValueError("key= was given with a closed cache, which holds the keys already: pass one of the two.")
        self._check_input("query", query, self.dim, "dim")
        assert cache.keys is not None and cache.values is not None
        return _split(self.q_proj(query), self.heads), cache.keys, cache.values

    def _check_inputs(self, query: Tensor, key: Tensor, value: Tensor, queries: bool = True) -> None:
        wanted = (
            ("query", query, self.dim, "dim"),
            ("key", key, self.key_dim, "key_dim"),
            ("value", value, self.value_dim, "value_dim"),
        )
        for name, x, width, argument in wanted[0 if queries else 1 :]:
            self._check_input(name, x, width, argument)
        if query.shape[:-2] != key.shape[:-2] or query.shape[:-2] != value.shape[:-2]:
            raise ValueError(
                f"query {tuple(query.shape)}, key {tuple(key.shape)} and value {tuple(value.shape)} "
                "differ in their batch axes (all but the last two)."
            )
        if key.shape[-2] != value.shape[-2]:
            raise ValueError(f"key has {key.shape[-2]} rows and value has {value.shape[-2]}: each key needs one value.")

    def _check_input(self, name: str, x: Any, width: int, argument: str) -> None:
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} is a {type(x).__name__}, expected a tensor (..., length, {width}).")
        if x.ndim < 2 or x.shape[-1] != width:
            raise ValueError(self._width(name, x, width, argument))
        weight = self.q_proj.weight
        if x.device != weight.device:
            raise ValueError(f"{name} is on {x.device}, this layer is on {weight.device}: move one with .to(...).")
        if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
            raise TypeError(
                f"{name} is {x.dtype}, this layer is {weight.dtype}: convert one of them, "
                f"{name}.to({weight.dtype}) or layer.to({x.dtype})."
            )

    @staticmethod
    def _width(name: str, x: Tensor, width: int, argument: str) -> str:
        return (
            f"{name} has shape {tuple(x.shape)}, expected (..., length, {width}); the width is fixed by "
            f"Attention({argument}={width})."
        )

    def _score(self, score: "str | Score | Modifier") -> Score:
        if isinstance(score, str):
            return build_score(score, self.d_k, self.d_k, self.heads)
        if isinstance(score, Score):
            return score
        if isinstance(score, Modifier):
            return score_of(score)
        raise TypeError(f"Attention(score=) got {type(score).__name__}, expected a name or a Score object.")

    def _alignment(self, align: "str | Alignment") -> Alignment:
        if isinstance(align, str):
            return build_alignment(align, self.d_k, self.d_k, self.heads)
        if isinstance(align, Alignment):
            return align
        raise TypeError(f"Attention(align=) got {type(align).__name__}, expected a name or an Alignment object.")

    def _check_fit(self) -> None:
        """Runs one query and one key at construction, so that parts of the wrong size fail here."""
        weight = self.q_proj.weight
        if weight.is_meta:
            return
        q, v = weight.new_zeros(1, self.heads, 1, self.d_k), weight.new_zeros(1, self.heads, 1, self.d_v)
        try:
            with torch.no_grad():
                attend(q, q, v, self.score, self.align, backend="reference")
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            raise ValueError(
                f"Attention: {type(self.score).__name__} and {type(self.align).__name__} do not fit heads="
                f"{self.heads}, d_k={self.d_k}, d_v={self.d_v} ({error}). Build them for these sizes: heads= equal to "
                "the layer's, widths d_k, as many features as d_v."
            ) from error

    def extra_repr(self) -> str:
        parts = [f"dim={self.dim}, heads={self.heads}, d_k={self.d_k}, d_v={self.d_v}"]
        for name, usual in (
            ("kv_heads", self.heads),
            ("key_dim", self.dim),
            ("value_dim", self.key_dim),
            ("out_dim", self.dim),
            ("dropout", 0.0),
        ):
            if getattr(self, name) != usual:
                parts.append(f"{name}={getattr(self, name)}")
        return ", ".join(parts)


def _over_of(
    by_torch: "dict[str, Any]", query: Tensor, key: Tensor | None, over: "Structure | str | None"
) -> "Structure | str | None":
    """The structure of a call with torch's argument names."""
    call = {"q": query, "k": query if key is None else key, "over": over}
    own = ("query", "key", "value", "over", "cache", "positions", "state", "seed", "backend")
    translated("Attention.forward", by_torch, call, own, CALL_ANSWERS)
    return call["over"]  # type: ignore[return-value]


def _check_kind(dtype: Any, device: Any) -> None:
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise TypeError(f"Attention(dtype={shown(dtype)}): expected a floating-point type, for example torch.bfloat16.")
    if device is None:
        return
    try:
        torch.device(device)
    except (RuntimeError, TypeError, ValueError):
        raise ValueError(
            f'Attention(device={shown(device)}): expected a device, for example "cpu" or "cuda".'
        ) from None


def _split(x: Tensor, heads: int) -> Tensor:
    """(..., n, heads * d) -> (..., heads, n, d)."""
    return x.unflatten(-1, (heads, -1)).transpose(-3, -2)


def _starts(
    positions: "Tensor | tuple[Tensor, Tensor] | None", cache: Cache | None, n: int
) -> "tuple[int | Tensor, int | Tensor]":
    """Positions of queries and keys: of the first row, or of each row, (..., 1, n) with an axis for heads."""
    if positions is None:
        start = 0 if cache is None else cache.start_of(n)
        return start, start
    of_queries, of_keys = positions if isinstance(positions, (tuple, list)) else (positions, positions)
    for each in (of_queries, of_keys):
        if not isinstance(each, Tensor) or each.is_floating_point() or each.ndim < 1:
            raise TypeError(f"positions={shown(each)}: expected integers (..., n), one position a row.")
    return of_queries.unsqueeze(-2), of_keys.unsqueeze(-2)


def _rotary(rotary: "bool | float | Rotary | None", d_k: int) -> Rotary | None:
    if rotary is None or rotary is False:
        return None
    if isinstance(rotary, Rotary):
        if rotary.d != d_k:
            raise ValueError(
                f"Attention(rotary=Rotary({rotary.d})): the width of a head is d_k={d_k}; pass "
                f"rotary=True or Rotary({d_k})."
            )
        return rotary
    if not isinstance(rotary, (int, float)):
        raise TypeError(
            f"Attention(rotary=) got {type(rotary).__name__}, expected True, a base such as 10000.0, or a Rotary."
        )
    if d_k % 2:
        raise ValueError(f"Attention(rotary=...) rotates pairs of coordinates: expected an even d_k, got {d_k}.")
    if rotary is True:
        return Rotary(d_k)
    if not rotary > 1:
        raise ValueError(f"Attention(rotary={rotary}): expected a base greater than 1, for example 10000.0, or True.")
    return Rotary(d_k, base=number(rotary, "Attention", "rotary"))
