"""Chunked: any plan in O(n) memory, block by block, forward and backward, with the same bits each time."""

import pytest
import torch
from tests.backends.test_reference import SPREAD, Attends
from tests.catalogue import OwnModifier, OwnScore
from tests.oracle import Case, small_blocks
from torch.autograd import gradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from regard import (
    Additive,
    Causal,
    Edges,
    Entmax,
    Gaussian,
    LocationAware,
    Monotonic,
    Refused,
    ScaledDot,
    Sink,
    SoftCap,
    TopK,
    attend,
)
from regard.backends.chunked import backend as chunked
from regard.core.lowering.blocks import blocks as blocks_of
from regard.core.plan import make_plan


@pytest.mark.parametrize("case", SPREAD[::2], ids=lambda case: f"{case.score}, {case.align}, {case.over}")
def test_gradients_are_those_of_finite_differences(case):
    with small_blocks():
        f, point = Attends(case, "chunked").function()
        assert gradcheck(f, point, fast_mode=True)


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that any operator made, and the number of such calls."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in torch.utils._pytree.tree_leaves(out):
            if isinstance(x, torch.Tensor):
                # what it occupies: an expanded tensor is as large as its storage
                self.elements = max(self.elements, min(x.numel(), x.untyped_storage().nbytes() // x.element_size()))
        return out


def largest_of(q, k, v, **options):
    with Largest() as seen:
        out = attend(q, k, v, backend="chunked", **options).out
        out.sum().backward()
    return seen.elements


@pytest.mark.parametrize(
    ("score", "align", "over"),
    [
        (ScaledDot(), "softmax", None),
        (Additive(4, width=4), "softmax", None),
        (Gaussian() | SoftCap(5.0) | Sink(2), Entmax(1.5), Causal()),
        (ScaledDot(), TopK(4), None),
        (OwnScore(4, 2), "sparsemax", Causal()),
        (Additive(4, width=4, features=3), "softmax", None),
    ],
    ids=["scaled dot", "additive", "gaussian entmax causal", "top-k", "own", "by feature"],
)
def test_no_tensor_grows_with_queries_times_keys(score, align, over):
    """At n = m = 2048 the largest tensor, forward and backward, has at most a sixteenth of one head's n x m."""
    n, d_v = 2048, 3
    q, k, v = (torch.randn(1, 2, n, d, requires_grad=True) for d in (4, 4, d_v))
    with small_blocks(scores=1 << 16, pairs=1 << 16):
        assert largest_of(q, k, v, score=score, align=align, over=over) <= n * n // 16


def test_the_memory_probe_sees_the_reference_materialise():
    q, k, v = (torch.randn(1, 2, 256, 4, requires_grad=True) for _ in range(3))
    with Largest() as seen:
        attend(q, k, v, backend="reference").out.sum().backward()
    assert seen.elements >= 2 * 256 * 256


def test_memory_on_edges_grows_with_the_edges():
    n, count = 2000, 6000
    q, k, v = (torch.randn(1, 2, n, 4, requires_grad=True) for _ in range(3))
    graph = Edges(torch.randint(0, n, (2, count)))
    with small_blocks(scores=1 << 12, pairs=1 << 12):
        assert largest_of(q, k, v, score="additive", over=graph) <= 8 * count * 4


def test_blocks_are_as_small_as_the_budget_says():
    """The other tests lean on this: several slabs, several blocks of rows, each row exactly once."""
    plan = Case(score="additive", size="odd", heads="4 on 2").plan(torch.float32)
    with small_blocks():
        blocks = list(blocks_of(plan.problem))
    assert len({block.slab.start for block in blocks}) == 8 and len(blocks) == 8 * 17
    assert len(list(blocks_of(plan.problem))) == 1
    rows = sorted((block.slab.start, block.rows.start) for block in blocks)
    assert rows == [(g, i) for g in range(8) for i in range(17)]


@pytest.mark.parametrize("over", ["full", "edges", "causal & padding"])
def test_the_same_bits_twice(over):
    case = Case("additive | soft cap | relative bias | sink", "softmax", over, "odd", "4 on 2", dropout=0.3)
    say = torch.ones(1, 1, 1, 1)
    first, second = (case.outcome(torch.float32, "chunked in small blocks", say) for _ in range(2))
    for (_, one), (_, other) in zip(first.kinds(), second.kinds(), strict=True):
        for name in one:
            assert torch.equal(one[name], other[name]), name


@pytest.mark.parametrize("score", [ScaledDot(), OwnScore(4, 2)], ids=["built in", "own"])
def test_a_second_derivative_is_refused_with_the_way_out(score):
    q, k, v = (torch.randn(1, 2, 5, 4, requires_grad=True) for _ in range(3))
    out = attend(q, k, v, score, backend="chunked").out
    (first,) = torch.autograd.grad(out.square().sum(), q, create_graph=True)
    with pytest.raises(Refused, match=r'no second derivative.*backend="reference"'):
        first.sum().backward()


def test_a_first_derivative_may_be_taken_with_create_graph():
    q, k, v = (torch.randn(1, 2, 5, 4, requires_grad=True) for _ in range(3))
    for score in (ScaledDot(), OwnScore(4, 2)):
        kept = torch.autograd.grad(attend(q, k, v, score, backend="chunked").out.sum(), q, create_graph=True)
        plain = torch.autograd.grad(attend(q, k, v, score, backend="chunked").out.sum(), q)
        torch.testing.assert_close(kept[0].detach(), plain[0])


@pytest.mark.parametrize("score", [ScaledDot(), OwnScore(4, 2)], ids=["built in", "own"])
def test_vmap_is_refused_by_name(score):
    q, k, v = (torch.randn(3, 2, 5, 4) for _ in range(3))
    with pytest.raises(Refused, match="vmap"):
        torch.vmap(lambda a, b, c: attend(a, b, c, score, backend="chunked").out)(q, k, v)
    with pytest.raises(Refused, match=r"torch\.func"):
        torch.func.grad(lambda a: attend(a, k, v, score, backend="chunked").out.sum())(q)


def test_under_vmap_and_grad_auto_takes_the_reference():
    q, k, v = (torch.randn(3, 2, 5, 4) for _ in range(3))
    mapped = torch.vmap(lambda a, b, c: attend(a, b, c, "additive", "entmax15").out)(q, k, v)
    torch.testing.assert_close(mapped, attend(q, k, v, "additive", "entmax15", backend="chunked").out)
    found = torch.func.grad(lambda a: attend(a, k, v, "additive").out.square().sum())(q)
    q.requires_grad_()
    attend(q, k, v, "additive", backend="chunked").out.square().sum().backward()
    torch.testing.assert_close(found, q.grad)


def test_parameters_passed_by_functional_call_are_those_of_the_backward():
    """The loops call a user's module again in the backward, when functional_call has put its own parameters back."""
    q, k, v = (torch.randn(1, 2, 5, 4) for _ in range(3))
    score = ScaledDot() | OwnModifier(2)
    given = {"modifiers.0.gain": torch.tensor([2.0, -1.0], requires_grad=True)}

    def gradient(backend):
        out = torch.func.functional_call(Calls(score, backend), {"score." + n: p for n, p in given.items()}, (q, k, v))
        return torch.autograd.grad(out.square().sum(), list(given.values()))

    torch.testing.assert_close(gradient("chunked"), gradient("reference"))


class Calls(torch.nn.Module):
    def __init__(self, score, backend):
        super().__init__()
        self.score, self.backend = score, backend

    def forward(self, q, k, v):
        return attend(q, k, v, self.score, backend=self.backend).out


def operator_arguments(case: Case, dtype=torch.float32):
    plan = case.plan(dtype)
    parts = chunked.Parts([plan.v_by_head.flatten(0, 1)], [], [])
    text = chunked.encode(plan.problem, parts)
    return [x.detach().requires_grad_(x.is_floating_point()) for x in parts.tensors], text, parts.ints, parts.floats


OPERATED = [
    Case("scaled dot", "softmax", "full", "n<m"),
    Case("additive by feature", "top-3", "causal to the end", "n<m"),
    Case("gaussian | sink", "entmax, learned", "edges", "n=m"),
    Case("dot | alibi, learned", "hard, drawn", "padding", "n=m"),
    Case("general", "relu", "mask by head", "odd, n=m", dropout=0.3),
    Case("trilinear", "local predictive", "segments", "n=m"),
]


@pytest.mark.parametrize("case", OPERATED, ids=lambda case: f"{case.score}, {case.align}")
def test_the_forward_operator_is_a_good_operator(case):
    """opcheck: the schema holds, the fake kernel has the right shapes, autograd and AOT dispatch agree."""
    torch.library.opcheck(chunked.forward_op.call, operator_arguments(case))


@pytest.mark.parametrize("case", OPERATED, ids=lambda case: f"{case.score}, {case.align}")
def test_the_backward_operator_is_a_good_operator(case):
    given = operator_arguments(case)
    out, tau, index, scale, log_prob, entropy = chunked.forward_op(*given)
    extra = [torch.randn_like(x) if x.numel() else None for x in (log_prob, entropy)]
    tensors = [x.detach() for x in given[0]]
    args = (tensors, *given[1:], tau.detach(), index, scale, torch.randn_like(out), None, *extra)
    torch.library.opcheck(
        chunked.backward_op.call, args, test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    )


@pytest.mark.parametrize(
    "stepwise", [{"align": Monotonic()}, {"score": LocationAware(4, kernel=3)}], ids=["align", "score"]
)
def test_stepwise_mechanisms_are_refused(stepwise):
    q, k, v = (torch.randn(1, 1, 5, 4) for _ in range(3))
    with pytest.raises(Refused, match="each row before the next"):
        attend(q, k, v, backend="chunked", **stepwise)
    assert attend(q, k, v, **stepwise).out.shape == (1, 1, 5, 4)


def test_the_row_state_comes_with_the_output():
    """tau is what the map needs: it is handed over, not computed again."""
    q, k, v = (torch.randn(1, 2, 5, 4) for _ in range(3))
    amap = attend(q, k, v, backend="chunked").map
    assert amap._state is not None
    torch.testing.assert_close(amap.tau, torch.logsumexp(q @ k.transpose(-1, -2) / 2, -1))


def test_a_score_of_ones_own_is_called_on_slices_of_whole_items():
    """Per-head parameters must meet their heads, whatever the block: a slab holds all heads of some items."""
    seen = []

    class Watch(OwnScore):
        def forward(self, q, k):
            seen.append(tuple(q.shape))
            return super().forward(q, k)

    q, k, v = (torch.randn(3, 2, 9, 4) for _ in range(3))
    with small_blocks():
        attend(q, k, v, Watch(4, 2), backend="chunked")
    assert len(seen) > 3 and {shape[:2] for shape in seen} == {(1, 2)}


def test_gradients_of_inputs_that_need_none_are_none():
    q, k, v = (torch.randn(1, 2, 5, 4) for _ in range(3))
    k.requires_grad_()
    attend(q, k, v, "additive", backend="chunked").out.sum().backward()
    assert q.grad is None and v.grad is None and k.grad is not None


def test_a_plan_is_lowered_once():
    q, k, v = (torch.randn(1, 2, 5, 4) for _ in range(3))
    made = make_plan(q, k, v, Additive(4))
    assert made.problem is made.problem
