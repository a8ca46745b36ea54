"""The reference: attention by its definition. It materialises every score, works in fp64 and differentiates twice.

    scores = score(q, k);  weights = align(scores over the allowed pairs);  out = weights @ v

Sums, statistics and weights are in fp32 or better, whatever the input: of 16 bits, what the score multiplies (q, k and
what it projects them to) and the result are rounded, and nothing between. Everything else is tested against it.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from ..core.alignments import Alignment, RowContext, open_pairs
from ..core.alignments.alignment import masked
from ..core.errors import check_scores
from ..core.lowering import blockwise
from ..core.lowering.blocks import Block, edge_block
from ..core.lowering.score_kernels import EdgePart, OpaqueCore
from ..core.lowering.tiles import Tile
from ..core.plan import Plan
from ..core.registry import Backend, BackendResult
from ..core.scores import Modified
from ..core.scores.score import Score, wide
from ..core.structures.edges import Neighbours, neighbours_of


class Reference(Backend):
    """The definition: every score and weight materialised."""

    name = "reference"

    def refusals(self, plan: Plan) -> list[str]:
        if plan.score.stepwise and (neighbours_of(plan.over) is not None or plan.align.stepwise):
            return ["A stepwise score needs a dense structure and an alignment that is not stepwise itself."]
        inner = plan.score.score if isinstance(plan.score, Modified) else plan.score
        if inner.positional and plan.edge_key is not None:
            return ["This score looks at where a key stands among all keys, and edges give each pair a key of its own."]
        return plan.part_refusals

    def defers(self, plan: Plan) -> bool:
        return False

    def run(self, plan: Plan) -> BackendResult:
        graph = neighbours_of(plan.over)
        if graph is not None:
            return _on_edges(plan, graph)
        q, k, v = plan.q, plan.k_by_head, plan.v_by_head
        tile = Tile.whole(plan.batch, plan.heads, plan.n, plan.m, q.device)
        keep = plan.over.allowed(tile)
        if keep is not None:
            keep = keep.expand(plan.batch * plan.heads, plan.n, plan.m).unflatten(0, (plan.batch, plan.heads))
        if plan.score.stepwise:
            return _step_by_step(plan, k, v, keep)
        s = _scores_of_half(plan)
        if s is None:
            s = plan.score(q, k)  # (B, H, [F,] n, m)
            check_scores(plan.score, s, q, k, plan.score.feature_count(q))
            s = wide(s)
        noise = None
        if plan.sample and plan.align.samples:
            noise = _by_head(plan, plan.align.draw_noise(tile, plan.seed))
        if s.ndim == 5:
            keep, noise = _with_features(keep), _with_features(noise)
        keep = open_pairs(s, keep) if plan.align.uses_scores else keep
        sink = plan.score.sink if isinstance(plan.score, Modified) else None
        s, keep, noise = _with_sink(s, keep, noise, sink, plan, tile)
        if plan.align.stepwise:
            w = plan.align(s, keep, noise, plan.previous_weights)
            return BackendResult(
                _average(w, v, plan, tile), weights=w, last=w[..., -1, :] if plan.n else plan.previous_weights
            )
        w = _aligned(plan.align, s, keep, noise)
        name = torch.arange(plan.m, device=s.device)
        name = name if sink is None else torch.nn.functional.pad(name, (0, 1), value=-2)
        chosen, log_prob, entropy = _choice(plan.align, s, keep, noise, name)
        w = w if sink is None else w[..., :-1]
        if not plan.align.remembers:
            return BackendResult(_average(w, v, plan, tile), weights=w)
        return BackendResult(_average(w, v, plan, tile), index=chosen, log_prob=log_prob, entropy=entropy)


def _scores_of_half(plan: Plan, rows: Tensor | None = None) -> Tensor | None:
    """Of 16 bits, scores in fp32 by the normal form, (B, H, [F,] n, m): those that maps and other backends weigh.

    With `rows`, of each with its neighbours on the edges, (B, H, [F,] n, c). None where q is not in 16 bits, where
    nobody looks at scores, or where they depend on where a key stands: then the score runs as it is written.
    """
    if plan.q.dtype not in (torch.float16, torch.bfloat16) or not plan.align.uses_scores:
        return None
    if isinstance(plan.problem.score.core, OpaqueCore) and plan.score.positional:
        return None
    problem = plan.problem.in_full_precision()
    heads = slice(0, plan.batch * plan.heads)
    if rows is None:  # slices that name no length, for which torch.compile would compile anew
        tile = Tile.whole(plan.batch, plan.heads, plan.n, plan.m, plan.q.device)
        block = Block(heads, slice(None), slice(None), tile)
    else:
        block = edge_block(problem, heads, rows)
    with _without_autocast(plan.q):
        return blockwise.scores(problem, block, mask=False).unflatten(0, (plan.batch, plan.heads))


def _without_autocast(x: Tensor) -> AbstractContextManager[None]:
    """Sums in fp32 stay in fp32: autocast has made q, k and v of 16 bits, and has no more to say."""
    return nullcontext() if x.is_meta else torch.autocast(x.device.type, enabled=False)


def _weighted(w: Tensor, v: Tensor, form: str | None = None) -> Tensor:
    """w v in the precision of the weights, rounded once. form: of an einsum, where it is no matrix product."""
    with _without_autocast(v):
        full = v.to(w.dtype)
        return (w @ full if form is None else torch.einsum(form, w, full)).to(v.dtype)


def _by_head(plan: Plan, x: Tensor) -> Tensor:
    return x.expand(plan.batch * plan.heads, plan.n, plan.m).unflatten(0, (plan.batch, plan.heads))


def _with_features(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.unsqueeze(2)


def _with_sink(
    s: Tensor, keep: Tensor | None, noise: Tensor | None, sink: Tensor | None, plan: Plan, tile: Tile
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """One more column, open to every row that sees a key at all."""
    if sink is None:
        return s, keep, noise
    logits = sink.to(s.dtype).reshape((-1,) + (1,) * (s.ndim - 2)).expand(*s.shape[:-1], 1)
    if keep is None and s.shape[-1] == 0:
        keep = torch.ones_like(s, dtype=torch.bool)
    if keep is not None:
        keep = torch.cat([keep, keep.any(-1, keepdim=True)], -1)
    if noise is not None:  # the sink is drawn like any other key
        own = tile.gumbel_of_sink(plan.seed).unflatten(0, (plan.batch, plan.heads))
        noise = torch.cat([noise, own if s.ndim == 4 else own.unsqueeze(2)], -1)
    return torch.cat([s, logits], -1), keep, noise


def _average(w: Tensor, v: Tensor, plan: Plan, tile: Tile) -> Tensor:
    """(B, H, n, d_v), after the known factors and dropout."""
    if plan.factor is not None:
        bell = _by_head(plan, plan.factor.of(tile))
        w = w * (bell if w.ndim == 4 else bell.unsqueeze(2))
    if plan.dropout:
        mask = _by_head(plan, (tile.uniform(plan.seed + 1) >= plan.dropout) / (1 - plan.dropout))
        w = w * (mask if w.ndim == 4 else mask.unsqueeze(2))
    return _weighted(w, v, None if w.ndim == 4 else "bhfnm,bhmf->bhnf")


def _aligned(align: Alignment, s: Tensor, keep: Tensor | None, noise: Tensor | None) -> Tensor:
    """Alignments see (..., H, n, m): a feature axis stands before the heads for the time being."""
    if s.ndim == 4:
        return align(s, keep, noise)
    before = [None if x is None else x.transpose(1, 2) for x in (s, keep, noise)]
    return align(*before).transpose(1, 2)


def _choice(
    align: Alignment, s: Tensor, keep: Tensor | None, noise: Tensor | None, key: Tensor
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """For alignments that choose: the index, so that maps never choose again; for a draw also its log-probability
    and the entropy of what it was drawn from, (B, H, n). `key` (c,) or (n, c) names the columns."""
    if not align.chooses:
        return None, None, None
    with torch.no_grad():
        allowed = s if keep is None else s.masked_fill(~keep, float("-inf"))
        index = align.state(
            allowed.flatten(0, 1), RowContext(None if noise is None else noise.flatten(0, 1), key)
        ).index
        assert index is not None
    if not align.reports_draw or s.ndim == 5:
        return index, None, None
    if s.shape[-1] == 0:
        nothing = s.new_zeros(s.shape[:-1])
        return index, nothing, nothing
    with torch.no_grad():
        place = (allowed if noise is None else allowed + noise).argmax(-1, keepdim=True)
    log_p = torch.log_softmax(masked(s, keep), -1)
    none = index.unflatten(0, s.shape[:2]) == -1  # an empty row; -2 is the sink, a choice like any other
    open_log_p = log_p if keep is None else log_p.masked_fill(~keep, 0.0)  # -inf has no finite gradient
    terms = open_log_p.exp() * open_log_p
    entropy = -terms.sum(-1)
    return index, log_p.gather(-1, place).squeeze(-1).masked_fill(none, 0.0), entropy.masked_fill(none, 0.0)


def _step_by_step(plan: Plan, k: Tensor, v: Tensor, keep: Tensor | None) -> BackendResult:
    """Query by query: each step sees the weights of the one before."""
    score = plan.score
    keys = score.project_keys(k)
    keep = (
        torch.ones(plan.batch, plan.heads, plan.n, plan.m, dtype=torch.bool, device=k.device) if keep is None else keep
    )
    previous = plan.previous_weights
    rows = []
    for t in range(plan.n):
        if previous is None:
            previous = score.start(keep[:, :, 0])
        s = wide(score.step(plan.q[:, :, t], keys, previous))
        previous = plan.align(s.unsqueeze(-2), keep[:, :, t : t + 1]).squeeze(-2)
        rows.append(previous)
    w = torch.stack(rows, -2) if rows else wide(v.new_zeros(plan.batch, plan.heads, 0, plan.m))
    tile = Tile.whole(plan.batch, plan.heads, plan.n, plan.m, k.device)
    return BackendResult(_average(w, v, plan, tile), weights=w, last=previous)


def _joined(x: Tensor, part: EdgePart, edge: Tensor, missing: Tensor, head: int) -> Tensor:
    """Keys (B, n, H, c, d) or values (B, H, n, c, d) with what their edges add, or multiply; `head` says where H is."""
    own = part.x[:, :, edge.clamp_min(0)].masked_fill(missing, 0.0).movedim(1, head)  # (B, H, n, c, d) before
    return x + own if part.join == "add" else x * own


def _on_edges(plan: Plan, graph: Neighbours) -> BackendResult:
    """Each row with its own neighbours, padded to the largest degree: the definition on (n, 1, degree) problems."""
    rows = torch.arange(plan.n, device=plan.q.device)
    source, edge = graph.padded(rows)  # (n, c)
    flat = torch.arange(plan.batch * plan.heads, device=plan.q.device)[:, None, None]
    tile = Tile(
        flat // plan.heads, flat % plan.heads, rows[None, :, None], source[None], plan.n, plan.m, None, edge[None]
    )
    keep = plan.over.allowed(tile)
    assert keep is not None
    keep = keep.expand(plan.batch * plan.heads, *source.shape).unflatten(0, (plan.batch, plan.heads))
    q = plan.q.transpose(1, 2).unsqueeze(-2)  # (B, n, H, 1, d)
    missing = (edge < 0)[:, :, None]
    k = plan.k_by_head[:, :, source].masked_fill(missing, 0.0).transpose(1, 2)  # (B, n, H, c, d)
    values = plan.v_by_head[:, :, source].masked_fill(missing, 0.0)  # (B, H, n, c, d_v)
    if plan.edge_key is not None:
        k = _joined(k, plan.edge_key, edge, missing, 2)
    if plan.edge_value is not None:
        values = _joined(values, plan.edge_value, edge, missing, 1)
    inner = plan.score.score if isinstance(plan.score, Modified) else plan.score
    sink = plan.score.sink if isinstance(plan.score, Modified) else None
    s = _scores_of_half(plan, rows)
    if s is None:
        s = _scores_on_edges(plan, inner, q, k, rows, source, tile)
    keep = keep.unsqueeze(2) if s.ndim == 5 else keep
    noise = None
    if plan.sample and plan.align.samples:
        noise = plan.align.draw_noise(tile, plan.seed).expand(-1, *source.shape).unflatten(0, (plan.batch, plan.heads))
        noise = noise if s.ndim == 4 else noise.unsqueeze(2)
    width = s.shape[-1]
    keep = open_pairs(s, keep) if plan.align.uses_scores else keep
    s, keep, noise = _with_sink(s, keep, noise, sink, plan, tile)
    w = _aligned(plan.align, s, keep, noise)
    name = edge if sink is None else torch.nn.functional.pad(edge, (0, 1), value=-2)
    index, log_prob, entropy = _choice(plan.align, s, keep, noise, name)
    w = w[..., :width]
    if plan.factor is not None:
        bell = plan.factor.of(tile).unflatten(0, (plan.batch, plan.heads))
        w = w * (bell if w.ndim == 4 else bell.unsqueeze(2))
    if plan.dropout:
        mask = (tile.uniform(plan.seed + 1) >= plan.dropout) / (1 - plan.dropout)
        mask = mask.expand(plan.batch * plan.heads, *source.shape).unflatten(0, (plan.batch, plan.heads))
        w = w * (mask if w.ndim == 4 else mask.unsqueeze(2))
    form = "bhnc,bhncd->bhnd" if w.ndim == 4 else "bhfnc,bhncf->bhnf"
    return BackendResult(_weighted(w, values, form), index=index, log_prob=log_prob, entropy=entropy)


def _scores_on_edges(
    plan: Plan, inner: Score, q: Tensor, k: Tensor, rows: Tensor, source: Tensor, tile: Tile
) -> Tensor:
    """(B, H, [F,] n, c), of q (B, n, H, 1, d) and k (B, n, H, c, d), which stand at `source` (n, c) among all keys."""
    if inner.positional:  # where a key stands matters, so it is scored among all keys
        s = wide(inner(plan.q, plan.k_by_head)[:, :, rows[:, None], source])
    else:
        s = inner(q, k)
        check_scores(inner, s, q, k, inner.feature_count(q))
        s = wide(s.squeeze(-2).transpose(1, 2))  # (B, H, n, c), with features (B, H, n, F, c)
    s = s.transpose(2, 3) if s.ndim == 5 else s
    if isinstance(plan.score, Modified):
        s = s.flatten(0, 1)
        for modifier in plan.score.pointwise():
            s = modifier(s, tile)
        s = s.unflatten(0, (plan.batch, plan.heads))
    return s
