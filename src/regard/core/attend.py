"""attend(): the attention function and its result."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from . import plan_cache
from .alignments import Alignment, RowState
from .arguments.torch_arguments import translated
from .maps import table as _table  # noqa: F401 enlists to_pandas
from .maps.attention_map import AttentionMap
from .maps.lazy import LazyMap
from .maps.row_statistics import check_statistics, statistics_of
from .maps.stored import StoredMap
from .plan import Plan, make_plan
from .registry import BackendResult, choose
from .scores import Score
from .structures import Structure
from .structures.packed import unpacked
from .torch_private import register_dataclass, register_namedtuple


@dataclass(eq=False)
class Sample:
    """A sample: index (..., H, n) of the chosen keys (of the chosen edges on a graph, -1 for none; z (..., H, m)
    for a policy), and its log-probability.

    log_prob and entropy are differentiable; (..., H, n), or (..., H) for a policy over keys.
    """

    index: Tensor
    log_prob: Tensor
    entropy: Tensor

    def surrogate(
        self, loss: Tensor, baseline: float | Tensor = 0.0, reward_scale: float = 1.0, entropy_weight: float = 0.0
    ) -> Tensor:
        """The score-function surrogate: its gradient is an unbiased estimate of that of the expected loss.

            loss + reward_scale * stop(loss - baseline) * log p - entropy_weight * H

        loss: a number for each draw, or one that broadcasts. Any baseline leaves the expectation unchanged.
        """
        weight = (loss - baseline).detach() * reward_scale
        return loss + weight * self.log_prob - entropy_weight * self.entropy


@dataclass(eq=False)
class Attended:
    """out (..., H, n, d_v) and the lazy map of its weights; `out, amap = attend(...)` unpacks both.

    sample: of stochastic alignments (hard, reinforced). state: of stepwise mechanisms, for the next step. stats: the
    requested row statistics by name, each (..., H, [F,] n).
    """

    out: Tensor
    map: AttentionMap
    sample: Sample | None = None
    state: Tensor | None = None
    stats: dict[str, Tensor] | None = None

    def __iter__(self) -> Iterator[object]:
        return iter((self.out, self.map))

    def __getattr__(self, name: str) -> Any:  # asked for what there is not
        of_map = not name.startswith("_") and hasattr(AttentionMap, name)
        call = "()" if callable(getattr(AttentionMap, name, None)) else ""
        there = f"its map has it: write attend(...).map.{name}{call}" if of_map else "it has out, map, sample and state"
        raise AttributeError(f"What attend returns has no attribute {name!r}; {there}.", name=name, obj=self)

    def __repr__(self) -> str:
        parts = [f"out={_short(self.out)}", f"map={self.map!r}"]
        parts += ["sample"] * (self.sample is not None)
        parts += [] if self.state is None else [f"state={_short(self.state)}"]
        parts += [] if self.stats is None else [f"stats={', '.join(self.stats)}"]
        return f"Attended({', '.join(parts)})"

    def merge(self, other: "Attended") -> "Attended":
        """The exact result of attend over the keys of both, which must be disjoint: split keys, ring attention.

        softmax, uniform and ReLU: each side weighted by its mass; sigmoid with a fixed bias: the sum. Others are
        refused: their weights depend on all keys of a row jointly. The columns of the map are concatenated.
        """
        from .maps.merge import merged

        return merged(self, other)


def _short(x: Any) -> str:
    """Shape and dtype of a tensor."""
    return f"{tuple(x.shape)} {str(x.dtype).removeprefix('torch.')}" if isinstance(x, Tensor) else repr(x)


call_hooks: list[Callable[..., Attended]] = []  # while attention is recorded: the last one calls run(q, k, ...)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    score: "str | Score" = "scaled_dot",
    align: "str | Alignment" = "softmax",
    over: "Structure | str | None" = None,
    *,
    dropout: float = 0.0,
    sample: bool = False,
    seed: "int | Tensor | None" = None,
    backend: str = "auto",
    state: Tensor | None = None,
    stats: "str | tuple[str, ...] | list[str] | None" = None,
    **by_torch: Any,
) -> Attended:
    """Attention with any score, alignment and structure.

        y_i = sum_j w_ij v_j,   w_i = align(score(q_i, k_j)) over the pairs (i, j) that the structure allows

    q (..., H, n, d), k (..., H_k, m, d), v (..., H_k, m, d_v), H_k divides H  ->  out (..., H, n, d_v)

    score, align   a name or an object; a name means the parameter-free form. A modifier alone, ALiBi(8), is one of the
                   scaled dot product
    over           a structure: Full(), Causal(), Window(...), Padding(...), Mask(keep=...), Segments(...), Edges(...),
                   joined with &; or "full", "causal"
    dropout        on the weights, 0 <= dropout < 1; with a seed the same mask on every backend
    sample         True: Hard, Gumbel, Reinforced and Monotonic sample; else they are deterministic
    backend        "auto" takes the first that does not refuse; a name never falls back
    state          `Attended.state` of the previous step (stepwise mechanisms)
    stats          row statistics, differentiable: any of "max_logit", "entropy", "log_sum_exp", in Attended.stats
    seed           64 bits, -2**63 <= seed < 2**63, as an int or a 0-d integer tensor
    by_torch       is_causal, scale, dropout_p and enable_gqa mean what they mean in scaled_dot_product_attention; for
                   its masks and other names the error says what to write
    """
    if by_torch:
        named: dict[str, Any] = {"q": q, "k": k, "score": score, "over": over, "dropout": dropout}
        translated("attend", by_torch, named)
        score, over, dropout = named["score"], named["over"], named["dropout"]
    if isinstance(q, Tensor) and q.is_nested:
        rows = unpacked(q, k, v, over)
        found = attend(
            rows.q,
            rows.k,
            rows.v,
            score,
            align,
            rows.over,
            dropout=dropout,
            sample=sample,
            seed=seed,
            backend=backend,
            state=state,
            stats=stats,
        )
        return replace(found, out=rows.like(found.out))
    arguments = (q, k, v, score, align, over, dropout, sample, seed, backend, state, stats)
    if call_hooks:
        return call_hooks[-1](_plan_and_run, *arguments)
    fixed = (
        sample is False
        and type(dropout) in (float, int)
        and not dropout
        and seed is None
        and state is None
        and not stats
    )
    fixed = fixed and type(backend) is str and not torch.compiler.is_compiling()
    key = plan_cache.key_of(q, k, v, score, align, over, backend) if fixed else None
    call = None if key is None else plan_cache.calls.get(key)
    if call:
        result, plan = call.run(q, k, v), plan_cache.LazyPlan(call, q, k, v, over)
        return Attended(result.out, LazyMap(plan, result.state, call.lead, call.slab, watched=plan.watched()))
    made, attended = _plan_and_run(*arguments)
    if key is not None:
        plan_cache.learn(key, made)
    return attended


def _plan_and_run(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    score: "str | Score",
    align: "str | Alignment",
    over: "Structure | str | None",
    dropout: float,
    sample: bool,
    seed: "int | Tensor | None",
    backend: str,
    state: Tensor | None,
    stats: "str | tuple[str, ...] | list[str] | None",
) -> tuple[Plan, Attended]:
    names = check_statistics(stats)
    made = make_plan(q, k, v, score, align, over, dropout, sample, seed)
    chosen = choose(made, backend)
    made.backend = chosen.name
    if state is not None:
        made.previous_weights = _previous_weights(made, state)
    ran = chosen.run(made)
    amap: AttentionMap
    if ran.weights is not None:
        amap = StoredMap.of_plan(made, ran.weights)
    else:
        amap = LazyMap.of_plan(made, ran.state, ran.index)
    last = None if ran.last is None else made.output(ran.last)
    attended = Attended(made.output(ran.out), amap, _sample(made, ran), last)
    if names:
        _add_statistics(made, attended, names)
    return made, attended


def _add_statistics(plan: Plan, attended: Attended, names: tuple[str, ...]) -> None:
    of_rows = statistics_of(plan, names)
    attended.stats = {name: plan.output(x.unflatten(0, (plan.batch, plan.heads))) for name, x in of_rows.items()}
    if "entropy" in of_rows and isinstance(attended.map, LazyMap):
        attended.map.entropy_of_rows = of_rows["entropy"].detach()


def _previous_weights(plan: Plan, state: Tensor) -> Tensor:
    """The state of the previous step, (..., H, m), in the plan's shape."""
    if not (plan.score.stepwise or plan.align.stepwise):
        raise ValueError(
            f"state= belongs to stepwise mechanisms (LocationAware, Monotonic); "
            f"{type(plan.score).__name__} with {type(plan.align).__name__} has none."
        )
    shape = (plan.m,) if plan.q_ndim == 2 else (*plan.lead, plan.heads, plan.m)
    if not isinstance(state, Tensor) or tuple(state.shape) != shape:
        given = tuple(state.shape) if isinstance(state, Tensor) else type(state).__name__
        raise ValueError(
            f"state= is {given}, expected the weights of the previous step, {shape} = (..., heads, m): pass "
            "Attended.state of that step."
        )
    return state.reshape(plan.batch, plan.heads, plan.m)


def _sample(plan: Plan, ran: BackendResult) -> Sample | None:
    if plan.draw is not None:
        z, log_p, h = plan.draw
        return Sample(plan.output(z), plan.output(log_p), plan.output(h))
    if ran.log_prob is None or ran.entropy is None:
        return None
    index = ran.index if ran.state is None else ran.state.index
    assert index is not None
    index = index.unflatten(0, (plan.batch, plan.heads))
    return Sample(plan.output(index), plan.output(ran.log_prob), plan.output(ran.entropy))


# Serialized names, so that exported programs that return them can be saved.
register_dataclass(Sample, serialized_type_name="regard.Sample")
register_dataclass(Attended, serialized_type_name="regard.Attended")
register_namedtuple(RowState, serialized_type_name="regard.RowState")
