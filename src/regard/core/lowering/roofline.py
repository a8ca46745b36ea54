"""Roofline bound of a plan: the time of its limiting unit at the peak rates of a device.

    dot and softmax         max(2 P (d + d_v) / products, P / specials)
    tanh of a pair          P d / 2 specials (two fractions share a reciprocal), or 3 P d / simples
    (leaky) ReLU, |x|       2 P d / simples
    one weight a feature    P d_v exponentials, and as many reciprocals under tanh
    sparse alignments       the scores twice, to find tau and to use it
    top-k                   the scores once, then k values a row

    backward, dot           2 P (3 d + 2 d_v) / products: scores again, the gradients of weights, values, queries, keys
    backward, pairs         7 P d / simples for tanh, 5 otherwise: the sum again, its slope, three gradients

P is the number of pairs under causal and window structures. 16-bit products run on tensor cores, 32-bit ones do not.
Rates are an H200's: 132 multiprocessors at 1.98 GHz; the rate of products is measured.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..structures import Structure
from .kernel_forms import BEST_KEYS, POSITIVE_PART, TANH
from .score_kernels import DotCore, PairCore

if TYPE_CHECKING:
    from ..plan import Plan


@dataclass(frozen=True)
class Rates:
    """Peak rates of a device, per second: 16-bit products (FLOP), lane operations, special functions, bytes."""

    products: float
    simples: float
    specials: float
    bytes: float


RATES = {"H200": Rates(7.9e14, 3.35e13, 4.18e12, 4.8e12)}


@dataclass(frozen=True)
class Bound:
    """A lower bound of the time: seconds, and the limiting unit."""

    seconds: float
    by: str


def rates_of(device: torch.device) -> Rates | None:
    """Peak rates of a device; None if not in the table, as for CPUs."""
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    return next((rates for model, rates in RATES.items() if model in name), None)


def open_pairs(over: Structure, n: int, m: int) -> int:
    """Pairs of one head under causal and window structures; other structures count as full."""
    row = torch.arange(n)
    first, last = torch.zeros_like(row), torch.full_like(row, m - 1)
    for part in over.parts():
        form = part.kernel_form(n, m)
        if form is not None:
            first, last = torch.maximum(first, row - form.left), torch.minimum(last, row + form.right)
    return int((last - first + 1).clamp_min(0).sum())


def bound(plan: "Plan", rates: Rates) -> Bound:
    """The bound of the forward: the maximum over units."""
    score, d_v = plan.problem.score, plan.v.shape[-1]
    core = score.core
    d = core.a.shape[-1]
    pairs = float(plan.batch * plan.heads * open_pairs(plan.over, plan.n, plan.m))
    walks = 2 if _is_sparse(plan) else 1
    products, simples, specials = 0.0, 0.0, 0.0
    if score.features is None:
        kept = pairs
        if (top := _top(plan)) is not None:
            kept = min(pairs, float(plan.batch * plan.heads * plan.n * top))
        products += 2 * kept * d_v
        specials += kept if walks == 1 else 0.0
    else:
        specials += pairs * d_v
        simples += 2 * pairs * d_v
    if isinstance(core, DotCore):
        products += walks * 2 * pairs * d
    elif isinstance(core, PairCore):
        tanh = _is_tanh(core)
        specials += walks * pairs * d * (0.5 if score.features is None else 1.0) if tanh else 0.0
        simples += walks * pairs * d * (3 if tanh else 2)
    return _limit(plan, rates, products, simples, specials, _moved(plan))


def backward_bound(plan: "Plan", rates: Rates) -> Bound | None:
    """The bound of the gradients of queries, keys and values: the maximum over units.

    None if it depends on the data: sparse alignments need only pairs with weight.
    """
    score, d_v = plan.problem.score, plan.v.shape[-1]
    core = score.core
    if _is_sparse(plan) or _top(plan) is not None or score.features is not None:
        return None
    if not isinstance(core, (DotCore, PairCore)):
        return None
    d = core.a.shape[-1]
    pairs = float(plan.batch * plan.heads * open_pairs(plan.over, plan.n, plan.m))
    products, simples, specials = 4 * pairs * d_v, 0.0, pairs
    if isinstance(core, DotCore):
        products += 6 * pairs * d
    else:
        tanh = _is_tanh(core)
        specials += pairs * d / 2 if tanh else 0.0
        simples += pairs * d * (7 if tanh else 5)
    return _limit(plan, rates, products, simples, specials, 2 * _moved(plan))


def _is_sparse(plan: "Plan") -> bool:
    """Whether tau is a root, which takes two passes over the scores."""
    form = plan.align.kernel_form()
    return form is not None and form.function >= POSITIVE_PART and plan.align.simplex


def _top(plan: "Plan") -> int | None:
    form = plan.align.kernel_form()
    return form.top if form is not None and form.keys == BEST_KEYS else None


def _is_tanh(core: PairCore) -> bool:
    form = core.kernel_form()
    return form is not None and form.code == TANH


def _limit(plan: "Plan", rates: Rates, products: float, simples: float, specials: float, moved: float) -> Bound:
    full = plan.q.dtype not in (torch.float16, torch.bfloat16)
    needs = {
        "products": products / (2 * rates.simples if full else rates.products),
        "simple operations": simples / rates.simples,
        "special functions": specials / rates.specials,
        "memory": moved / rates.bytes,
    }
    by = max(needs, key=lambda name: needs[name])
    return Bound(needs[by], by)


def _moved(plan: "Plan") -> float:
    """Bytes of the inputs and the output."""
    tensors: tuple[Tensor, ...] = (plan.q, plan.k, plan.v)
    out = plan.batch * plan.heads * plan.n * plan.v.shape[-1] * plan.q.element_size()
    return float(sum(x.numel() * x.element_size() for x in tensors) + out)
