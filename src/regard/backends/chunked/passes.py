"""The two passes of chunked: rows taken a block at a time, so that nothing of size n x m is stored.

The backward recomputes each block from the row state. Row statistics (tau, and a draw's log-probability and entropy)
have their gradient here too.
"""

import torch
from torch import Tensor

from regard.core.alignments import RowState
from regard.core.lowering import blockwise
from regard.core.lowering.blocks import Block, Problem, blocks
from regard.core.lowering.score_kernels import Grads
from regard.core.structures.edges import neighbours_of

Results = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def forward_pass(problem: Problem, v: Tensor) -> Results:
    """out (g, n, d_v), tau (g, [F,] n), index, scale, and for a hard choice its log-probability and entropy (g, n)."""
    dtype = v.dtype
    problem, v = problem.in_full_precision(), full_precision(v)
    out, tau, index, scale, log_prob, entropy = empty_results(problem, v)
    draws = log_prob.numel() > 0
    for block in blocks(problem):
        s = blockwise.scores(problem, block)
        state, w, full = blockwise.state_and_weights(problem, block, s)
        put_state(block, state, tau, index, scale)
        if draws:
            log_p = _log_prob(full, state)
            blockwise.put(log_prob, block, torch.where(w > 0, log_p, 0.0).sum(-1))
            blockwise.put(entropy, block, -_p_log_p(log_p).sum(-1))
        out_view = out[block.slab]
        out_view[:, block.rows] = blockwise.average(
            problem, block, blockwise.scaled(problem, block, w[..., : s.shape[-1]]), v
        )
    return out.to(dtype), tau, index, scale, log_prob, entropy


def put_state(block: Block, state: RowState, tau: Tensor, index: Tensor, scale: Tensor) -> None:
    """Writes the state of a block's rows into that of all rows."""
    blockwise.put(tau, block, state.tau)
    if state.index is not None:
        deep = state.index.shape[state.tau.ndim :]
        blockwise.put(index[..., : deep[0]] if deep else index, block, state.index, extra=len(deep))
    if state.scale is not None:
        blockwise.put(scale, block, state.scale)


def empty_results(problem: Problem, v: Tensor) -> Results:
    g, n, features, like = problem.g, problem.n, problem.score.features, full_precision(v)
    shape = (g, n) if features is None else (g, features, n)
    out = like.new_zeros((g, n, v.shape[-1]))
    tau = like.new_full(shape, float("inf"))
    graph, k = neighbours_of(problem.structure), problem.align.k
    columns = problem.m if graph is None else graph.source.shape[0]  # edges may repeat, so a row may have more than m
    columns += problem.score.sink is not None
    index = torch.full(
        shape if k is None else (*shape, torch.sym_min(k, columns)), -1, dtype=torch.int32, device=v.device
    )
    draws = problem.align.reports_draw and features is None
    return (
        out,
        tau,
        index if problem.align.chooses else index.new_zeros(0),
        like.new_ones(shape) if problem.align.scales else like.new_zeros(0),
        like.new_zeros((g, n)) if draws else like.new_zeros(0),
        like.new_zeros((g, n)) if draws else like.new_zeros(0),
    )


def backward_pass(
    problem: Problem,
    v: Tensor,
    state: RowState,
    dout: Tensor,
    dtau: Tensor | None,
    dlog: Tensor | None,
    dentropy: Tensor | None,
    targets: list[Tensor],
) -> list[Tensor | None]:
    """Gradients of the targets (tensors of the problem, and v), block by block."""
    grads = Grads()
    for block in blocks(problem):
        trail: list[Tensor] = []
        s = blockwise.scores(problem, block, trail)
        part = blockwise.pick(state, block.slab, block.rows)
        w_full, full, context = blockwise.whole_weights(problem, block, s, part)
        w = w_full[..., : s.shape[-1]]
        dw = blockwise.average_vjp(
            problem, block, blockwise.scaled(problem, block, w), v, dout[block.slab][:, block.rows], grads
        )
        mask = blockwise.dropped(problem, block)
        dw = dw if mask is None else dw * mask
        dw = factor_vjp(problem, block, w, dw, grads)
        if not problem.align.uses_scores:
            continue
        ds = problem.align.vjp(full, w_full, _beside_sink(dw, problem), part, grads, context)
        ds = _statistics_vjp(problem, block, full, part, w_full, ds, dtau, dlog, dentropy)
        if problem.score.sink is not None:
            total = ds[..., -1].flatten(1).sum(1)
            grads.of(problem.score.sink)[block.slab] += total
            ds = ds[..., :-1]
        blockwise.scores_vjp(problem, block, trail, ds, grads)
    return [grads.get(target) for target in targets]


def factor_vjp(problem: Problem, block: Block, w: Tensor, dw: Tensor, grads: Grads) -> Tensor:
    """The gradient of the weights before their factor; adds that of the factor's centres."""
    bell = blockwise.factor(problem, block)
    if bell is None:
        return dw
    assert problem.factor is not None
    dbell, plain = dw * w, bell
    if problem.score.features is not None:
        dbell, plain = dbell.sum(1), bell[:, 0]
    view = grads.of(problem.factor.centre)[block.slab]
    view[:, block.rows] += problem.factor.centre_gradient(block.tile, plain, dbell)
    return dw * bell


def _beside_sink(dw: Tensor, problem: Problem) -> Tensor:
    return dw if problem.score.sink is None else torch.nn.functional.pad(dw, (0, 1))


def _statistics_vjp(
    problem: Problem,
    block: Block,
    s: Tensor,
    state: RowState,
    w: Tensor,
    ds: Tensor,
    dtau: Tensor | None,
    dlog: Tensor | None,
    dentropy: Tensor | None,
) -> Tensor:
    """What the row statistics add: d tau = sum p ds, d log p_c = ds_c - sum p ds, d H = -sum p (log p + H) ds."""
    log_p = None
    for extra, kind in ((dtau, "tau"), (dlog, "log"), (dentropy, "entropy")):
        if extra is None or extra.numel() == 0:
            continue
        log_p = _log_prob(s, state) if log_p is None else log_p
        p = log_p.exp()
        g = blockwise.pick(RowState(extra), block.slab, block.rows).tau[..., None]
        if kind == "tau":
            ds = ds + g * p
        elif kind == "log":
            ds = ds + g * (w * (state.tau < float("inf"))[..., None] - p)
        else:
            terms = _p_log_p(log_p)
            ds = ds - g * (terms - p * terms.sum(-1, keepdim=True))
    return ds


def _log_prob(s: Tensor, state: RowState) -> Tensor:
    return s - state.tau[..., None]


def _p_log_p(log_p: Tensor) -> Tensor:
    return torch.where(log_p > float("-inf"), log_p.exp() * log_p, 0.0)


def full_precision(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
