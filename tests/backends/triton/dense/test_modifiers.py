"""Fused modifiers of dense kernels, by Triton's interpreter, beside the reference in fp64."""

import pytest
import torch

pytest.importorskip("triton")

import triton
import triton.language as tl
from tests.fuzz.interpreted import on_any_device
from torch._dynamo.utils import counters
from torch._subclasses import FakeTensorMode

from regard import (
    FIRE,
    ALiBi,
    Causal,
    Kerple,
    Mask,
    Padding,
    PairBias,
    RelativeBias,
    Segments,
    Sigmoid,
    Sink,
    SoftCap,
    T5Bias,
    TopK,
    Window,
    attend,
)
from regard.backends.triton.dense import backend as dense
from regard.backends.triton.dense import held_gradients, launch_config
from regard.backends.triton.dense.arguments import DenseArguments
from regard.backends.triton.dense.backend import TritonDense, backward_op, kernel_refusals
from regard.backends.triton.modifiers import refusals
from regard.backends.triton.modifiers.codes import encoded
from regard.backends.triton.modifiers.soft_cap import tanh
from regard.core.modifiers import Clamp, SharedPairBias
from regard.core.plan import make_plan
from regard.core.scores import Additive, ScaledDot

HEADS, WIDTH, VALUES = 2, 6, 5


def bias(leaf, *shape):
    return PairBias(leaf(*shape))


MODIFIERS = {  # of n queries, m keys, and leaves whose gradients are compared
    "soft cap": lambda n, m, leaf: ScaledDot() | SoftCap(1.5),
    "clamp": lambda n, m, leaf: ScaledDot() | Clamp(0.5),
    "alibi": lambda n, m, leaf: ScaledDot() | ALiBi(HEADS, align="end"),
    "learned alibi": lambda n, m, leaf: ScaledDot() | ALiBi(HEADS, learned=True, align="start"),
    "one slope": lambda n, m, leaf: ScaledDot() | ALiBi(slopes=torch.ones(1), learned=True, align="end"),
    "relative bias": lambda n, m, leaf: ScaledDot() | RelativeBias(HEADS, 3, align="end"),
    "one number": lambda n, m, leaf: ScaledDot() | RelativeBias(1, 0, align="start") | SoftCap(2.0),
    "t5 bias": lambda n, m, leaf: ScaledDot() | T5Bias(HEADS, 8, 6, align="end"),
    "t5 bias of the past": lambda n, m, leaf: ScaledDot() | T5Bias(HEADS, 6, 9, both_sides=False, align="end"),
    "sink": lambda n, m, leaf: ScaledDot() | Sink(HEADS),
    "pair bias": lambda n, m, leaf: ScaledDot() | bias(leaf, 2, HEADS, n, m),
    "pair bias of heads": lambda n, m, leaf: ScaledDot() | bias(leaf, HEADS, n, m),
    "pair bias of all": lambda n, m, leaf: ScaledDot() | bias(leaf, n, m),
    "bias of keys": lambda n, m, leaf: ScaledDot() | bias(leaf, 2, 1, 1, m),
    "bias of queries": lambda n, m, leaf: ScaledDot() | bias(leaf, HEADS, n, 1) | SoftCap(2.0),
    "pair bias of several items": lambda n, m, leaf: ScaledDot() | SharedPairBias(leaf(1, HEADS, n, m), 2),
    "many": lambda n, m, leaf: (
        ScaledDot()
        | RelativeBias(HEADS, 5, align="end")
        | SoftCap(2.0)
        | bias(leaf, HEADS, n, m)
        | ALiBi(HEADS, learned=True, align="end")
        | Sink(HEADS)
    ),
}
STRUCTURES = {
    "padding": Padding(torch.tensor([11, 0])),
    "window": Causal("end") & Window(4, 3, align="end"),
    "keys": Mask(keep=torch.rand(2, HEADS, 1, 11, generator=torch.Generator().manual_seed(0)) > 0.3),
}


