"""Flex: softmax of dot products with any pointwise modifier and any mask, fused by torch's FlexAttention.

    out = softmax(mod(scale q k^T + key bias), over) v        mod and the mask are compiled into the kernel

A modifier or a structure is called on one pair at a time, a number and its indices as tensors without axes, and what it
does there is what torch compiles: nothing is declared, a modifier of a user's own runs as built-in ones do, unless it
needs axes. A sink needs the row's log-sum-exp alone, and is exact:

    out' = out sigmoid(lse - sink),   lse' = log(exp(lse) + exp(sink))

Each new combination of parts, widths and precision is compiled once, and that is said. Gradients of tables, slopes and
pair biases are summed by torch with atomics on a GPU, in no fixed order: refused under deterministic algorithms.
"""

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ..core.alignments import RowState
from ..core.lowering.kernel_forms import CLAMP, DOT, PAIR_BIAS, SOFT_CAP, CoreForm
from ..core.lowering.score_kernels import DotCore, OpaqueCore
from ..core.lowering.serialization import transform
from ..core.lowering.support import EVERY_DENSE, KEY_BIAS, NO_TRANSFORMS, ROW_BIAS, SINK, Support
from ..core.lowering.tiles import Tile
from ..core.modifiers import Modifier
from ..core.plan import Plan
from ..core.registry import Backend, BackendResult
from ..core.structures import Full, Structure
from ..core.torch_private import any_transformed, compilations_up_to
from .chunked.backend import too_small_for_kernel

WIDTHS = (16, 32, 64, 128, 256)  # of heads, for which torch's kernels of a GPU have configurations
COMBINATIONS = 256  # of parts and widths, that one process may compile


class Flex(Backend):
    """torch.nn.attention.flex_attention, compiled."""

    name = "flex"

    support = Support(
        ("softmax",),
        EVERY_DENSE,
        (CoreForm(DOT).family,),
        (SOFT_CAP, CLAMP, PAIR_BIAS, "any other function of a score and its place, your own too"),
        (KEY_BIAS, ROW_BIAS, SINK),
    )

    def refusals(self, plan: Plan) -> list[str]:
        why = self.support.alignment_refusals(plan) + self.support.structure_refusals(plan)
        why += _call_refusals(plan)
        if why:
            return why
        if why := _core_refusals(plan):
            return why
        score = plan.problem.score
        if score.sink is not None and plan.q.device.type == "cpu":
            return ["A sink needs the log-sum-exp of rows, which torch's FlexAttention does not return on a CPU."]
        return _pair_refusals(plan) + _gradient_refusals(plan)

    def part_refusals(self, plan: Plan) -> list[str]:
        why = self.support.alignment_refusals(plan) + self.support.structure_refusals(plan) + _width_refusals(plan)
        return why or _core_refusals(plan) or _pair_refusals(plan)

    def defers(self, plan: Plan) -> bool:
        """On a CPU it is compiled for each shape, and chunked is not; on a GPU what is small is not worth it."""
        return plan.q.device.type != "cuda" or too_small_for_kernel(plan)

    def run(self, plan: Plan) -> BackendResult:
        score, shape = plan.shared, (plan.batch, plan.heads)
        core = score.core
        assert isinstance(core, DotCore)
        q, k = core.a.unflatten(0, shape), core.b.unflatten(0, (plan.batch, -1))
        v = plan.v if k.shape[1] == plan.k.shape[1] else plan.v_by_head
        out, lse = _attended(plan, q, k, v)
        if lse is None:
            return BackendResult(out)
        if score.sink is not None:
            out, lse = _with_sink(out, lse, score.sink.unflatten(0, shape))
        tau = torch.where(lse == float("-inf"), float("inf"), lse.detach())
        return BackendResult(out, RowState(tau.flatten(0, 1)))


def _call_refusals(plan: Plan) -> list[str]:
    """Where and how a plan is called."""
    why = []
    device = plan.q.device.type
    if device not in ("cuda", "cpu"):
        why.append("It runs on a CUDA device, and forward alone on a CPU.")
    if torch.compiler.is_compiling():
        why.append("It is compiled by itself, and not inside torch.compile or torch.export.")
    if any_transformed((plan.q, plan.k, plan.v)):
        why.append(NO_TRANSFORMS)
    if plan.q.dtype == torch.float64:
        why.append("Its sums are in fp32.")
    if plan.dropout:
        why.append("It has no dropout.")
    if 0 in (plan.batch, plan.heads, plan.n, plan.m, plan.q.shape[-1], plan.v.shape[-1]):
        why.append("It needs a query, a key and a width.")
    return why + _width_refusals(plan)


