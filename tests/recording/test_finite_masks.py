"""Additive masks of finite numbers: the map is what the kernel did, also where a whole row is closed."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

import regard
from regard import Causal, Entmax, PairBias, ScaledDot, Sink, Softmax, Sparsemax, TopK, attend, intervene, record
from regard.interventions import Freeze, Uniform
from regard.recording.capture.mask_structure import read_mask

LOWS = (torch.finfo(torch.float32).min, torch.finfo(torch.bfloat16).min, -1e9, -1e4)


class Attends(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def drawn(seed: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q, k, v and a mask in which some rows are closed throughout, others in part, by the same or by mixed numbers."""
    rng = torch.Generator().manual_seed(seed)

    def pick(*options):
        return options[int(torch.randint(len(options), (), generator=rng))]

    b, h, n, m = pick(1, 2), pick(1, 3), pick(1, 4, 5), pick(4, 8)
    q, k = (torch.randn(b, h, size, m, generator=rng) * pick(1, 1, 4) for size in (n, m))
    v = torch.randn(b, h, m, m, generator=rng)
    shape = pick((n, m), (b, 1, n, m), (1, h, n, m), (b, 1, 1, m))
    lows = torch.tensor(pick(LOWS, LOWS[:1], LOWS[1:2], LOWS[2:3], LOWS[3:]), dtype=torch.float64)
    lows = lows.clamp_min(torch.finfo(dtype).min)
    rows = torch.rand(*shape[:-1], 1, generator=rng)
    closed = (rows < 0.4) | ((rows < 0.8) & (torch.rand(shape, generator=rng) < 0.5))
    which = torch.randint(len(lows), shape, generator=rng)
    mask = torch.where(closed, lows[which], 0.0)
    return q.to(dtype), k.to(dtype), v.to(dtype), mask.to(dtype)


def kernels_weights(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    """The kernel over the identity: each output is a weight. Keys are as wide as they are many, so no other kernel runs
    than over values."""
    eye = torch.eye(k.shape[-2], dtype=q.dtype).expand(*k.shape[:2], -1, -1)
    return F.scaled_dot_product_attention(q, k, eye, attn_mask=mask)


def summed(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    """Scores in fp64 from the inputs, rounded where the kernel rounds: to its arithmetic, before and after the mask."""
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    s = (q.double() @ k.double().mT * q.shape[-1] ** -0.5).to(wide)
    return s + mask.to(wide)


def allowed_error(s: Tensor) -> Tensor:
    """Of the weights of each row: an ulp of its scores, where ulps are small beside 1; where they are not, all scores
    of a row fall on one number or are apart."""
    unit = torch.finfo(s.dtype).eps * (1 + s.amax(-1, keepdim=True).double().abs())
    return 8 * torch.where(unit < 0.01, unit, torch.finfo(s.dtype).eps)


def only(rec):
    return next(iter(rec.maps.values()))


def check(seed: int, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, low: torch.dtype, autocast: bool = False) -> None:
    """`low`: the type in which the kernel ran."""
    model = Attends()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast), record(model) as rec:
        out = model(q, k, v, mask)
        theirs = kernels_weights(q, k, mask)
    assert out.dtype == low
    s = summed(*(x.to(low) for x in (q, k, mask)))
    truth = s.double().softmax(-1)
    weights = only(rec).weights().double()
    slack = allowed_error(s)
    assert bool(((weights - truth).abs() <= slack).all()), f"seed {seed}"
    assert bool(((weights - theirs.double()).abs() <= slack + torch.finfo(low).eps).all()), f"seed {seed}"
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast), intervene(model, Freeze(rec)):
        frozen = model(q, k, v, mask)
    room = (slack + 4 * torch.finfo(low).eps) * v.double().abs().sum(-2, keepdim=True)
    assert bool(((frozen.double() - out.double()).abs() <= room).all()), f"seed {seed}"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("seed", range(40))
def test_weights_are_the_kernels_and_freezing_them_changes_nothing(seed, dtype):
    check(seed, *drawn(seed, dtype), dtype)


@pytest.mark.parametrize("seed", range(40))
def test_they_are_under_autocast(seed):
    q, k, v, mask = drawn(seed, torch.float32)
    check(seed, q, k, v, mask.clamp_min(torch.finfo(torch.bfloat16).min), torch.bfloat16, autocast=True)