def outcome(
    name, align, over, kind, dtype=torch.float32, n=9, m=11, shared=1, backend="triton-dense", draw=0, **options
):
    """out, and the gradients of q, k, v and of what modifiers hold, in fp64; kind is the type of what is computed."""
    torch.manual_seed(draw)
    given = []

    def leaf(*shape):
        given.append(torch.randn(shape).to(dtype).to(kind).requires_grad_())
        return given[-1]

    q, k, v = (leaf(2, h, *size) for h, *size in ((HEADS, n, WIDTH), (shared, m, WIDTH), (shared, m, VALUES)))
    score = MODIFIERS[name](n, m, leaf)
    for x in score.parameters():
        torch.nn.init.normal_(x)
    score = score.to(dtype).to(kind)
    if backend == "reference":
        out = attend(q, k, v, score, align, over, backend="reference", **options).out
    else:
        asked = make_plan(q, k, v, score, align, over, **options)
        assert not kernel_refusals(asked)
        out = TritonDense().run(asked).out
    leaves = [*given, *score.parameters()]
    pull = torch.randn(out.shape).to(dtype).to(kind)
    grads = torch.autograd.grad(out, leaves, pull, allow_unused=True)
    return [out.detach().double(), *(torch.zeros(()) if g is None else g.double() for g in grads)]


def losses(name, align, over, dtype, draw, **options):
    """Of out and of each gradient: how far it is from the truth, and how far it may be."""
    true, own = (
        outcome(name, align, over, kind, dtype, backend="reference", draw=draw, **options)
        for kind in (torch.float64, dtype)
    )
    mine = outcome(name, align, over, dtype, dtype, draw=draw, **options)
    largest = max(x.abs().max().item() for x in true[1:])
    found = []
    for place, (x, y, z) in enumerate(zip(true, own, mine, strict=True)):
        digit = torch.finfo(dtype).eps * max(1.0, largest if place else x.abs().max().item())
        found.append(((z - x).abs().max().item(), 2 * (y - x).abs().max().item() + 2 * digit))
    return found


def agree(name, align="softmax", over=None, dtype=torch.float32, **options):
    """No further from the truth than twice the reference in the same precision, and two of its last digits; a broken
    sum may be luck, so it must be broken in the mean over draws of the numbers too."""
    draws = [losses(name, align, over, dtype, 0, **options)]
    if not all(error <= bound for error, bound in draws[0]):
        draws += [losses(name, align, over, dtype, draw, **options) for draw in range(1, 6)]
    for place, each in enumerate(zip(*draws, strict=True)):
        error, bound = (sum(x) / len(draws) for x in zip(*each, strict=True))
        assert error <= bound, place


@pytest.fixture
def small_tiles(monkeypatch):
    """Tiles of 16 places: a few dozen are many of them."""
    for turn in ("forward", "backward", "keys"):
        monkeypatch.setitem(launch_config.TILES, ("fp32 dot", turn), (16, 16, 4, 2, None))
    monkeypatch.setattr(held_gradients, "side_of", lambda a, v, core: 16)


@pytest.mark.parametrize("name", MODIFIERS)
def test_outputs_and_gradients_of_each_modifier(name):
    agree(name, over=Causal("end"))


@pytest.mark.parametrize("align", ["sigmoid", Sigmoid(-1.0), "sparsemax", "entmax15"], ids=str)
def test_every_alignment_of_modified_scores(align):
    agree("many", align, Causal("end"))


@pytest.mark.parametrize("align", ["softmax", "sparsemax"])
@pytest.mark.parametrize("where", STRUCTURES)
def test_every_structure_of_modified_scores(where, align):
    agree("many", align, STRUCTURES[where])


@pytest.mark.parametrize("name", ["learned alibi", "relative bias", "pair bias of heads", "many"])
def test_many_tiles(name, small_tiles):
    agree(name, over=Causal("end"), n=33, m=40)


def test_segments_in_their_order():
    agree("many", over=Segments(torch.tensor([0] * 4 + [2] * 5), torch.tensor([0] * 6 + [1] + [2] * 4)))


def test_dropout():
    agree("many", dropout=0.4, seed=3)


