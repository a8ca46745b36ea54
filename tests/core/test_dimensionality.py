"""Multi-dimensional (feature-wise) attention (taxonomy 2.3)."""

import pytest
import torch
from tests.core.mechanisms import ALIGNMENTS, FEATURE_WISE, built, inputs
from torch import Tensor
from torch.testing import assert_close

from regard import Additive, Mask, Modifier, SoftCap, attend
from regard.core.lowering.tiles import Tile


@pytest.mark.parametrize("align", ALIGNMENTS)
@pytest.mark.parametrize("score", FEATURE_WISE)
def test_each_feature_has_weights_of_its_own_as_if_it_were_a_head(score: str, align: str) -> None:
    q, k, v = inputs()
    made, alignment = built(score), built(align)
    out, amap = attend(q, k, v, made, alignment)
    s = made(q, k)
    assert amap.shape == (2, 2, 4, 3, 5)

    class Given(Modifier):
        """The scores of one feature, whatever the dot product says."""

        def __init__(self, s: Tensor) -> None:
            super().__init__()
            self.s = s

        def forward(self, s: Tensor, tile: Tile) -> Tensor:
            return s * 0 + self.s[tile.batch, tile.head, tile.query, tile.key]

    for f in range(4):
        alone = attend(
            q, k, v[..., f : f + 1], built("dot") | Given(s[:, :, f].detach()), alignment, backend="reference"
        )
        assert_close(out[..., f : f + 1], alone.out)
        assert_close(amap.weights()[:, :, f], alone.map.weights())


@pytest.mark.parametrize("score", FEATURE_WISE)
def test_the_weights_of_each_feature_sum_to_one_over_the_keys(score: str) -> None:
    amap = attend(*inputs(), built(score)).map
    assert_close(amap.weights().sum(-1), torch.ones(2, 2, 4, 3, dtype=torch.float64))


def test_equal_columns_of_the_readout_give_the_single_dimensional_result() -> None:
    q, k, v = inputs()
    many, one = built("additive_features"), built("additive")
    with torch.no_grad():
        for name in ("query", "key", "bias"):
            getattr(one, name).copy_(getattr(many, name))
        many.v.copy_(one.v[..., None].expand_as(many.v))
    assert_close(attend(q, k, v, many).out, attend(q, k, v, one).out)


def test_an_outer_bias_of_a_feature_cancels() -> None:
    class Outer(Modifier):
        def forward(self, s: Tensor, tile: Tile) -> Tensor:
            return s + torch.tensor([0.5, -2.0, 3.0, 10.0], dtype=s.dtype)[:, None, None]

    q, k, v = inputs()
    score = built("additive_features")
    assert_close(attend(q, k, v, score | Outer()).out, attend(q, k, v, score).out)


def disa() -> Additive:
    """Shen et al.'s score 5 tanh((W1 h_i + W2 h_j + b) / 5), one score a hidden unit."""
    score = Additive(4, width=4, activation="identity", features=True).double()
    with torch.no_grad():
        score.bias.normal_(generator=torch.Generator().manual_seed(0))
    return score


@pytest.mark.parametrize("backend", ["reference", "chunked"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_directional_self_attention_looks_one_way_without_the_diagonal_and_its_first_row_is_zero(
    direction: str, backend: str
) -> None:
    h = inputs(n=5)[0]
    score = disa()
    i, j = torch.arange(5)[:, None], torch.arange(5)
    keep = j < i if direction == "forward" else j > i
    out, amap = attend(h, h, h, score | SoftCap(5.0), over=Mask(keep=keep), backend=backend)
    inner = h @ score.query[0].T
    inner = inner[..., :, None, :] + (h @ score.key[0].T)[..., None, :, :] + score.bias[0]
    e = torch.exp(5 * torch.tanh(inner / 5)) * keep[..., None]  # (b, h, i, j, d)
    weights = e / e.sum(-2, keepdim=True).clamp_min(1e-300)
    assert_close(amap.weights(), weights.movedim(-1, -3).detach())
    assert_close(out, torch.einsum("bhijd,bhjd->bhid", weights, h))
    empty = 0 if direction == "forward" else 4
    assert (out[:, :, empty] == 0).all()
    assert torch.autograd.grad(out.sum(), h)[0].isfinite().all()


def test_one_feature_is_still_an_axis() -> None:
    q, k, v = inputs()
    score = Additive(4, features=1).double()
    out, amap = attend(q, k, v[..., :1], score)
    assert amap.shape == (2, 2, 1, 3, 5)
    assert_close(out, amap.weights()[:, :, 0] @ v[..., :1])
