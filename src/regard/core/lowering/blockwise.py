"""Evaluating a plan block by block: the scores, states and weights of some rows at a time, and their gradients.

This is the arithmetic that the chunked backend and every lazy map share; see `blocks.py`.
"""

import torch
from torch import Tensor

from ..alignments import RowContext, RowState, open_pairs
from ..alignments.sparse import entmax
from .blocks import Block, Problem
from .score_kernels import Grads, Index, add_rows


def allowed(problem: Problem, block: Block) -> Tensor | None:
    """(g or 1, r, c), with a feature axis for feature-wise weights."""
    keep = problem.structure.allowed(block.tile)
    if keep is not None and problem.score.features is not None:
        keep = keep.unsqueeze(1)
    return keep


def scores(problem: Problem, block: Block, trail: list[Tensor] | None = None, mask: bool = True) -> Tensor:
    """Scores of a block, -inf where a pair is masked: (g, r, c) or (g, F, r, c).

    `trail` collects the scores before each modifier and after the last, for the gradient.
    """
    score, features = problem.score, problem.score.features
    if not problem.align.uses_scores:
        g, r, c = block.shape
        a = problem.score.core.a
        shape = (g, r, c) if features is None else (g, features, r, c)
        s = torch.zeros(shape, dtype=a.dtype if a.dtype == torch.float64 else torch.float32, device=a.device)
    else:
        s = score.core.scores(block.slab, block.rows, block.cols, block.ids)
        s = s if s.dtype == torch.float64 else s.float()
        if score.key_bias is not None:
            if score.key_bias.ndim == 3:
                s = s.unsqueeze(1) if s.ndim == 3 else s
                bias = score.key_bias[block.slab][:, :, block.cols]  # (g, F, c) or (g, F, r, c)
                s = s + (bias if bias.ndim == 4 else bias.unsqueeze(-2))
            else:
                bias = score.key_bias[block.slab][:, block.cols]  # (g, c) or (g, r, c)
                bias = bias if bias.ndim == 3 else bias[:, None]
                s = s + (bias if s.ndim == 3 else bias[:, None])
        if score.row_bias is not None:
            bias = score.row_bias[block.slab][:, block.rows, None]
            s = s + (bias if s.ndim == 3 else bias[:, None])
        for modifier in score.modifiers:
            if trail is not None:
                trail.append(s)
            s = modifier(s, block.tile)
        if trail is not None:
            trail.append(s)
    keep = allowed(problem, block) if mask else None
    return s if keep is None else s.masked_fill(~keep, float("-inf"))


def row_context(problem: Problem, block: Block) -> RowContext:
    """The inputs of an alignment other than the scores."""
    noise = None
    if problem.sample and problem.seed is not None and problem.align.samples:
        noise = block.tile.gumbel(problem.seed)
        noise = noise.unsqueeze(1) if problem.score.features is not None else noise
    key = block.tile.key[0, 0] if block.tile.edge is None else block.tile.edge[0]
    return RowContext(noise, key, block.slab, problem.alpha)


def with_sink(
    problem: Problem, block: Block, s: Tensor, context: RowContext, peak: Tensor | None = None
) -> tuple[Tensor, RowContext]:
    """Appends the sink, if any, as a column; `peak` (g, [F,] r) has already been subtracted from s."""
    sink = problem.score.sink
    if sink is None:
        return s, context
    column = sink[block.slab].to(s.dtype).reshape((-1,) + (1,) * (s.ndim - 1)).expand(*s.shape[:-1], 1)
    column = column if peak is None else column - peak[..., None]
    noise = context.noise
    if noise is not None:  # the sink is sampled like any other key
        assert problem.seed is not None
        own = block.tile.gumbel_of_sink(problem.seed)
        own = own if problem.score.features is None else own.unsqueeze(1)
        noise = torch.cat([noise, own.expand(*noise.shape[:-1], 1)], -1)
    assert context.key is not None
    key = torch.nn.functional.pad(context.key, (0, 1), value=-2)  # not a valid index
    return torch.cat([s, column], -1), context._replace(noise=noise, key=key)