@pytest.mark.parametrize("align", ["softmax", "sigmoid", "entmax15"])
def test_sixteen_bits(align):
    agree("many", align, Causal("end"), torch.bfloat16, shared=2)


@pytest.mark.parametrize("align", ["softmax", "sigmoid", "sparsemax"])
def test_a_pair_whose_bias_is_endless_is_closed_and_not_counted(align):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, HEADS, n, WIDTH) for n in (5, 11, 11))
    closed = torch.rand(5, 11) > 0.6
    closed[3] = True
    given = torch.randn(5, 11).masked_fill(closed, -float("inf"))
    score = ScaledDot() | PairBias(given) | Sink(HEADS)
    with torch.no_grad():
        ran = TritonDense().run(make_plan(q, k, v, score, align))
        true = attend(q, k, v, score, align, backend="reference")
    torch.testing.assert_close(ran.out, true.out, atol=2e-6, rtol=2e-5)
    torch.testing.assert_close(ran.state.tau, true.map.state.tau, atol=2e-6, rtol=2e-5)
    assert not ran.out[:, :, 3].any() and (ran.state.tau[:, 3] == float("inf")).all()


@pytest.mark.parametrize("align", ["softmax", "sigmoid", "entmax15"])
def test_what_is_no_number_stays_none(align):
    q, k, v = (torch.randn(1, 1, 9, 4) for _ in range(3))
    k[0, 0, 5, 1] = float("nan")
    score = ScaledDot() | Clamp(3.0) | SoftCap(2.0) | Sink(1)
    with torch.no_grad():
        out = TritonDense().run(make_plan(q, k, v, score, align, Causal())).out[0, 0]
    assert out[5:].isnan().all() and out[:5].isfinite().all()


def test_heads_of_queries_share_keys_that_are_not_repeated():
    q, k = torch.randn(1, 4, 5, 6), torch.randn(1, 2, 7, 6)
    assert make_plan(q, k, k, ScaledDot() | SoftCap(2.0) | Sink(4)).shared.core.b.shape[0] == 2


@triton.jit
def tanh_kernel(X, Y, SOME: tl.constexpr):
    at = tl.arange(0, SOME)
    tl.store(Y + at, tanh(tl.load(X + at)))


def test_tanh_is_as_exact_as_fp32_near_0_and_far():
    x = torch.cat([torch.logspace(-8, 2, 253), torch.tensor([0.0, float("inf"), float("nan")])])
    x = x * torch.tensor([1.0, -1.0]).repeat(128)
    y = torch.empty_like(x)
    tanh_kernel[(1,)](x, y, SOME=256)
    true = x.double().tanh()
    assert y[-1].isnan() and ((y - true).abs() <= 3e-7 * true.abs())[:-1].all()


@pytest.mark.parametrize("both_sides", [True, False])
def test_the_table_of_t5s_distances_reads_its_buckets(both_sides):
    made = T5Bias(2, 16, 40, both_sides, align="start")
    torch.nn.init.normal_(made.table)
    table, n = made.kernel_tensor(), 60
    distance = torch.arange(n)[None] - torch.arange(n)[:, None]
    pairs = table[:, distance.clamp(-40, 40) + 40]
    q, k = torch.zeros(1, 2, n, 1), torch.zeros(1, 2, n, 1)
    assert torch.equal((ScaledDot() | made)(q, k)[0], pairs)


def test_what_it_refuses_it_says():
    q, other = torch.randn(1, 2, 9, 4), torch.randn(1, 2, 9, 300)
    cases = {
        "Its modifiers are": {"score": ScaledDot() | FIRE(2, align="end")},
        "has Kerple": {"score": ScaledDot() | Kerple(2)},
        "dot products alone": {"score": Additive() | SoftCap(2.0)},
        "top-k, hard": {"align": TopK(2), "score": ScaledDot() | SoftCap(2.0)},
        "change places": {"score": ScaledDot() | ALiBi(2), "over": Segments(torch.tensor([1, 0] * 4 + [0]))},
        "up to 3 modifiers with a tensor": {"score": ScaledDot() | ALiBi(2) | ALiBi(2) | ALiBi(2) | ALiBi(2)},
        "expected (1, 2, 9, 9)": {"score": ScaledDot() | PairBias(torch.zeros(3, 9, 9))},
        "float64": {"score": ScaledDot() | PairBias(torch.zeros(9, 9).double())},
    }
    for part, options in cases.items():
        assert part in " ".join(kernel_refusals(make_plan(q, q, q, **options))), part
    assert "256 wide" in " ".join(kernel_refusals(make_plan(other, other, other, ScaledDot() | SoftCap(2.0))))
    assert not kernel_refusals(make_plan(q, q, q, ScaledDot() | SoftCap(2.0)))


