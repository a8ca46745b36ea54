"""Dense kernels by Triton's interpreter, against the reference in fp64."""

import collections
import math

import pytest
import torch
from torch.testing import assert_close

from regard import Causal, Edges, Entmax, Kerple, Mask, Padding, Segments, Sigmoid, TopK, Window, attend, plan
from regard.backends.segment_spans import keys_spans
from regard.backends.triton.dense.backend import TritonDense, kernel_refusals
from regard.core.alignments import LocalPredictive
from regard.core.lowering.score_kernels import DotCore
from regard.core.plan import make_plan
from regard.core.scores import Additive, GATv2, Gaussian, QueryFree, ScaledDot, Score
from regard.core.scores.score import Lowered, flat

pytest.importorskip("triton")

from regard.backends.triton.common.key_bias import in_columns
from regard.backends.triton.common.range_masks import CHANGING
from regard.backends.triton.dense import launch as launches
from regard.backends.triton.dense import launch_config as call

HEADS, WIDTH, VALUES, KEYS = 1, 6, 5, 37  # small: the interpreter takes a millisecond for each line of a kernel
SCORES = {
    "dot": ScaledDot,
    "tanh": lambda: Additive(WIDTH, WIDTH, 9, heads=HEADS),
    "leaky": lambda: GATv2(WIDTH, heads=HEADS),
    "relu": lambda: Additive(WIDTH, WIDTH, 8, heads=HEADS, activation="relu"),
    "distance": lambda: Additive(WIDTH, WIDTH, 7, heads=HEADS, activation="negative_abs"),
    "gaussian": lambda: Gaussian(1.5),
    "of keys": lambda: QueryFree(WIDTH, heads=HEADS),
}
ALIGNMENTS = {
    "softmax": "softmax",
    "sigmoid": "sigmoid",
    "biased sigmoid": Sigmoid(-1.0),
    "sparsemax": "sparsemax",
    "entmax 1.5": "entmax15",
    "entmax 1.3": Entmax(1.3),
}
STRUCTURES = {
    "full": (33, None),
    "causal": (KEYS, Causal("end")),
    "window": (20, Causal("end") & Window(9, 3, align="end")),
    "padded": (70, Padding(torch.tensor([KEYS, 0]))),
    "keys": (5, Mask(keep=torch.rand(2, HEADS, 1, KEYS, generator=torch.Generator().manual_seed(0)) > 0.3)),
    "one query": (1, None),
}


def pair(score, align, over, n, m=KEYS, size=1.0, dtype=torch.float32):
    """Outputs and gradients: the reference in fp64, and the kernels; the same numbers in both."""
    found = []
    for kind in (torch.float64, dtype):
        torch.manual_seed(1)
        made = SCORES[score]().to(dtype).to(kind)
        sizes = ((n, WIDTH), (m, WIDTH), (m, VALUES))
        q, k, v = (size * torch.randn(2, HEADS, *shape) for shape in sizes)
        q, k, v = (x.to(dtype).to(kind).requires_grad_() for x in (q, k, v))
        if kind == torch.float64:
            out = attend(q, k, v, made, align, over, backend="reference").out
        else:
            asked = make_plan(q, k, v, made, align, over)
            assert not kernel_refusals(asked)
            out = TritonDense().run(asked).out
        leaves = [q, k, v, *made.parameters()]
        pull = torch.randn(out.shape).to(dtype).to(kind)
        grads = torch.autograd.grad(out, leaves, pull, allow_unused=True)
        found.append([out, *(torch.zeros_like(x) if g is None else g for x, g in zip(leaves, grads, strict=True))])
    return found


def close(true, mine, ulps=64):
    for x, y in zip(true, mine, strict=True):
        bound = ulps * torch.finfo(mine[0].dtype).eps * max(1.0, x.abs().max().item()) if x.numel() else 0
        assert torch.isfinite(y).all()
        assert (x - y.double()).abs().max().item() <= bound if x.numel() else True