def peak_of(problem: Problem, block: Block, s: Tensor) -> Tensor:
    """(g, [F,] r): the maximum of each whole row, sink included; 0 for an empty row."""
    if s.shape[-1] == 0:
        return s.new_zeros(s.shape[:-1])
    peak = with_sink(problem, block, s, row_context(problem, block))[0].amax(-1)
    return peak.masked_fill(peak == float("-inf"), 0.0)


def row_state(problem: Problem, block: Block, s: Tensor, peak: Tensor | None = None) -> RowState:
    """The state of whole rows; of scores minus `peak` if given."""
    full, context = with_sink(problem, block, s, row_context(problem, block), peak)
    return _without_empty_rows(problem, s, problem.align.state(full, context))


def state_and_weights(problem: Problem, block: Block, s: Tensor) -> tuple[RowState, Tensor, Tensor]:
    """State, weights and scores of a block of whole rows; weights and scores have the sink as the last column."""
    full, context = with_sink(problem, block, s, row_context(problem, block))
    state, w = problem.align.state_and_weights(full, context)
    if problem.score.sink is not None:
        w = w.masked_fill(_without_keys(s)[..., None], 0.0)
    return _without_empty_rows(problem, s, state), w, full


def _without_keys(s: Tensor) -> Tensor:
    """Bool (..., r): rows of the scores (..., r, c) that may attend no key."""
    return (s == float("-inf")).all(-1)


def _without_empty_rows(problem: Problem, s: Tensor, state: RowState) -> RowState:
    """Rows without a key stay empty, also with a sink."""
    if problem.score.sink is None:
        return state
    empty, index = _without_keys(s), state.index
    if index is not None:
        index = index.masked_fill(empty if index.ndim == empty.ndim else empty[..., None], -1)
    return state._replace(tau=state.tau.masked_fill(empty, float("inf")), index=index)


def pick(state: RowState, slab: slice, rows: Index) -> RowState:
    """The state of a block's rows, from the state of all rows (g, [F,] n)."""

    def take(x: Tensor | None, extra: int = 0) -> Tensor | None:
        if x is None:
            return None
        axis = x.ndim - 1 - extra
        part = x[slab]
        return part[(slice(None),) * axis + (rows,)]

    tau = take(state.tau)
    assert tau is not None
    deep = state.index is not None and state.index.ndim > state.tau.ndim
    return RowState(tau, take(state.index, int(deep)), take(state.scale))


def weights(problem: Problem, block: Block, s: Tensor, state: RowState) -> Tensor:
    """f(s - tau) of a block, before the factor and before dropout."""
    return problem.align.weights(s, state, row_context(problem, block))


def whole_weights(problem: Problem, block: Block, s: Tensor, state: RowState) -> tuple[Tensor, Tensor, RowContext]:
    """Weights and scores of a block of whole rows, with the sink as the last column, and the context."""
    full, context = with_sink(problem, block, s, row_context(problem, block))
    return problem.align.weights_of_rows(full, state, context), full, context


def put(total: Tensor, block: Block, value: Tensor, extra: int = 0) -> None:
    """Writes a block's rows into (g, [F,] n, ...); `extra` axes follow the rows."""
    view = total[block.slab]
    view[(slice(None),) * (view.ndim - 1 - extra) + (block.rows,)] = value.to(total.dtype)


def scaled(problem: Problem, block: Block, w: Tensor, dropout: bool = True) -> Tensor:
    """Weights times factor and dropout mask."""
    for part in (factor(problem, block), dropped(problem, block) if dropout else None):
        w = w if part is None else w * part
    return w


def factor(problem: Problem, block: Block) -> Tensor | None:
    """g_ij without dropout: (g, r, c), or with a feature axis."""
    if problem.factor is None:
        return None
    bell = problem.factor.of(block.tile)
    return bell.unsqueeze(1) if problem.score.features is not None else bell


def dropped(problem: Problem, block: Block) -> Tensor | None:
    """0 or 1 / (1 - p) for each pair, the same for every feature."""
    if problem.dropout == 0.0 or problem.seed is None:
        return None
    seed = problem.seed + 1  # a stream separate from that of sampling
    mask = (block.tile.uniform(seed) >= problem.dropout) / (1 - problem.dropout)
    return mask.unsqueeze(1) if problem.score.features is not None else mask


