"""Recurrences in chunks are the recurrence token by token, and the map that they imply."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from regard import linear_attend

KINDS = [(decay, delta) for decay in ("none", "by head", "by feature") for delta in (False, True)]


def recurrence(q, k, v, decay, beta, scale):
    """The definition, one token after the other."""
    state, outs = q.new_zeros(*q.shape[:-2], q.shape[-1], v.shape[-1]), []
    for t in range(q.shape[-2]):
        key, value = k[..., t, :, None], v[..., t, None, :]
        if decay is not None:
            fade = decay[..., t, :].exp()[..., None] if decay.ndim == q.ndim else decay[..., t, None, None].exp()
            state = state * fade
        if beta is None:
            state = state + key * value
        else:
            write = beta[..., t, None, None]
            state = state - write * key * (key * state).sum(-2, keepdim=True) + write * key * value
        outs.append(scale * (state * q[..., t, :, None]).sum(-2))
    return torch.stack(outs, -2), state


def drawn(n, decay, delta, seed, d=3, d_v=4):
    make = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(2, 2, n, w, generator=make, dtype=torch.float64) for w in (d, d, d_v))
    k = torch.nn.functional.normalize(k, dim=-1)
    shape = {"none": None, "by head": (2, 2, n), "by feature": (2, 2, n, d)}[decay]
    log = None if shape is None else -torch.rand(shape, generator=make, dtype=torch.float64).square() * 3
    beta = 2 * torch.rand(2, 2, n, generator=make, dtype=torch.float64) if delta else None
    return [x if x is None else x.requires_grad_() for x in (q, k, v, log, beta)]


@settings(max_examples=25, deadline=None)
@given(
    n=st.sampled_from([1, 2, 15, 16, 17, 63, 64, 65, 130]),
    kind=st.sampled_from(KINDS),
    cut=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_chunks_are_the_recurrence_and_go_on_where_they_stopped(n, kind, cut, seed):
    q, k, v, log, beta = given_tensors = drawn(n, *kind, seed)
    wanted, last = recurrence(q, k, v, log, beta, 0.5)
    found = linear_attend(q, k, v, log_decay=log, beta=beta, scale=0.5)
    assert_close(found.out, wanted)
    assert_close(found.state, last)
    assert_close(found.map.weights() @ v.detach(), wanted.detach())
    leaves = [x for x in given_tensors if x is not None]
    mix = torch.linspace(-1, 1, wanted.numel(), dtype=torch.float64).view_as(wanted)
    for a, b in zip(
        torch.autograd.grad((found.out * mix).sum(), leaves),
        torch.autograd.grad((wanted * mix).sum(), leaves),
        strict=True,
    ):
        assert_close(a, b)
    stop, state, parts = round(cut * n), None, []
    for piece in (slice(0, stop), slice(stop, n)):
        if piece.stop > piece.start:
            some = [None if x is None else x[:, :, piece] for x in given_tensors]
            went = linear_attend(*some[:3], log_decay=some[3], beta=some[4], scale=0.5, state=state)
            parts, state = [*parts, went.out], went.state
    assert_close(torch.cat(parts, 2), wanted)


@pytest.mark.parametrize(("decay", "delta"), KINDS)
def test_any_tile_of_the_map_is_that_of_the_whole(decay, delta):
    q, k, v, log, beta = drawn(40, decay, delta, 0)
    amap = linear_attend(q, k, v, log_decay=log, beta=beta).map
    whole = amap.weights()
    assert (whole.triu(1) == 0).all()
    assert_close(amap[1, 0].tile([39, 3, 20], slice(5, 25)), whole[1, 0][[39, 3, 20], 5:25])
    assert_close(amap.row(17), whole[..., 17, :])
    assert_close(amap.column(30), whole[..., 30])
    assert_close(amap.pyramid(8).cell, 8)


def test_a_constant_decay_is_retention():
    q, k, v, _, _ = drawn(12, "none", False, 1)
    far = torch.arange(12)[:, None] - torch.arange(12)
    wanted = (q @ k.mT) * (0.9 ** far.clamp_min(0)).double().tril() @ v
    assert_close(linear_attend(q, k, v, log_decay=torch.full((2, 2, 12), 0.9).double().log(), scale=1.0).out, wanted)


def test_a_key_that_was_written_last_gives_back_its_value():
    keys = torch.nn.functional.normalize(torch.randn(20, 4, dtype=torch.float64), dim=-1)
    values = torch.randn(20, 3, dtype=torch.float64)
    assert_close(linear_attend(keys, keys, values, beta=torch.ones(20).double(), scale=1.0).out, values)


def test_strong_decays_over_long_texts_stay_finite():
    q, k, v = torch.randn(3, 1, 300, 8)
    for shape in ((1, 300), (1, 300, 8)):
        out = linear_attend(q, k, v, log_decay=torch.full(shape, -30.0)).out
        assert out.isfinite().all()
        assert_close(out, (q * k).sum(-1, keepdim=True) * v / 8**0.5, atol=1e-5, rtol=1e-4)  # only the token itself


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_sums_in_fp32(dtype):
    q, k, v = (x.to(dtype) for x in torch.randn(3, 2, 100, 8))
    exact = linear_attend(q.double(), k.double(), v.double()).out
    assert_close(linear_attend(q, k, v).out, exact.to(dtype))


def test_the_rule_of_transformers_gives_the_same_numbers():
    peer = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next", reason="the peer is transformers")
    q, k, v, log, beta = (x.detach().float() for x in drawn(70, "by head", True, 2, 4, 4))
    wanted, _ = peer.torch_recurrent_gated_delta_rule(
        *(x.transpose(1, 2) for x in (q, k, v)), log.transpose(1, 2), beta.transpose(1, 2), None, True
    )
    assert_close(linear_attend(q, k, v, log_decay=log, beta=beta).out, wanted.transpose(1, 2), atol=1e-5, rtol=1e-4)


def test_an_implied_map_opens_on_a_page(tmp_path):
    amap = linear_attend(*torch.randn(3, 2, 20, 4), log_decay=torch.full((2, 20), -0.1)).map
    amap.save_html(tmp_path / "map.html")
    assert (tmp_path / "map.html").stat().st_size > 10_000


def test_wrong_shapes_say_what_was_expected():
    q = torch.randn(2, 5, 4)
    with pytest.raises(ValueError, match="expected q and k alike"):
        linear_attend(q, q[:, :4], q)
    with pytest.raises(ValueError, match=r"log_decay \(5,\)\): expected \(2, 5\)"):
        linear_attend(q, q, q, log_decay=torch.zeros(5))
    assert linear_attend(q[:, :0], q[:, :0], q[:, :0]).out.shape == (2, 0, 4)