@pytest.mark.covered
@pytest.mark.parametrize("align", ALIGNMENTS)
@pytest.mark.parametrize("score", ["dot", "tanh", "leaky"])
def test_outputs_and_gradients_are_the_reference(score, align):
    n, over = STRUCTURES["causal"]
    close(*pair(score, ALIGNMENTS[align], over, n))


@pytest.mark.covered
@pytest.mark.parametrize("where", STRUCTURES)
@pytest.mark.parametrize("score", ["dot", "tanh"])
def test_every_structure(score, where):
    n, over = STRUCTURES[where]
    for align in ("softmax", "entmax15") if score == "dot" else ("entmax15",):
        close(*pair(score, align, over, n))


def test_many_tiles(small_tiles):
    for score, align, sizes in (
        ("dot", "softmax", (70, 140)),
        ("dot", "sparsemax", (70, 140)),
        ("tanh", "softmax", (40, 70)),
    ):
        close(*pair(score, align, Causal("end"), *sizes))


@pytest.mark.parametrize(
    ("score", "align", "table_bytes", "walk"),
    [
        pytest.param("tanh", "softmax", 1 << 18, (2, 3, 96), marks=pytest.mark.slow),
        ("tanh", "softmax", 1 << 16, (1, 8, 32)),
        pytest.param("tanh", "softmax", 8, (0, 1, 0), marks=pytest.mark.slow),
        ("tanh", "sparsemax", 1 << 19, (2, 1, 256)),
        pytest.param("distance", "softmax", 1 << 18, (2, 3, 96), marks=pytest.mark.slow),
        ("distance", "sparsemax", 8, (0, 1, 0)),
    ],
)
def test_pairs_hand_their_gradient_to_both_sides_in_one_walk_or_in_two(
    score, align, table_bytes, walk, small_tiles, monkeypatch
):
    """One program after the other adds to the same table of what queries receive: three blocks, two programs of a
    head. Where tables would be large, queries are in parts; where they would be too large, each side walks by itself.
    """
    asked, found = launches.single_walk, []
    monkeypatch.setattr(launches, "single_walk", lambda *call: found.append(asked(*call)) or found[-1])
    monkeypatch.setattr(call, "AT_ONCE", 16)
    monkeypatch.setattr(call, "TABLE_BYTES", table_bytes)
    close(*pair(score, align, Causal("end"), 140, 70))
    assert found == [walk]


@pytest.mark.covered
@pytest.mark.parametrize("align", ["sparsemax", "entmax15"])
@pytest.mark.parametrize("size", [0.02, 3.0], ids=["wide", "narrow"])
def test_a_support_may_be_larger_than_what_a_row_keeps_and_smaller(size, align):
    """The first walk keeps 128 scores of a row: nearly equal ones all count, and are met again."""
    close(*pair("dot", align, None, 3, 300, size))
    torch.manual_seed(1)
    q, k, v = (size * torch.randn(2, HEADS, *shape) for shape in ((3, WIDTH), (300, WIDTH), (300, VALUES)))
    support = (attend(q, k, v, align=align, backend="reference").map.weights() > 0).sum(-1)
    assert (support > 128).all() if size < 1 else (support < 128).all()


def test_a_pairs_support_may_be_larger_than_the_room_that_gathers_it():
    torch.manual_seed(1)
    score = GATv2(WIDTH, heads=1)
    q, k, v = (0.02 * torch.randn(1, 1, *shape) for shape in ((3, WIDTH), (200, WIDTH), (200, VALUES)))
    true = attend(q, k, v, score, "entmax15", backend="reference")
    assert (true.map.weights() > 0).sum(-1).min() > 128
    close([true.out.double()], [TritonDense().run(make_plan(q, k, v, score, "entmax15")).out])


