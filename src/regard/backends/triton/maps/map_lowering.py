"""A map as its kernels read it: its score as dot products or pairs, its alignment as f(s - tau) and what else is known
of a row."""

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from regard.backends.segment_spans import ranges_and_stretches
from regard.core.alignments import RowState
from regard.core.lowering.kernel_forms import ABSOLUTE, DOT, POWER, SOFT_CAP, SQUARE
from regard.core.lowering.score_kernels import DotCore, PairCore

from ..dense.backend import MAX_HEADS, MAX_WIDTH

if TYPE_CHECKING:
    from regard.core.lowering.blocks import Problem

MAX_REPEATED = 1 << 29  # numbers of vectors that are repeated for each feature


@functools.cache
def launches() -> Any:
    """Its module, which imports Triton."""
    from . import launch

    return launch


def map_tensors_of(problem: "Problem", slab: slice, state: RowState | None = None) -> Any:
    """Some heads of a map as its kernels read them; None where they cannot. Without a state, tau is to be found."""
    align, score = problem.align, problem.score
    kind, scored = _alignment_of(problem), _scores_of(problem, slab)
    if kind is None or scored is None or (state is None and not (kind.plain and score.sink is None)):
        return None
    batch, n, m = problem.g // max(1, problem.heads), problem.n, problem.m
    found = ranges_and_stretches(problem.structure, batch, problem.heads, n, m)
    heads, features = slab.stop - slab.start, score.features or 1
    if found is None or heads * features > MAX_HEADS or not n or not m or not heads:
        return None
    ranges, low, high = found
    capped = score.modifiers[0].kernel_form() if score.modifiers and align.uses_scores else None
    cap = None if capped is None else capped.bound
    bell, (tau, index, share) = problem.factor, (None, None, None) if state is None else state
    if kind.picked and (tau is None or index is None):
        return None
    picks = index.shape[-1] if index is not None and tau is not None and index.ndim > tau.ndim else 1

    def of_these_heads(x: Tensor | None, *shape: int) -> Tensor | None:
        return None if x is None else x.detach()[slab].reshape(-1, *shape or x.shape[1:]).contiguous()

    return launches().MapTensors(
        *scored,
        cap,
        ranges,
        of_these_heads(low),
        of_these_heads(high),
        slab.start,
        problem.heads,
        features,
        kind.number,
        of_these_heads(kind.power),
        kind.cool,
        problem.seed if kind.drawn else None,
        of_these_heads(tau, n),
        of_these_heads(share, n),
        None if bell is None else of_these_heads(bell.centre.float()),
        0.0 if bell is None else 0.5 / bell.width**2,
        of_these_heads(index, n, picks) if kind.picked else None,
        kind.picked,
    )


class MapAlignment(NamedTuple):
    """An alignment in the kernels."""

    number: int
    power: Tensor | None = None  # (g,): 1 / (alpha - 1) of an entmax
    picked: int = 0
    cool: float = 1.0
    drawn: bool = False

    @property
    def plain(self) -> bool:
        """Whether tau is a log sum exp and all of the state."""
        return self.number == 0 and not self.picked


def _alignment_of(problem: "Problem") -> MapAlignment | None:
    form = problem.align.kernel_form()
    if form is None:
        return None
    drawn = form.temperature is not None and problem.sample and problem.seed is not None
    cool = 1.0 if form.temperature is None else 1 / form.temperature
    if form.function < SQUARE:
        return MapAlignment(form.function, picked=form.keys, cool=cool, drawn=drawn)
    alpha = problem.alpha
    if form.function == SQUARE and alpha is None:
        return MapAlignment(SQUARE)
    alpha = torch.full((problem.g,), form.alpha, device=problem.device) if alpha is None else alpha.float()
    return MapAlignment(POWER, 1 / (alpha - 1))


def _scores_of(problem: "Problem", slab: slice) -> tuple[Any, ...] | None:
    """a, b, readout, biases of keys and rows, the core's number, scale, linear, bent: each feature a head."""
    score, features = problem.score, problem.score.features or 1
    core, heads = score.core, slab.stop - slab.start
    if core.a.dtype == torch.float64:
        return None
    if not problem.align.uses_scores:
        zeros = [core.a.new_zeros((features * heads, places, 1)) for places in (problem.n, problem.m)]
        return *zeros, None, None, None, 0, 1.0, 0.0, 0.0
    modifiers = [modifier.kernel_form() for modifier in score.modifiers]
    capped = len(modifiers) <= 1 and all(form is not None and form.family == SOFT_CAP for form in modifiers)
    if not isinstance(core, (DotCore, PairCore)) or core.edge is not None or not capped:
        return None
    found = _vectors(core, slab, features)
    if found is None or not 0 < found[0].shape[2] <= MAX_WIDTH:
        return None
    key_bias, row_bias = score.key_bias, score.row_bias
    if key_bias is not None:
        key_bias = key_bias.detach()[slab].flatten(0, 1) if key_bias.ndim == 3 else _each(key_bias, slab, features)
    row_bias = None if row_bias is None else _each(row_bias, slab, features)
    a, b, readout, *numbers = found
    return a, b, readout, *(None if x is None else x.float().contiguous() for x in (key_bias, row_bias)), *numbers


def _each(x: Tensor, slab: slice, features: int) -> Tensor:
    """What a head has, for each of its features."""
    return x.detach()[slab] if features == 1 else x.detach()[slab].repeat_interleave(features, 0)


def _vectors(
    core: DotCore | PairCore, slab: slice, features: int
) -> tuple[Tensor, Tensor, Tensor | None, int, float, float, float] | None:
    """a, b and readout of some heads and their features, number, scale, linear and bent."""
    form = core.kernel_form()
    if form is not None and form.code > ABSOLUTE:
        form = None  # -x^2/2, which pairs of these kernels do not have
    if isinstance(core, PairCore) and core.readout is None:  # each hidden number is a feature: a vector of one
        a, b = (x.detach()[slab].mT.flatten(0, 1)[..., None].contiguous() for x in (core.a, core.b))
        if core.join == "mul":
            return (a, b, None, DOT, 1.0, 0.0, 0.0) if core.act == "identity" else None
        ones = torch.ones_like(a[:, 0], dtype=torch.float32)
        return None if form is None else (a, b, ones, form.code, 1.0, form.linear, form.bend)
    repeated = features * (core.a[slab].numel() + core.b[slab].numel())
    if (
        form is None
        or (features > 1 and repeated > MAX_REPEATED)
        or (isinstance(core, PairCore) and core.join == "mul")
    ):
        return None
    a, b = (_each(x, slab, features).contiguous() for x in (core.a, core.b))
    if isinstance(core, PairCore):
        if isinstance(core.readout, Tensor):
            readout = core.readout.detach()[slab]
            readout = readout.mT.flatten(0, 1) if readout.ndim == 3 else readout
        else:
            assert core.readout is not None
            readout = torch.full((a.shape[0], a.shape[2]), core.readout, device=a.device)
        return a, b, readout, form.code, 1.0, form.linear, form.bend
    if not core.scale or not a.shape[2]:  # biases alone
        return a.new_zeros((*a.shape[:2], 1)), b.new_zeros((*b.shape[:2], 1)), None, 0, 1.0, 0.0, 0.0
    if core.scale < 0:  # the kernels take the largest of the products before they scale them
        return -a, b, None, 0, -core.scale, 0.0, 0.0
    return a, b, None, 0, core.scale, 0.0, 0.0
