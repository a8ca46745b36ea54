"""What an alignment is: scores into weights, w_ij = g_ij f(s_ij - tau_i), and the row state it leaves."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from ..arguments.synonyms import ALIGNMENTS_ALSO
from ..lowering.kernel_forms import AlignmentForm
from ..lowering.score_kernels import Grads
from ..lowering.serialization import Spec
from ..lowering.tiles import Tile
from ..name_registry import Names, built_for
from ..torch_private import interpreter_stack

if TYPE_CHECKING:
    from ..structures import Structure
    from .local import Bell


class RowState(NamedTuple):
    """What a row stores so that each of its weights can be recomputed from its score.

    tau (..., n) fp32 or fp64, +inf for an empty row; index (..., n) or (..., n, k) int32, the keys chosen by hard and
    top-k (-1 for none); scale (..., n), a known factor of the row (ReLU's 1 / count).
    """

    tau: Tensor
    index: Tensor | None = None  # type: ignore[assignment] # hides tuple.index
    scale: Tensor | None = None


class RowContext(NamedTuple):
    """Where rows of scores stand: their Gumbel noise, the keys of their columns, the heads of the slab."""

    noise: Tensor | None = None  # like the scores; given when attend(sample=True)
    key: Tensor | None = None  # (c,) or (r, c)
    slab: slice = slice(None)  # of the flattened batch x heads
    alpha: Tensor | None = None  # (batch x heads,), where entmax learns it


NO_CONTEXT = RowContext()


ALIGNMENTS: "Names[Alignment]" = Names("alignment", ALIGNMENTS_ALSO)


class Alignment(nn.Module, Spec):
    """Scores into weights, over the last axis.

    `forward(s, keep)` is the definition: differentiable twice, zeros on masked pairs and on empty rows.
    Kernels use the other three on rows of scores that hold -inf where a pair is masked: `state` (what a row stores),
    `weights` (f, elementwise given the state) and `vjp` (the vector-Jacobian product of a block of rows).
    `noise` is Gumbel noise of the shape of s, given when attend(sample=True).

    class Powers(Alignment, name="powers") is known by that name wherever an alignment is asked for; page= says which
    page of docs/mechanisms is about it, the one of its own name unless told.
    """

    kept: ClassVar[tuple[str, ...]] = ()
    shift_invariant = True  # adding a constant to a row changes nothing
    simplex = True  # weights of a non-empty row sum to one
    stepwise = False  # rows depend on earlier rows: the map is stored
    ordered = (
        False  # a weight depends on the scores of later keys: it is computed from whole rows, in the order of keys
    )
    samples = False  # attend(sample=True) draws
    chooses = False  # the row state has an index
    k: int | None = None  # how many keys that index holds, where it holds several
    reports_draw = False  # the choice has a log-probability and an entropy: Attended.sample
    scales = False  # the row state has a scale
    selects = False  # it closes keys before they are scored: `select`
    alpha: "float | Tensor | None" = None  # of entmax; one a head where it is learned
    uses_scores = True
    remembers = False  # state, weights and vjp are there, so that rows can be run in blocks and read again

    def __init_subclass__(
        cls, *, name: "str | tuple[str, ...]" = (), free: bool = True, page: str = "", **options: Any
    ) -> None:
        """A subclass with its own forward does not inherit what kernels compute: it runs by its definition alone."""
        super().__init_subclass__(**options)
        if name:
            ALIGNMENTS.enlist(cls, name, free=free, page=page)
        if "plan_key" not in cls.__dict__:
            cls.plan_key = Alignment.plan_key  # type: ignore[method-assign]
        if "kernel_form" not in cls.__dict__:  # a subclass may do what no kernel knows
            cls.kernel_form = Alignment.kernel_form  # type: ignore[method-assign]
        if "weights" in cls.__dict__:
            cls.remembers = True
        elif "forward" in cls.__dict__:
            cls.remembers, cls.uses_scores, cls.chooses, cls.scales = False, True, False, False
            cls.reports_draw = False

    @classmethod
    def built_for(cls, d_q: int, d_k: int, heads: int = 1) -> Self:
        """The learned form for queries of width d_q and keys of width d_k: the constructor is given what it takes of
        d_q, d_k, d and heads."""
        return built_for(cls, d_q, d_k, heads)

    def plan_key(self) -> Hashable | None:
        """The constants that, beside the shapes, determine the plan of a call; None where it depends on more, such as
        tensors. Not inherited: a subclass may add state."""
        return None

    def check(self, q: Tensor, k: Tensor) -> None:
        """Refuses queries (B, H, n, d_q) and keys (B, H_k, m, d_k) that its parameters were not built for."""

    def kernel_form(self) -> AlignmentForm | None:
        """The alignment as kernels know it; None where they do not. Not inherited: each class says its own."""
        return None

    def draw_noise(self, tile: Tile, seed: Tensor) -> Tensor:
        """What attend(sample=True) adds to the scores, (g, r, c)."""
        return tile.gumbel(seed)

    def focus(self, q: Tensor, over: "Structure", m: int) -> "tuple[Structure, Bell | None]":
        """The structure narrowed by what the queries say, and a factor of the weights if there is one."""
        return over, None

    def select(
        self, k: Tensor, over: "Structure", uniform: Tensor | None
    ) -> "tuple[Structure, Tensor, Tensor, Tensor]":
        """Of a policy that draws keys (`selects`): the structure narrowed, the draw z (B, H, m), its log-probability
        and entropy (B, H). uniform (B, H, m) is given when attend(sample=True)."""
        raise TypeError(f"{type(self).__name__} has no select(k, over, uniform): one that selects defines it.")

    def forward(self, s: Tensor, keep: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        raise TypeError(f"{type(self).__name__} has no forward(s, keep): an alignment of your own defines it.")

    def state(self, s: Tensor, context: RowContext = NO_CONTEXT) -> RowState:
        raise TypeError(f'{type(self).__name__} has no state(s, context): without one it runs by backend="reference".')

    def weights(self, s: Tensor, state: RowState, context: RowContext = NO_CONTEXT) -> Tensor:
        raise TypeError(
            f"{type(self).__name__} has no weights(s, state, context): an alignment with a state defines it."
        )

    def whole(self, w: Tensor) -> Tensor:
        """Weights of whole rows; exponentials are divided by their sum here, since tau is rounded to |tau| eps."""
        return w

    def weights_of_rows(self, s: Tensor, state: RowState, context: RowContext = NO_CONTEXT) -> Tensor:
        """Weights from the scores of whole rows, without what rounding tau has lost."""
        return self.whole(self.weights(s, state, context))

    def state_and_weights(self, s: Tensor, context: RowContext = NO_CONTEXT) -> tuple[RowState, Tensor]:
        """The state of whole rows and their weights, made at once."""
        state = self.state(s, context)
        return state, self.weights_of_rows(s, state, context)

    def vjp(
        self, s: Tensor, w: Tensor, dw: Tensor, state: RowState, grads: Grads, context: RowContext = NO_CONTEXT
    ) -> Tensor:
        raise TypeError(f'{type(self).__name__} has no vjp(s, w, dw, ...): without one backend="reference" learns.')


def open_pairs(s: Tensor, keep: Tensor | None) -> Tensor:
    """keep, less the pairs whose score is -inf; the shape of s. A row of -inf is empty, not NaN; NaN keys propagate to
    their rows."""
    return s != float("-inf") if keep is None else keep & (s != float("-inf"))


def masked(s: Tensor, keep: Tensor | None) -> Tensor:
    """Scores with -inf where masked; rows without a key hold the lowest finite number: their gradients stay finite."""
    if keep is None:
        return s
    empty = ~keep.any(-1, keepdim=True)
    return s.masked_fill(~keep, float("-inf")).masked_fill(empty, torch.finfo(s.dtype).min)


def zeroed(w: Tensor, keep: Tensor | None) -> Tensor:
    return w if keep is None else w.masked_fill(~keep, 0.0)


def summing_to_one(w: Tensor) -> Tensor:
    """w / sum(w), in place; empty rows stay 0."""
    return w.div_(w.sum(-1, keepdim=True).clamp_min_(torch.finfo(w.dtype).tiny))


ROUNDED = 2.0**-17  # an error of tau above this is one of the weights: fp32 below 64 has less


def tau_rounding_matters(tau: Tensor) -> bool:
    """Whether rounding tau is seen in the weights; False while a graph is traced or captured. On a GPU the host waits
    for the answer: it is asked where a map is read, not where attention runs."""
    if torch.compiler.is_compiling() or type(tau) is not Tensor or tau.is_meta or interpreter_stack() is not None:
        return False
    if tau.is_cuda and torch.cuda.is_current_stream_capturing():
        return False
    return bool(((tau.abs() * torch.finfo(tau.dtype).eps > ROUNDED) & tau.isfinite()).any())


def counted(s: Tensor) -> Tensor:
    """How many keys each row may see: (..., n), from scores that hold -inf where masked."""
    return (s != float("-inf")).sum(-1)


def log_sum_exp(s: Tensor) -> Tensor:
    """Of each row, +inf (so that f gives 0) where a row has no key."""
    if s.shape[-1] == 0:
        return s.new_full(s.shape[:-1], float("inf"))
    total = torch.logsumexp(s, -1)
    return total.masked_fill(total == float("-inf"), float("inf"))