def _width_refusals(plan: Plan) -> list[str]:
    return [f"Its heads are up to {WIDTHS[-1]} wide."] if max(plan.q.shape[-1], plan.v.shape[-1]) > WIDTHS[-1] else []


def _core_refusals(plan: Plan) -> list[str]:
    score = plan.problem.score
    if isinstance(score.core, OpaqueCore) or not isinstance(score.core, DotCore) or score.core.edge is not None:
        return [f"It scores by {CoreForm(DOT).family}; this is {score.core}."]
    if score.features is not None:
        return ["It has one weight a pair; this score has one for each feature."]
    return []


_fit_for_pairs: set[type[Modifier]] = set()  # built-in modifiers, once they were asked


class _OnPairs(TorchDispatchMode):
    """What runs inside gives numbers: torch's kernel computes nothing else for a pair."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        if isinstance(found, Tensor) and found.ndim and not func.is_view:  # a table that is indexed twice is a view
            raise ValueError(f"{func.overloadpacket} makes {tuple(found.shape)}")
        return found


def _pair_refusals(plan: Plan) -> list[str]:
    """Modifiers and structures may count on the axes of a tile, (g, r, c), which one pair has not, or compute with
    whole tables."""
    modifiers = [transform(each, _in_fp32) for each in plan.problem.score.modifiers if type(each) not in _fit_for_pairs]
    forms = plan.structure_forms
    if not modifiers and None not in forms:
        return []
    number, place = torch.zeros((), device=plan.q.device), torch.zeros((), dtype=torch.long)  # a place is read: no sync
    tile = Tile(place, place, place, place, plan.n, plan.m)
    calls: list[tuple[Any, Any, tuple[Any, ...]]] = [(each, each.forward, (number, tile)) for each in modifiers]
    alien = zip(plan.over.parts(), forms, strict=True)
    calls += [(part, part.allowed, (tile,)) for part, form in alien if form is None]
    for part, call, arguments in calls:
        try:
            with torch.no_grad(), _OnPairs():
                call(*arguments)
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            why = str(error).splitlines()[0][:120]
            return [f"It calls {type(part).__name__} on one pair, tensors without axes, where {why}."]
        if isinstance(part, Modifier) and part.closed:
            _fit_for_pairs.add(type(part))
    return []


def _gradient_refusals(plan: Plan) -> list[str]:
    if not torch.is_grad_enabled():
        return []
    score = plan.problem.score
    captured = [x for x in _tensors_of(score.modifiers) + _tensors_of((plan.over,)) if x.requires_grad]
    given = [plan.q, plan.k, plan.v, score.core.a, score.core.b, score.key_bias, score.row_bias, score.sink, *captured]
    if not any(x is not None and x.requires_grad for x in given):
        return []
    if plan.q.device.type == "cpu":
        return ["On a CPU torch's FlexAttention has no gradient: call it under torch.no_grad(), or use chunked."]
    biased = [x for x in (score.key_bias, score.row_bias) if x is not None and x.requires_grad]
    if (captured or biased) and torch.are_deterministic_algorithms_enabled():
        return [
            "torch sums gradients of what a modifier holds in no fixed order, and deterministic ones are asked for."
        ]
    return []


def _tensors_of(parts: tuple[Any, ...]) -> list[Tensor]:
    """Every tensor that modifiers and structures hold."""
    found: list[Tensor] = []

    def note(x: Tensor) -> Tensor:
        found.append(x)
        return x

    for part in parts:
        if isinstance(part, nn.Module):
            found += [*part.parameters(), *part.buffers()]
        transform(part, note)
    return found


def _with_sink(out: Tensor, lse: Tensor, sink: Tensor) -> tuple[Tensor, Tensor]:
    """The output and log-sum-exp of rows with one more key, of logit sink (B, H) and no value."""
    sink = sink[..., None].to(lse.dtype)
    faded = (out * torch.sigmoid(lse - sink)[..., None]).to(out.dtype)
    return faded, torch.where(lse > float("-inf"), torch.logaddexp(lse, sink), lse)


def _attended(plan: Plan, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor | None]:
    """out (B, H, n, d_v) and lse (B, H, n), -inf where a row sees nobody; None on a CPU, where torch has none."""
    score, core, d_v = plan.shared, plan.shared.core, v.shape[-1]
    assert isinstance(core, DotCore)
    if q.device.type == "cuda":  # zeros change no score, and widths of the values are cut off again
        q, k = (F.pad(x, (0, _wide_enough(x.shape[-1]) - x.shape[-1])) for x in (q, k))
        v = F.pad(v, (0, _wide_enough(d_v) - d_v))
    modifiers = tuple(transform(modifier, _in_fp32) for modifier in score.modifiers)
    biases = [None if x is None else _in_fp32(x).unflatten(0, (plan.batch, -1)) for x in _biases(plan)]
    mod = None
    if modifiers or any(x is not None for x in biases):
        mod = _score_mod(modifiers, biases[0], biases[1], plan.heads, plan.n, plan.m)
    over = None if type(plan.over) is Full else _block_mask(plan)
    _say(plan, modifiers)
    grouped = k.shape[1] != q.shape[1]
    out, lse = _compiled(q.device.type != "cpu")(q, k, v, mod, over, core.scale, grouped)
    return out[..., :d_v], lse


def _biases(plan: Plan) -> tuple[Tensor | None, Tensor | None]:
    return plan.shared.key_bias, plan.shared.row_bias


def _in_fp32(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _wide_enough(width: int) -> int:
    return next(size for size in WIDTHS if size >= width)


def _score_mod(
    modifiers: tuple[Modifier, ...], key_bias: Tensor | None, row_bias: Tensor | None, heads: int, n: int, m: int
) -> Callable[..., Tensor]:
    """What torch calls score_mod: biases of keys, which heads of queries may share, and of rows, then each modifier."""
    group = 1 if key_bias is None else heads // key_bias.shape[1]

    def mod(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if key_bias is not None:
            score = score + key_bias[b, h // group, j]
        if row_bias is not None:
            score = score + row_bias[b, h, i]
        tile = Tile(b, h, i, j, n, m)
        for modifier in modifiers:
            score = modifier(score, tile)
        return score

    return mod


def _mask_mod(over: Structure, n: int, m: int) -> Callable[..., Tensor]:
    """What torch calls mask_mod."""

    def allowed(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        keep = over.allowed(Tile(b, h, i, j, n, m))
        return torch.ones_like(i, dtype=torch.bool) if keep is None else keep

    return allowed


def _block_mask(plan: Plan) -> Any:
    """Which tiles are closed, open, or neither; of structures without tensors made once for each size."""
    key = plan.over.plan_key()
    if key is not None:
        return _known_block_mask(_Hashed(plan.over, key), plan.n, plan.m, plan.q.device)
    return _made_block_mask(plan.over, plan.batch, plan.heads, plan.n, plan.m, plan.q.device)


class _Hashed:
    """A structure, equal to another of the same constants."""

    def __init__(self, over: Structure, key: Any):
        self.over, self.key = over, key

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and self.key == other.key


@cache
def _known_block_mask(over: _Hashed, n: int, m: int, device: torch.device) -> Any:
    return _made_block_mask(over.over, None, None, n, m, device)


def _made_block_mask(
    over: Structure, batch: int | None, heads: int | None, n: int, m: int, device: torch.device
) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    return create_block_mask(_mask_mod(over, n, m), batch, heads, n, m, device=device)


@cache
def _compiled(with_lse: bool) -> Callable[..., tuple[Tensor, Tensor | None]]:
    """flex_attention under torch.compile: uncompiled, it would write out all scores."""
    from torch.nn.attention.flex_attention import AuxRequest, flex_attention

    def run(
        q: Tensor, k: Tensor, v: Tensor, mod: Any, over: Any, scale: float, grouped: bool
    ) -> tuple[Tensor, Tensor | None]:
        if not with_lse:
            return flex_attention(q, k, v, mod, over, scale=scale, enable_gqa=grouped), None
        aux = AuxRequest(lse=True)
        out, rest = flex_attention(q, k, v, mod, over, scale=scale, enable_gqa=grouped, return_aux=aux)
        return out, rest.lse

    compiled = torch.compile(run, fullgraph=True)

    def within_limit(*arguments: Any) -> tuple[Tensor, Tensor | None]:
        with compilations_up_to(COMBINATIONS):
            found: tuple[Tensor, Tensor | None] = compiled(*arguments)
        return found

    return within_limit


_said: set[Any] = set()


def _say(plan: Plan, modifiers: tuple[Modifier, ...]) -> None:
    """Half a minute of silence looks like a fault: said once for each combination that is compiled."""
    parts = (*(type(x).__name__ for x in modifiers), *(type(x).__name__ for x in plan.over.parts()))
    trains = torch.is_grad_enabled() and plan.q.requires_grad
    key = (parts, plan.q.dtype, plan.q.shape[-1], plan.v.shape[-1], plan.q.device.type, trains)
    if key not in _said:
        _said.add(key)
        told = ", ".join(x for x in parts if x != "Full") or "no modifier"
        print(f"regard: torch compiles FlexAttention with {told}; some seconds, once a process.", file=sys.stderr)
