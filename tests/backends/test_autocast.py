"""Under autocast attention runs in the autocast type, as torch's own does."""

import pytest
import torch
import torch.nn.functional as F
from tests.catalogue import OwnScore

from regard import Additive, Gaussian, ScaledDot, TopK, attend

pytestmark = pytest.mark.usefixtures("either_path")


@pytest.mark.parametrize("backend", ["sdpa", "chunked", "reference"])
def test_queries_keys_and_values_are_cast_as_torchs_attention_casts_them(backend):
    q, k, v = (torch.randn(1, 2, 5, 4, requires_grad=True) for _ in range(3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = attend(q, k, v, backend=backend).out
        peer = F.scaled_dot_product_attention(q, k, v)
    assert out.dtype == peer.dtype == torch.bfloat16
    out.float().sum().backward()
    assert q.grad.dtype == torch.float32
    low = attend(q.bfloat16(), k.bfloat16(), v.bfloat16(), backend=backend).out
    assert torch.equal(out, low)


@pytest.mark.parametrize(
    ("score", "align"),
    [
        (Additive(4, heads=2), "softmax"),
        (Gaussian(learned=True), "entmax15"),
        (ScaledDot(), TopK(2)),
        (OwnScore(4, 2), "softmax"),
    ],
    ids=["additive", "gaussian", "top-k", "own"],
)
def test_parameters_keep_their_type_and_get_their_gradient(score, align):
    q, k, v = (torch.randn(1, 2, 5, 4, requires_grad=True) for _ in range(3))
    exact = attend(q, k, v, score, align, backend="chunked").out
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = attend(q, k, v, score, align, backend="chunked").out
    out.float().sum().backward()
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), exact, rtol=0.05, atol=0.05)  # it is the same attention, in 8 bits
    for p in score.parameters():
        assert p.grad.dtype == p.dtype == torch.float32 and p.grad.isfinite().all()


def test_statistics_stay_in_fp32():
    """Blocks run outside autocast: a row of 3,000 equal scores has tau = log 3000 to seven digits."""
    q, k, v = (torch.zeros(1, 1, n, 4) for n in (2, 3000, 3000))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        amap = attend(q, k, v, backend="chunked").map
    torch.testing.assert_close(amap.tau, torch.full((1, 1, 2), 3000.0).log())


def test_fp64_is_left_alone():
    q, k, v = (torch.randn(1, 2, 5, 4, dtype=torch.float64) for _ in range(3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert attend(q, k, v).out.dtype == torch.float64