def test_the_bytes_of_a_tables_gradient_are_told(monkeypatch):
    q = torch.randn(1, 2, 9, 4)
    made = make_plan(q, q, q, ScaledDot() | RelativeBias(2, 50))
    monkeypatch.setattr(refusals, "LARGEST_BYTES", 807)
    assert "101 distances takes 808 bytes, over 807" in " ".join(kernel_refusals(made))
    with torch.no_grad():
        assert not kernel_refusals(made)


def test_auto_leaves_a_modified_softmax_to_flex_where_that_runs_it(monkeypatch):
    q = torch.randn(2, 4, 512, 16)
    soft, sigmoid = (make_plan(q, q, q, ScaledDot() | SoftCap(2.0), align) for align in ("softmax", "sigmoid"))
    monkeypatch.setattr(dense.FLEX, "refusals", lambda plan: [])
    assert TritonDense().defers(soft) and not TritonDense().defers(sigmoid)
    assert not TritonDense().defers(make_plan(q, q, q))
    monkeypatch.setattr(dense.FLEX, "refusals", lambda plan: ["It does not."])
    assert not TritonDense().defers(soft)


def test_no_cached_call_forgets_a_modifier():
    q = torch.randn(2, 1, 9, 6)
    for score in (ScaledDot() | SoftCap(2.0), ScaledDot() | Sink(1)):
        assert TritonDense().fast_path(make_plan(q, q, q, score)) is None


def test_what_is_traced_has_the_gradients_that_are_there():
    """Of a slope that is learned, and not of one that is given."""
    score = ScaledDot() | ALiBi(1) | ALiBi(1, learned=True) | Sink(1)
    plan = make_plan(*(torch.randn(1, 1, 5, 4) for _ in range(3)), score)
    text, _, held = encoded(plan.problem.score.modifiers)
    with FakeTensorMode() as mode:
        x, row, slopes = (mode.from_tensor(torch.empty(size)) for size in ((1, 5, 4), (1, 5), (1,)))
        tensors = {"a": x, "b": x, "v": x, "sink": slopes, "held_1": slopes, "held_2": slopes}
        numbers = {"left": 5, "right": 5, "heads": 1, "core": 0, "scale": 1.0, "linear": 0.0, "bent": 0.0, "align": 0}
        numbers |= {"alpha": 1.0, "narrow": 0.0, "dropout": 0.0, "trains": True, "modifiers": text}
        numbers |= dict.fromkeys(("bound_1", "bound_2", "bound_3"), 1.0)
        given = DenseArguments(**{**dict.fromkeys(DenseArguments._fields), **tensors, **numbers})
        found = backward_op.call(*given, x, row, row, row, x)
    assert len(held) == 2 and len(found) == 5


def test_one_compilation_serves_modified_scores_of_every_length():
    torch._dynamo.reset()
    counters.clear()
    score = ScaledDot() | SoftCap(2.0) | T5Bias(1, 8, 6, align="end") | Sink(1)

    def call(q, k, v, backend="triton-dense"):
        return attend(q, k, v, score, "sigmoid", Causal("end"), backend=backend).out

    compiled = torch.compile(call, fullgraph=True, dynamic=True, backend="eager")
    with on_any_device(), torch.no_grad():
        for n, m in ((5, 7), (9, 11)):
            given = [torch.randn(1, 1, size, 4) for size in (n, m, m)]
            torch.testing.assert_close(compiled(*given), call(*given, backend="reference"))
    assert counters["stats"]["unique_graphs"] == 1