@pytest.mark.parametrize(("alike", "keys"), [(6, 40), (30, 127), (90, 300)])
def test_some_keys_alike_and_many_that_nearly_count_are_found(alike, keys):
    """Steps towards tau from so many scores beside it went too far, and weights were 0."""
    made = Additive(1, 1, 4, activation="relu")
    with torch.no_grad():
        for x in made.parameters():
            x.zero_()
        made.key[..., 0, 0] = made.v[..., 0] = 1.0
    k = torch.cat([torch.full((alike, 1), 2.0), torch.full((keys - alike, 1), 0.01)])[None, None]
    out = TritonDense().run(make_plan(torch.ones(1, 1, 2, 1), k, k.clone(), made, "entmax15")).out
    torch.testing.assert_close(out, torch.full_like(out, 2.0), atol=1e-5, rtol=0)


@pytest.mark.covered
@pytest.mark.parametrize("score", ["relu", "distance", "gaussian"])
@pytest.mark.parametrize("align", ["softmax", "sigmoid"])
def test_other_scores(score, align):
    close(*pair(score, align, None, 9))


@pytest.mark.parametrize("size", [0.1, 6.0, 60.0])
def test_tanh_holds_for_sums_of_any_size(size):
    """Products of exponentials, bounded ones, and sums of exponents: chosen by how large the vectors are."""
    close(*pair("tanh", "softmax", None, 9, size=size), ulps=256)


def test_one_key_no_key_and_no_query():
    for n, m in ((5, 1), (4, 0), (0, 5)):
        for score, align in (("tanh", "softmax"), ("dot", "entmax15")):
            close(*pair(score, align, None, n, m))
    assert not pair("dot", "softmax", None, 4, 0)[1][0].any()


def test_a_score_of_keys_alone_has_no_vectors_to_multiply_and_trains():
    """Its dot product has width 0: all of it stands in the bias of the keys."""
    close(*pair("of keys", "softmax", None, 5))


@pytest.mark.parametrize("align", ["softmax", "entmax15"])
def test_wide_heads_in_fp32_have_smaller_tiles(align):
    found = []
    for kind in (torch.float64, torch.float32):
        torch.manual_seed(1)
        q, k, v = (torch.randn(1, 1, n, 160).to(kind).requires_grad_() for n in (5, 40, 40))
        if kind == torch.float64:
            out = attend(q, k, v, "scaled_dot", align, Causal("end"), backend="reference").out
        else:
            out = TritonDense().run(make_plan(q, k, v, "scaled_dot", align, Causal("end"))).out
        found.append([out, *torch.autograd.grad(out, [q, k, v], out)])
    close(*found)


def test_sixteen_bits():
    for score in ("dot", "tanh"):
        true, mine = pair(score, "softmax", Causal("end"), KEYS, dtype=torch.bfloat16)
        close(true, mine, ulps=4)


@pytest.mark.covered
@pytest.mark.parametrize("where", STRUCTURES)
@pytest.mark.parametrize("score", ["gaussian", "of keys"])
def test_a_bias_of_keys_in_sixteen_bits_is_added_by_the_product(score, where):
    n, over = STRUCTURES[where]
    true, mine = pair(score, "softmax", over, n, dtype=torch.bfloat16)
    close(true, mine, ulps=4)


def test_columns_of_a_bias_are_as_exact_as_fp32_and_say_what_is_endless():
    bias = torch.randn(3, 200, generator=torch.Generator().manual_seed(0)) * torch.logspace(-6, 6, 200)
    bias[0, 3], bias[1, 7], bias[2, 9] = -float("inf"), 0.0, 3.4e38
    columns = in_columns(bias, 3.0).double()
    assert_close(columns[:, :-1, :3].sum(-1), (3.0 * bias).double(), rtol=2**-23, atol=0)
    assert not columns[:, :-1, 3:].any()
    assert columns[:, -1].tolist() == [[1.0] * 3 + [0.0] * 13] * 3


