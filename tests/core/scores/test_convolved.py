"""ConvolvedDot scores, beside torch's convolution of the masked matrix."""

import pytest
import torch
from torch.nn.functional import conv2d, pad
from torch.testing import assert_close

from regard import Causal, ConvolvedDot, ScaledDot, attend, nn


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (6, 11), (3, 4)])
def test_scores_are_torchs_convolution_of_the_causal_matrix(size):
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 2, 12, 4, dtype=torch.float64)
    score = ConvolvedDot(2, *size).double()
    torch.nn.init.normal_(score.kernel)
    matrix = (q @ k.mT / 2).tril()
    back, ahead = size[1] // 2, -(-size[1] // 2) - 1  # conv2d turns no kernel round: its last row is the query itself
    wanted = conv2d(pad(matrix, (back, ahead, size[0] - 1, 0)), score.kernel.flip(-1, -2)[:, None], groups=2)
    assert_close(score(q, k), wanted)
    found = attend(q, k, k, score, over=Causal(), backend="chunked").map
    keep = torch.ones(12, 12, dtype=torch.bool).tril()
    weights = wanted.masked_fill(~keep, float("-inf")).softmax(-1)
    assert_close(found.weights(), weights.detach())
    assert_close(found.tile(slice(5, 8), slice(3, 6)), weights.detach()[..., 5:8, 3:6])


def test_a_new_kernel_is_the_scaled_dot_product():
    q, k = torch.randn(2, 1, 6, 4)
    assert_close(ConvolvedDot()(q, k).tril(), ScaledDot()(q, k).tril())


def test_a_cache_that_holds_keys_alone_is_refused():
    layer = nn.Attention(8, 2, score=ConvolvedDot(2))
    with pytest.raises(ValueError, match="MultiTokenAttention"):
        layer(torch.randn(1, 3, 8), over=Causal(align="end"), cache=nn.Cache())
