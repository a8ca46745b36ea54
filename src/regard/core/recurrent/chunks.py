"""Recurrences in chunks: pairs inside a chunk by products of matrices, all that came before by the state.

Every exponent is a sum of log decays between two tokens, at most 0, so nothing overflows whatever the decay.
"""

import torch
from torch import Tensor


def decayed_chunks(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, state: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    """y_t = S_t^T q_t, S_t = a_t S_{t-1} + k_t v_t^T.

    q, k (g, n, d), v (g, n, d_v), decay (g, n) or (g, n, d), state (g, d, d_v) -> out (g, n, d_v), the last state.
    """
    outs = []
    for a, b, c, log in _cut(q, k, v, decay, size):
        total = log.cumsum(1)  # (g, c, 1 or d): from before the chunk to each token
        outs.append(_faded(a, b, total) @ c + (a * total.exp()) @ state)
        rest = (total[:, -1:] - total).exp()
        state = total[:, -1].exp()[..., None] * state + (b * rest).mT @ c
    return (torch.cat(outs, 1) if outs else v), state


def delta_chunks(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, beta: Tensor, state: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    """y_t = S_t^T q_t, S_t = (I - b_t k_t k_t^T) a_t S_{t-1} + b_t k_t v_t^T; decay as in `decayed_chunks`.

    What token t writes is u_t = b_t (v_t - (a_t S_{t-1})^T k_t); with it S is a decayed sum of k_t u_t^T, and the u of
    a chunk solve a triangular system: u_t + b_t sum_{j < t} (k_t . decay_jt k_j) u_j = b_t (v_t - (decay_t S)^T k_t).
    """
    outs = []
    for a, b, c, log, write in _cut(q, k, v, decay, size, beta):
        total = log.cumsum(1)
        overlap = (write[..., None] * _faded(b, b, total)).tril(-1)
        unit = torch.eye(a.shape[1], dtype=a.dtype, device=a.device)
        wanted = write[..., None] * (c - (b * total.exp()) @ state)
        u = torch.linalg.solve_triangular(overlap + unit, wanted, upper=False, unitriangular=True)
        outs.append(_faded(a, b, total) @ u + (a * total.exp()) @ state)
        rest = (total[:, -1:] - total).exp()
        state = total[:, -1].exp()[..., None] * state + (b * rest).mT @ u
    return (torch.cat(outs, 1) if outs else v), state


def _cut(q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, size: int, beta: Tensor | None = None):  # type: ignore[no-untyped-def]
    """The chunks: q, k, v, log decay (g, c, 1 or d), and beta where there is one."""
    log = q.new_zeros(*q.shape[:2], 1) if decay is None else decay if decay.ndim == 3 else decay[..., None]
    tensors = [q, k, v, log] if beta is None else [q, k, v, log, beta]
    return zip(*(x.split(size, 1) for x in tensors), strict=True) if q.shape[1] else []


def _faded(a: Tensor, b: Tensor, total: Tensor) -> Tensor:
    """a_i . decay_ji b_j, (g, c, c), 0 where j comes after i; a, b (g, c, d), total (g, c, 1 or d) the log decays."""
    size = total.shape[1]
    future = torch.ones(size, size, dtype=torch.bool, device=total.device).triu(1)[..., None]
    fade = (total[:, :, None] - total[:, None]).masked_fill(future, float("-inf")).exp()  # (g, c, c, 1 or d)
    return (a @ b.mT) * fade[..., 0] if fade.shape[-1] == 1 else torch.einsum("gic,gjc,gijc->gij", a, b, fade)