class Closing(Score):
    """A dot product with a bias of keys that was given."""

    def __init__(self, bias, scale=0.25):
        super().__init__()
        self.bias, self.scale = bias, scale

    def forward(self, q, k):
        return (q.float() @ k.float().mT) * self.scale + self.bias

    def lower(self, q, k):
        return Lowered(DotCore(flat(q), flat(k), self.scale), self.bias)


@pytest.mark.parametrize("closed", [[3, 69], list(range(70))])
def test_a_key_whose_bias_is_endless_has_no_weight_whether_some_or_all(closed):
    q, k, v = (torch.randn(1, 1, n, 16).bfloat16() for n in (5, 70, 70))
    bias = torch.zeros(1, 70)
    bias[0, closed] = -float("inf")
    out = TritonDense().run(make_plan(q, k, v, Closing(bias))).out
    assert_close(out, attend(q, k, v, Closing(bias), backend="reference").out, rtol=0, atol=0.02)


@pytest.mark.parametrize("scale", [-0.25, 0.0, 1e-40, 1e-6, 1e6])
def test_a_bias_beside_a_product_of_any_scale(scale):
    """Columns are divided by it: where that cannot be, numbers are added."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, n, 16).bfloat16() for n in (5, 40, 40))
    score = Closing(torch.randn(1, 40), scale)
    out = TritonDense().run(make_plan(q, k, v, score)).out
    assert_close(out, attend(q, k, v, score, backend="reference").out, rtol=0, atol=0.02)


def test_heads_that_share_keys_share_their_bias():
    torch.manual_seed(0)
    given = [torch.randn(2, heads, n, 16).bfloat16() for heads, n in ((4, 33), (2, 40), (2, 40))]
    found = []
    for kind in (torch.float64, torch.bfloat16):
        leaves = [x.to(kind).requires_grad_() for x in given]
        if kind == torch.float64:
            out = attend(*leaves, Gaussian(1.5), backend="reference").out
        else:
            out = TritonDense().run(make_plan(*leaves, Gaussian(1.5))).out
        found.append([out, *torch.autograd.grad(out, leaves, torch.ones_like(out))])
    close(*found, ulps=4)


def test_empty_rows_are_zero_and_tau_is_infinite():
    q, k = torch.randn(2, 1, 6, 8), torch.randn(2, 1, 9, 8)
    for align in ("softmax", "sigmoid", "entmax15"):
        ran = TritonDense().run(make_plan(q, k, k, "scaled_dot", align, Padding(torch.tensor([9, 0]))))
        assert not ran.out[1].any() and (ran.state.tau.view(2, 1, 6)[1] == float("inf")).all()


def test_tau_gives_the_weights():
    q, k = torch.randn(1, 2, 7, 8), torch.randn(1, 2, 9, 8)
    for align in ("softmax", "sigmoid", "sparsemax", "entmax15"):
        for score in ("scaled_dot", "additive"):
            ran = TritonDense().run(make_plan(q, k, k, score, align))
            state = attend(q, k, k, score, align, backend="reference").map.state
            torch.testing.assert_close(ran.state.tau, state.tau, atol=2e-6, rtol=2e-6)


PACKED = torch.tensor([[0] * 13 + [2] * 20 + [3] * 4, [1] * 37])
MIXED = torch.randint(0, 4, (2, KEYS), generator=torch.Generator().manual_seed(3))
STRETCHES = {
    "packed": (KEYS, Segments(PACKED)),
    "packed, causal, a window": (KEYS, Segments(PACKED) & Causal() & Window(5, 0)),
    "mixed": (KEYS, Segments(MIXED)),
    "mixed, causal, padded": (KEYS, Segments(MIXED) & Causal() & Padding(torch.tensor([KEYS, 11]))),
    "other keys": (9, Segments(torch.tensor([3, 3, 0, 1, 9, 2, 2, 2, 0]), MIXED)),
    "pooled": (6, Segments(MIXED, count=6)),
}


@pytest.mark.parametrize("where", STRETCHES)
def test_segments_wherever_their_members_stand(where):
    n, over = STRETCHES[where]
    close(*pair("dot", "softmax", over, n))


@pytest.mark.parametrize(("score", "align"), [("dot", "entmax15"), ("tanh", "sigmoid")])
def test_segments_of_other_scores_and_alignments(score, align):
    n, over = STRETCHES["mixed"]
    close(*pair(score, align, over, n))


@pytest.mark.parametrize("over", [None, Padding(torch.tensor([KEYS, 8]))], ids=["full", "padded"])
def test_a_predicted_window_fades_its_weights_and_learns_where_to_stand(over):
    found = []
    for kind in (torch.float64, torch.float32):
        torch.manual_seed(2)
        align = LocalPredictive(3, WIDTH, heads=HEADS).to(kind)
        q, k, v = (
            torch.randn(2, HEADS, n, d).to(kind).requires_grad_() for n, d in ((70, WIDTH), (KEYS, WIDTH), (KEYS, 5))
        )
        if kind == torch.float64:
            out = attend(q, k, v, "scaled_dot", align, over, backend="reference").out
        else:
            asked = make_plan(q, k, v, "scaled_dot", align, over)
            assert not kernel_refusals(asked)
            out = TritonDense().run(asked).out
        pull = torch.randn(out.shape, generator=torch.Generator().manual_seed(5)).to(kind)
        found.append([out, *torch.autograd.grad(out, [q, k, v, *align.parameters()], pull)])
    assert found[0][-1].abs().max() > 0.01
    close(*found)


@pytest.mark.covered
@pytest.mark.parametrize("sample", [True, False], ids=["drawn", "best"])
@pytest.mark.parametrize(
    ("score", "where"), [("dot", "causal"), ("tanh", "padded"), ("leaky", "window"), ("gaussian", "full")]
)
def test_a_hard_choice_is_the_references_with_its_log_probability_and_entropy(score, where, sample):
    n, over = STRUCTURES[where]
    found = []
    for kind in (torch.float64, torch.float32):
        torch.manual_seed(4)
        made = SCORES[score]().to(kind)
        q, k, v = (
            torch.randn(2, HEADS, places, d).to(kind).requires_grad_()
            for places, d in ((n, WIDTH), (KEYS, WIDTH), (KEYS, VALUES))
        )
        if kind == torch.float64:
            done = attend(q, k, v, made, "hard", over, sample=sample, seed=7, backend="reference")
            parts = [done.out, done.sample.log_prob, done.sample.entropy]
            index = done.map.state.index
        else:
            asked = make_plan(q, k, v, made, "hard", over, sample=sample, seed=7)
            assert not kernel_refusals(asked)
            ran = TritonDense().run(asked)
            parts, index = [ran.out, ran.log_prob, ran.entropy], ran.state.index
        leaves = [q, k, v, *made.parameters()]
        pulls = [torch.randn(x.shape, generator=torch.Generator().manual_seed(9)).to(kind) for x in parts]
        grads = torch.autograd.grad(parts, leaves, pulls, allow_unused=True)
        found.append(
            [
                *parts,
                *(torch.zeros_like(x) if g is None else g for x, g in zip(leaves, grads, strict=True)),
                index.reshape(-1).to(kind),
            ]
        )
    close(*found)


def test_a_key_is_seen_by_one_stretch_of_rows():
    low, high = torch.tensor([[0, 0, 2, 5, 5]]), torch.tensor([[2, 3, 3, 5, 9]])
    first, last = keys_spans(low, high, 9)
    for j in range(9):
        assert [i for i in range(5) if low[0, i] <= j < high[0, i]] == list(range(first[0, j], last[0, j]))


def test_a_sigmoid_counts_the_keys_that_a_row_sees():
    batch, n, m = 2, 5, 70
    keep = torch.rand(batch, 1, 1, m) > 0.4
    over = Causal("end") & Window(50, 2, align="end") & Mask(keep=keep) & Padding(torch.tensor([68, 1]))
    q, k = torch.randn(batch, 1, n, 4), torch.randn(batch, 1, m, 4)
    seen = (attend(q, k, k, over=over, backend="reference").map.weights() > 0).sum(-1)
    tau = TritonDense().run(make_plan(q, k, k, "scaled_dot", "sigmoid", over)).state.tau.view(batch, 1, n)
    expected = seen.clamp_min(1).float().log().masked_fill(seen == 0, float("inf"))
    torch.testing.assert_close(tau, expected, atol=2e-6, rtol=2e-6)


def test_small_weights_of_a_sigmoid_keep_their_bits():
    """exp(-37) beside closed pairs, which weigh nothing: neither is lost in the other."""
    q, k = torch.zeros(1, 1, 3, 4), torch.zeros(1, 1, 5, 4)
    v = torch.ones(1, 1, 5, 2)
    out = TritonDense().run(make_plan(q, k, v, "scaled_dot", Sigmoid(-37.0), Padding(torch.tensor([4])))).out
    torch.testing.assert_close(out, torch.full_like(out, 4 * math.exp(-37.0)), rtol=1e-5, atol=0.0)


@pytest.mark.parametrize(("size", "bias"), [(1.0, -9.0), (5.0, -8.0)], ids=["small", "some large"])
def test_weights_of_a_sigmoid_that_are_mostly_small_are_made_in_16_bits(size, bias, monkeypatch):
    asked, found = launches.small_weights_at_a_time, []
    monkeypatch.setattr(launches, "small_weights_at_a_time", lambda *given: found.append(asked(*given)) or found[-1])
    for where in ("causal", "padded"):
        n, over = STRUCTURES[where]
        (true, *_), (mine, *_) = pair("dot", Sigmoid(bias), over, n, size=size, dtype=torch.bfloat16)
        far = (mine.double() - true).abs().max() / true.abs().max()
        assert far <= 3 * torch.finfo(torch.bfloat16).eps
    assert found == [32, 32]


def test_which_weights_of_a_sigmoid_are_mostly_small():
    """By the number of keys that a row may see, or by the bias; in bfloat16, where nothing is dropped."""

    def small(align="sigmoid", over=None, m=4096, dtype=torch.bfloat16, **options):
        found = []
        with pytest.MonkeyPatch.context() as patched:  # nothing runs
            launched = collections.defaultdict(lambda: lambda *given, SMALL, **sizes: found.append(SMALL))
            patched.setattr(launches, "known_kernel", launched)
            q, k = (torch.zeros(1, 1, n, 4, dtype=dtype) for n in (2, m))
            TritonDense().run(make_plan(q, k, k, ScaledDot(), align, over, **options))
        return found[0]

    assert small() == 32 == small(Sigmoid(-9.0), m=16)
    assert small(m=1000) == 0 == small(Sigmoid(1.0))
    assert small(over=Causal("end")) == 32 and small(over=Window(50, 50, align="end")) == 0
    assert small(dtype=torch.float16) == 0 == small(dtype=torch.float32)
    assert small(dropout=0.5, seed=1) == 0


@pytest.mark.parametrize("bias", [-9.0, 0.0], ids=["small", "any"])
def test_what_is_no_number_stays_none_in_a_sigmoid(bias):
    q, k, v = (torch.randn(1, 1, 9, 4).bfloat16() for _ in range(3))
    k[0, 0, 5, 1] = float("nan")
    out = TritonDense().run(make_plan(q, k, v, "scaled_dot", Sigmoid(bias), Causal())).out[0, 0]
    assert out[5:].isnan().all() and out[:5].isfinite().all()


@pytest.mark.covered
@pytest.mark.parametrize("heads", [2, 1], ids=["heads", "shared keys"])
@pytest.mark.parametrize("align", ["softmax", "sigmoid", "entmax 1.5"])
@pytest.mark.parametrize("score", ["dot", "gaussian"])
def test_the_fast_path_runs_from_vectors_to_the_same_bits(score, align, heads):
    over = Causal("end") & Window(9, 3, align="end")
    first, second = (
        make_plan(
            *(torch.randn(2, h, n, 6).requires_grad_() for h, n in ((2, 7), (heads, 9), (heads, 9))),
            SCORES[score](),
            ALIGNMENTS[align],
            over,
        )
        for _ in range(2)
    )
    run = TritonDense().fast_path(first)
    if score == "gaussian" and align == "sigmoid":  # which sees what rows add
        assert run is None
        return
    found = []
    for ran in (run(second.q, second.k, second.v), TritonDense().run(second)):
        found.append(
            [
                ran.out,
                ran.state.tau,
                *torch.autograd.grad(ran.out, (second.q, second.k, second.v), torch.ones_like(ran.out)),
            ]
        )
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))


def test_what_is_not_run_from_its_vectors_alone():
    q = torch.randn(2, 1, 9, 6)
    for options in (
        {"over": Padding(torch.tensor([3, 9]))},
        {"over": Segments(torch.arange(9) // 3)},
        {"align": "hard"},
        {"align": LocalPredictive(2, 6)},
        {"align": TopK(3)},
    ):
        assert TritonDense().fast_path(make_plan(q, q, q, **options)) is None
    half = q.half()
    assert TritonDense().fast_path(make_plan(half, half, half, Gaussian(3.0))) is None  # divided by the width first


def test_what_it_leaves_to_others():
    q = torch.randn(1, 2, 9, 4)
    others = [
        {"align": "hard", "over": Segments(torch.tensor([1, 0] * 4 + [0]))},
        {"score": ScaledDot() | Kerple(2)},
        {"align": Entmax(2.5)},
        {"score": Additive(features=True)},
        {"over": Mask(keep=torch.ones(9, 9, dtype=torch.bool))},
        {"over": Edges(torch.zeros(2, 1, dtype=torch.long))},
        {"align": LocalPredictive(2), "over": Causal()},
        {"over": Segments(torch.tensor([0, 1] * 4 + [0])) & Window(2, 2)},
    ]
    for options in others:
        assert kernel_refusals(make_plan(q, q, q, **options)), options
    assert "CUDA" in plan(q, q, q).refusals["triton-dense"][0]


class Heard:
    """A kernel that also tells what Triton would compile it for: constants, and of each number that may be specialised
    whether it is 1 and whether 16 divides it."""

    def __init__(self, kernel, told):
        self.kernel, self.told = kernel, told

    def __getitem__(self, grid):
        def launch(*given, **sizes):
            numbers = zip(self.kernel.arg_names, given, strict=False)
            kinds = [(name, x == 1, x % 16 == 0) for name, x in numbers if isinstance(x, int) and name not in CHANGING]
            self.told.append((kinds, sizes))
            self.kernel[grid](*given, **sizes)

        return launch


@pytest.mark.parametrize("score", ["dot", "tanh", "gaussian"])
def test_no_length_has_a_kernel_of_its_own(score, monkeypatch):
    told = []
    for name in ("softmax_kernel", "pull_kernel"):
        monkeypatch.setattr(launches, name, Heard(getattr(launches, name), told))
    made, found = SCORES[score](), []
    for n, m in ((32, 64), (31, 37)):
        q, k, v = (torch.randn(1, HEADS, size, WIDTH, requires_grad=True) for size in (n, m, m))
        TritonDense().run(make_plan(q, k, v, made, "softmax", Window(9, 3, align="end"))).out.sum().backward()
        found.append(told[:])
        told.clear()
    assert len(found[0]) == (2 if score == "tanh" else 3) and found[0] == found[1]
