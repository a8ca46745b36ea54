"""Statistics of rows are those of the scores and the weights, and so are their gradients."""

import pytest
import torch
from hypothesis import given, settings
from tests.oracle import FP64_SLACK, Case, plans, small_blocks
from torch import Tensor
from torch.testing import assert_close

import regard
from regard import Attended, Causal, Edges, Mask, ScaledDot, Sink, attend
from regard.core.errors import Refused
from regard.core.lowering.tiles import Tile

NAMES = ("max_logit", "entropy", "log_sum_exp")


def inputs(n: int = 5, m: int = 7, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(torch.randn(2, 3, size, 8, dtype=dtype, requires_grad=True) for size in (n, m, m))  # type: ignore[return-value]


def asked(case: Case) -> tuple[str, ...]:
    """What is defined of this case's alignment."""
    align = case.inputs(torch.float64).align
    if not align.uses_scores:
        return ("entropy",)
    return NAMES if type(align).__name__ == "Softmax" else NAMES[:2]


def true_entropy(w: Tensor) -> Tensor:
    """Differentiable at weights of 0, which stay so."""
    return -(w * w.masked_fill(w == 0, 1.0).log()).sum(-1)


def logits(case: Case, result: Attended) -> Tensor:
    """The scores of all pairs by the score's own forward, -inf where masked."""
    plan = case.plan(torch.float64)
    s = plan.score(plan.q, plan.k_by_head)
    keep = plan.over.allowed(Tile.whole(plan.batch, plan.heads, plan.n, plan.m, s.device))
    if keep is None:
        return s
    keep = keep.expand(plan.batch * plan.heads, plan.n, plan.m).unflatten(0, (plan.batch, plan.heads))
    return s.masked_fill(~(keep if s.ndim == 4 else keep.unsqueeze(2)), float("-inf"))


@settings(max_examples=80)
@given(plans())
def test_statistics_of_any_plan_are_those_of_its_scores_and_weights(case: Case):
    given = case.inputs(torch.float64)
    try:
        with small_blocks():
            result = attend(*given, **case.options, stats=asked(case))
    except Refused as refused:
        assert str(refused).startswith("stats= ")
        return
    stats, weights = result.stats, result.map.weights() if result.map.graph is None else None
    assert stats is not None
    truth = regard.attend(*given, **case.options).map.entropy()
    assert_close(stats["entropy"].detach(), truth.to(torch.float64), rtol=FP64_SLACK, atol=FP64_SLACK)
    if weights is None or "max_logit" not in stats:
        return
    s = logits(case, result)
    largest = s.amax(-1) if s.shape[-1] else s.new_full(s.shape[:-1], float("-inf"))
    assert_close(stats["max_logit"], largest.expand_as(stats["max_logit"]), rtol=FP64_SLACK, atol=FP64_SLACK)


@pytest.mark.parametrize("align", ["softmax", "sparsemax", "entmax15", "sigmoid", "relu", regard.alignments.TopK(3)])
@pytest.mark.parametrize("over", [None, Causal(align="end"), Mask(keep=torch.rand(2, 1, 5, 7) < 0.5)])
def test_gradients_are_those_of_the_definition(align: str, over: regard.Structure | None):
    q, k, v = inputs()
    names = NAMES if align == "softmax" else NAMES[:2]
    with small_blocks():
        result = attend(q, k, v, align=align, over=over, stats=names)
        ends = [result.stats[name].masked_fill(result.stats[name] == float("-inf"), 0.0) for name in names]
        pull = [torch.randn_like(x) for x in ends]
        found = torch.autograd.grad(ends, (q, k), pull)
    w = result.map.weights(grad=True)
    keep = torch.ones_like(w, dtype=torch.bool) if over is None else result.map.allowed(slice(0, 5), slice(0, 7)).bool()
    s = ((q @ k.mT) / 8**0.5).masked_fill(~keep.reshape(w.shape), float("-inf"))
    truth = [s.amax(-1), true_entropy(w), s.logsumexp(-1)][: len(names)]
    closed = s.isneginf().all(-1)
    truth = [x.masked_fill(closed, 0.0) for x in truth]
    for name, x, y in zip(names, ends, truth, strict=True):
        assert_close(x, y, msg=name)
    s_open = torch.where(closed[..., None], 0.0, s)  # amax and logsumexp of -inf alone have NaN gradients
    truth = [s_open.amax(-1) * ~closed, true_entropy(w), s_open.logsumexp(-1) * ~closed][: len(names)]
    for x, y in zip(found, torch.autograd.grad(truth, (q, k), pull), strict=True):
        assert_close(x, y)


def test_gradients_over_edges_pass_gradcheck():
    edges = Edges(torch.tensor([[0, 1, 2, 2, 3, 3], [1, 1, 1, 0, 0, 4]]))
    x = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)

    def entropy(x: Tensor) -> Tensor:
        return attend(x, x, x, over=edges, stats="entropy").stats["entropy"]

    assert torch.autograd.gradcheck(entropy, (x,))