def average(problem: Problem, block: Block, w: Tensor, v: Tensor) -> Tensor:
    """(g, r, d_v) from weights (g, [F,] r, c) and the values (g, m, d_v)."""
    values = _values(problem, block, v)
    if problem.score.features is None:
        if values.ndim == 4:
            return torch.einsum("grc,grcd->grd", w, values)
        return w @ values
    if values.ndim == 4:
        return torch.einsum("gfrc,grcf->grf", w, values)
    return torch.einsum("gfrc,gcf->grf", w, values)


def average_vjp(problem: Problem, block: Block, w: Tensor, v: Tensor, dout: Tensor, grads: Grads) -> Tensor:
    """The gradient of the weights; adds that of the values."""
    values = _values(problem, block, v)
    wide, own = problem.score.features is not None, values.ndim == 4
    if not wide and not own:
        add_rows(grads.of(v), block.slab, block.cols, w.transpose(-1, -2) @ dout)
        return dout @ values.transpose(-1, -2)
    forms = {
        (False, True): ("grc,grd->grcd", "grd,grcd->grc"),
        (True, False): ("gfrc,grf->gcf", "grf,gcf->gfrc"),
        (True, True): ("gfrc,grf->grcf", "grf,grcf->gfrc"),
    }[wide, own]
    dvalues = torch.einsum(forms[0], w, dout)
    if problem.edge_value is not None and block.ids is not None:
        dvalues = problem.edge_value.vjp(v[block.slab][:, block.cols], block.slab, block.ids, dvalues, grads)
    add_rows(grads.of(v), block.slab, block.cols, dvalues)
    return torch.einsum(forms[1], dout, values)


def _values(problem: Problem, block: Block, v: Tensor) -> Tensor:
    """The values of a block, (g, c, d_v), or (g, r, c, d_v) with edge values added."""
    values = v[block.slab][:, block.cols]
    if problem.edge_value is None or block.ids is None:
        return values
    return problem.edge_value.on(values, block.slab, block.ids)


def scores_vjp(problem: Problem, block: Block, trail: list[Tensor], ds: Tensor, grads: Grads) -> None:
    """From the gradient of a block's scores to those of the score's tensors."""
    score = problem.score
    for place in range(len(score.modifiers) - 1, -1, -1):
        ds = score.modifiers[place].vjp(trail[place], block.tile, trail[place + 1], ds, grads)
    if score.row_bias is not None:
        total = ds.sum(-1) if ds.ndim == 3 else ds.sum((1, -1))
        add_rows(grads.of(score.row_bias), block.slab, block.rows, total)
    if score.key_bias is not None:
        _key_bias_vjp(score.key_bias, block, ds, grads)
        if score.key_bias.ndim == 3 and score.core.features is None:
            ds = ds.sum(1)
    score.core.vjp(block.slab, block.rows, block.cols, ds, grads, block.ids)


def _key_bias_vjp(bias: Tensor, block: Block, ds: Tensor, grads: Grads) -> None:
    own = block.tile.edge is not None
    if bias.ndim == 3:  # (g, F, m): move features last so that keys are the second axis
        value = ds.movedim(1, -1)
        value = value if own else value.sum(1)
        add_rows(grads.of(bias).transpose(1, 2), block.slab, block.cols, value)
        return
    ds = ds if ds.ndim == 3 else ds.sum(1)
    add_rows(grads.of(bias), block.slab, block.cols, ds if own else ds.sum(1))


def weights_with_gradient(problem: Problem, block: Block, dropout: bool = False) -> Tensor:
    """Weights of whole rows of all heads by the reference, differentiable with respect to the plan's tensors."""
    s, keep = scores(problem, block, mask=False), allowed(problem, block)
    keep = open_pairs(s, keep) if problem.align.uses_scores else keep
    full, context = with_sink(problem, block, s, row_context(problem, block))
    if problem.score.sink is not None:
        keep = (
            None if keep is None else torch.cat([keep.expand(s.shape), keep.expand(s.shape).any(-1, keepdim=True)], -1)
        )
    if problem.alpha is not None:
        w = entmax(full, keep, problem.alpha.to(s.dtype).reshape((-1,) + (1,) * (s.ndim - 1)))
    else:
        w = problem.align(full, keep, context.noise)
    w = w[..., : s.shape[-1]]
    return scaled(problem, block, w, dropout)