@pytest.mark.parametrize("keep", ["weights", "topk", "stats", "qk"])
@pytest.mark.parametrize("low", LOWS)
def test_all_that_is_kept_of_a_closed_row_is_finite_and_right(low, keep):
    q, k, v = (torch.randn(1, 1, 4, 8, generator=torch.Generator().manual_seed(i)) for i in range(3))
    mask = torch.zeros(4, 4)
    mask[0] = low
    model = Attends()
    with record(model, keep=keep, k=4) as rec:
        model(q, k, v, mask)
    truth = summed(q, k, mask).double().softmax(-1).float()
    room = float(allowed_error(summed(q, k, mask)).max()) * 8
    if keep == "stats":
        (found,) = rec.stats.values()
        assert_close(found.entropy, -torch.xlogy(truth, truth).sum(-1), atol=room, rtol=0)
        assert_close(found.mass, truth.sum(-2), atol=room, rtol=0)
    else:
        assert_close(only(rec).weights(), truth, atol=room, rtol=0)
        assert_close(only(rec)[0, 0].row(0), truth[0, 0, 0], atol=room, rtol=0)


@pytest.mark.parametrize("low", LOWS)
def test_a_file_keeps_them(low, tmp_path):
    q, k, v = (torch.randn(1, 2, 5, 8, generator=torch.Generator().manual_seed(i)) for i in range(3))
    mask = torch.zeros(5, 5)
    mask[1:3] = low
    with record() as rec:
        F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    loaded = only(regard.load(rec.save(tmp_path / "run.regard")))
    assert torch.equal(loaded.weights(), only(rec).weights())
    assert_close(loaded.weights().sum(-1), torch.ones(1, 2, 5))


def test_a_number_that_scores_reach_closes_nothing():
    q, k = torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 2, 4)
    q[..., 0], k[..., 0, 0] = 400.0, 1000.0  # scores of 2e5 and 0: what is masked with -1e4 wins all the same
    mask = torch.tensor([[-1e4, 0.0], [-1e4, 0.0]])
    with record() as rec:
        F.scaled_dot_product_attention(q, k, torch.randn(1, 1, 2, 4), attn_mask=mask)
    assert_close(only(rec).weights(), torch.tensor([1.0, 0.0]).expand(1, 1, 2, 2))


def test_a_mask_that_scores_cannot_reach_stays_a_structure():
    q = torch.randn(1, 2, 6, 8)
    causal = torch.zeros(6, 6).masked_fill(torch.ones(6, 6).triu(1).bool(), torch.finfo(torch.float32).min)
    for mask in (causal, causal.clamp_min(-1e9), causal.clamp_min(-1e4), causal.masked_fill(causal < 0, -torch.inf)):
        over, bias = read_mask(mask, False, q, q)
        assert type(over) is Causal and bias is None
    assert read_mask(causal.clamp_min(-1e4), False, 40 * q, 40 * q)[1] is not None


@pytest.mark.parametrize("low", LOWS)
def test_a_row_closed_throughout_has_equal_weights_where_uniform_is_put_in(low):
    q, k, v = torch.randn(3, 1, 1, 4, 8).unbind()
    mask = torch.zeros(4, 4)
    mask[0], mask[1, 2] = low, low
    model = Attends()
    with intervene(model, Uniform()), record(model) as rec:
        model(q, k, v, mask)
    expected = torch.full((4, 4), 0.25)
    expected[1] = torch.tensor([1 / 3, 1 / 3, 0, 1 / 3])
    assert_close(only(rec).weights()[0, 0], expected)


@pytest.mark.parametrize("align", [Softmax(), Sparsemax(), Entmax(1.5), TopK(2)], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("backend", ["reference", "chunked"])
@pytest.mark.parametrize("sink", [False, True])
def test_maps_of_our_own_attend_are_the_definition_at_any_offset(align, backend, sink):
    q, k, v = (torch.randn(1, 2, 4, 4, generator=torch.Generator().manual_seed(i)) for i in range(3))
    bias = torch.zeros(4, 4)
    bias[0], bias[1, 2] = 1e6, -1e9
    score = ScaledDot() | PairBias(bias)
    weights = attend(q, k, v, score | Sink(2) if sink else score, align, backend=backend).map.weights()
    s = ((q @ k.mT) / 2 + bias).double()
    s = torch.cat([s, torch.zeros(1, 2, 4, 1, dtype=s.dtype)], -1) if sink else s  # its logits start at 0
    assert_close(weights, align(s)[..., :4].float(), atol=1e-6, rtol=0)


def test_a_record_in_fewer_bits_keeps_a_finite_mask_finite():
    q, k, v = torch.randn(3, 1, 1, 4, 8).unbind()
    bias = torch.zeros(4, 4)
    bias[0] = torch.finfo(torch.float32).min
    with record(dtype=torch.bfloat16) as rec:
        attend(q, k, v, ScaledDot() | PairBias(bias))
    assert_close(only(rec).weights()[..., 0, :], torch.full((1, 1, 4), 0.25))