def test_a_sink_takes_part_in_the_log_sum_exp_alone():
    q, k, v = inputs()
    logit = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    result = attend(q, k, v, ScaledDot() | Sink(logit), stats=NAMES)
    s = q @ k.mT / 8**0.5
    whole = torch.cat([s, logit[:, None, None].expand(2, 3, 5, 1)], -1)
    assert_close(result.stats["max_logit"], s.amax(-1))
    assert_close(result.stats["log_sum_exp"], whole.logsumexp(-1))
    assert_close(result.stats["entropy"], true_entropy(whole.softmax(-1)[..., :-1]))


def test_a_row_without_keys_has_none():
    q, k, v = inputs(n=2, m=3)
    keep = torch.tensor([[True, True, True], [False, False, False]])
    stats = attend(q, k, v, over=Mask(keep=keep), stats=NAMES).stats
    assert [stats[name][0, 0, 1].item() for name in NAMES] == [float("-inf"), 0.0, float("-inf")]
    (q_grad,) = torch.autograd.grad(sum(x[..., :1].sum() for x in stats.values()), q)
    assert q_grad[:, :, 1].eq(0).all() and q_grad.isfinite().all()


def test_the_map_starts_with_the_entropy():
    q, k, v = inputs()
    result = attend(q, k, v, stats="entropy")
    assert torch.equal(result.map.entropy(), result.stats["entropy"])
    assert torch.equal(result.map[1, 2].entropy(), result.stats["entropy"][1, 2])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bits_have_statistics_in_fp32(dtype: torch.dtype):
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in inputs())
    stats = attend(q, k, v, stats=NAMES).stats
    wide = attend(q.float(), k.float(), v.float(), stats=NAMES).stats
    for name in NAMES:
        assert stats[name].dtype == torch.float32
        assert_close(stats[name], wide[name])
    (grad,) = torch.autograd.grad(stats["entropy"].sum(), q)
    assert grad.dtype == dtype


def test_one_compilation_has_statistics_and_gradients():
    q, k, v = inputs()

    def mean_entropy(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, over=Causal(align="end"), stats=("entropy", "max_logit")).stats["entropy"].mean()

    compiled = torch.compile(mean_entropy, fullgraph=True, backend="aot_eager")
    assert_close(torch.autograd.grad(compiled(q, k, v), (q, k)), torch.autograd.grad(mean_entropy(q, k, v), (q, k)))


def test_a_layer_hands_them_on():
    layer = regard.nn.Attention(16, heads=4)
    found = layer(torch.randn(2, 6, 16), stats=("entropy",))
    assert found.stats["entropy"].shape == (2, 4, 6)
    assert "stats=entropy" in repr(found)


def test_recording_leaves_them_as_they_are():
    layer, x = regard.nn.Attention(16, heads=4).eval(), torch.randn(2, 6, 16)
    with torch.no_grad():
        plain = layer(x, stats="max_logit")
        with regard.record(layer) as rec:
            recorded = layer(x, stats="max_logit")
    assert torch.equal(plain.stats["max_logit"], recorded.stats["max_logit"])
    assert len(rec.maps) == 1 and not rec.missed


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"stats": "entropi"}, "expected names among 'max_logit', 'entropy', 'log_sum_exp'"),
        ({"stats": 3}, 'stats=("max_logit", "entropy")'),
        ({"stats": "log_sum_exp", "align": "sparsemax"}, "attend(...).map.tau"),
        ({"stats": "max_logit", "align": "uniform"}, 'only "entropy" is defined'),
        ({"stats": "entropy", "align": "monotonic"}, "map.entropy()"),
    ],
)
def test_what_is_not_defined_is_said(options: dict[str, str], sentence: str):
    with pytest.raises((Refused, ValueError, TypeError)) as error:
        attend(*inputs(), **options)
    assert sentence in str(error.value)
