"""linear_attend(): linear attention as a recurrence, and the map of weights that it implies."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ..arguments import shown, whole
from ..attend import Attended
from .chunks import decayed_chunks, delta_chunks
from .implied_map import ImpliedMap

CHUNK = 64  # tokens whose pairs are computed at once; the state is carried from one to the next
FEATURE_CHUNK = 16  # where each feature decays by itself: a number for each pair and feature

call_hooks: list[Callable[..., Attended]] = []  # while attention is recorded: the last one calls run(q, k, ...)


def linear_attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    log_decay: Tensor | None = None,
    beta: Tensor | None = None,
    state: Tensor | None = None,
    scale: float | None = None,
) -> Attended:
    """Causal linear attention with decay, with or without the delta rule, in O(n) time and memory.

        S_t = a_t S_{t-1} + k_t v_t^T                                  without beta
        S_t = (I - b_t k_t k_t^T) a_t S_{t-1} + b_t k_t v_t^T          with beta: the delta rule
        y_t = scale S_t^T q_t,   a_t = exp(log_decay_t), b_t = beta_t

    q, k (..., n, d), v (..., n, d_v), leading axes alike  ->  out (..., n, d_v) and the implied map,

        y_i = sum_j A_ij v_j,   A_ij = scale q_i . (a_{j+1} ... a_i) k_j   without beta

    which is causal and signed, whose rows need not sum to one, and which is computed where it is read (`ImpliedMap`).

    log_decay  (..., n), at most 0: RetNet (one number a head), Mamba-2, gated DeltaNet; (..., n, d): each feature of
               the keys decays by itself, a_t = diag(exp(log_decay_t)), as in GLA and Kimi delta attention; None: no
               decay (linear transformer, DeltaNet)
    beta       (..., n) in 0..2: how much of what a key held is replaced by the new value; k should have length 1
    state      (..., d, d_v) from `Attended.state` of the previous tokens, for decoding; zeros unless given
    scale      of the scores; 1 / sqrt(d) unless given

    Katharopoulos et al. 2020; Sun et al. 2023 (RetNet); Yang et al. 2024 (GLA, DeltaNet in chunks); Dao and Gu 2024
    (Mamba-2); Kimi Team 2025 (KDA). `Attended.state` is the last S; running tokens one by one with it equals running
    them at once.
    """
    _check(q, k, v, log_decay, beta, state)
    if call_hooks:
        return call_hooks[-1](_run, q, k, v, log_decay, beta, state, scale)
    return _run(q, k, v, log_decay, beta, state, scale)


def _run(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None,
    beta: Tensor | None,
    state: Tensor | None,
    scale: float | None,
) -> Attended:
    lead, n, d = q.shape[:-2], q.shape[-2], q.shape[-1]
    scale = d**-0.5 if scale is None else float(scale)
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    g = math.prod(lead)
    flat = [x.reshape(g, *x.shape[-2:]).to(wide) for x in (q, k, v)]
    decay = None if log_decay is None else log_decay.to(wide).reshape(g, n, *log_decay.shape[len(lead) + 1 :])
    write = None if beta is None else beta.to(wide).reshape(g, n)
    before = flat[0].new_zeros(g, d, v.shape[-1]) if state is None else state.to(wide).reshape(g, d, v.shape[-1])
    asked, size = flat[0] * scale, CHUNK if _by_head(decay) else FEATURE_CHUNK
    if write is None:
        out, last = decayed_chunks(asked, flat[1], flat[2], decay, before, size)
    else:
        out, last = delta_chunks(asked, flat[1], flat[2], decay, write, before, size)
    amap = ImpliedMap(tuple(lead), asked, flat[1], decay, write)
    return Attended(out.to(v.dtype).reshape(*lead, n, v.shape[-1]), amap, None, last.reshape(*lead, d, v.shape[-1]))


def _by_head(decay: Tensor | None) -> bool:
    return decay is None or decay.ndim == 2


def _check(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor | None, beta: Tensor | None, state: Tensor | None
) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor) or x.ndim < 2 or not x.is_floating_point():
            raise TypeError(f"linear_attend({name}={shown(x)}): expected a floating-point tensor (..., n, d).")
    if q.shape != k.shape or q.shape[:-1] != v.shape[:-1]:
        raise ValueError(
            f"linear_attend got q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)}: the state is "
            "written and read token by token, so expected q and k alike, and a value for each key."
        )
    whole(q.shape[-1], "linear_attend", "d")
    tokens, features = tuple(q.shape[:-1]), tuple(q.shape)
    if log_decay is not None and tuple(log_decay.shape) not in (tokens, features):
        raise ValueError(
            f"linear_attend(log_decay {tuple(log_decay.shape)}): expected {tokens}, a number for each head and "
            f"token, or {features}, one for each feature of the keys too; expand a constant, for example "
            "log_decay[:, None].expand(...)."
        )
    if beta is not None and tuple(beta.shape) != tokens:
        raise ValueError(
            f"linear_attend(beta {tuple(beta.shape)}): expected {tokens}, a number for each head and token."
        )
    carried = (*q.shape[:-2], q.shape[-1], v.shape[-1])
    if state is not None and tuple(state.shape) != carried:
        raise ValueError(
            f"linear_attend(state {tuple(state.shape)}): expected {carried} = (..., d, d_v), Attended.state of the "
            "previous tokens."
        )
