"""What holds for every mechanism, over the product of scores and alignments (taxonomy 0.3 and 0.4)."""

import pytest
import torch
from tests.core.mechanisms import ALIGNMENTS, PLACED, SIMPLEX, built, inputs, product
from torch import Tensor
from torch.testing import assert_close

from regard import Padding, attend
from regard.core.lowering.tiles import Tile
from regard.core.modifiers import Modifier

FREE_OF_PLACE = [(s, a) for s, a in product() if s not in PLACED and a not in PLACED]
ON_THE_SIMPLEX = [(s, a) for s, a in product(alignments=list(SIMPLEX)) if s != "sink"]
SMOOTH = [(s, a) for s, a in product() if a != "gumbel_straight"]


def test_five_tokens_have_the_weights_and_contexts_of_the_textbook() -> None:
    x = torch.tensor([[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1], [1, 0.5, 0.5, 0]])
    out, amap = attend(x, x, x, score="scaled_dot")
    weights = torch.tensor([
        [0.2976, 0.1095, 0.1805, 0.1805, 0.2318], [0.1205, 0.3275, 0.1986, 0.1986, 0.1547],
        [0.1805, 0.1805, 0.2976, 0.1095, 0.2318], [0.1986, 0.1986, 0.1205, 0.3275, 0.1547],
        [0.2374, 0.1440, 0.2374, 0.1440, 0.2374],
    ])  # fmt: skip
    contexts = torch.tensor([
        [0.7100, 0.4059, 0.5941, 0.2900], [0.4738, 0.6035, 0.3965, 0.5262], [0.7100, 0.5941, 0.4059, 0.2900],
        [0.4738, 0.3965, 0.6035, 0.5262], [0.7121, 0.5000, 0.5000, 0.2879],
    ])  # fmt: skip
    assert_close(amap.weights(), weights, atol=5e-5, rtol=0)
    assert_close(out, contexts, atol=5e-5, rtol=0)


@pytest.mark.parametrize(("score", "align"), FREE_OF_PLACE)
def test_permuting_the_keys_permutes_the_weights_and_leaves_the_output(score: str, align: str) -> None:
    q, k, v = inputs()
    order, made = torch.tensor([3, 0, 4, 1, 2]), (built(score), built(align))
    plain, permuted = attend(q, k, v, *made), attend(q, k[:, :, order], v[:, :, order], *made)
    assert_close(permuted.out, plain.out)
    assert_close(permuted.map.weights(), plain.map.weights()[..., order])


@pytest.mark.parametrize(("score", "align"), ON_THE_SIMPLEX)
def test_simplex_weights_sum_to_one_and_the_output_lies_in_the_hull_of_the_valid_values(score: str, align: str) -> None:
    q, k, v = inputs()
    lengths = torch.tensor([5, 3])
    out, amap = attend(q, k, v, built(score), built(align), Padding(lengths))
    assert_close(amap.weights().sum(-1), torch.ones(amap.shape[:-1], dtype=torch.float64))
    for item, length in enumerate(lengths.tolist()):
        valid = v[item, :, :length]
        assert (out[item] >= valid.amin(1, keepdim=True) - 1e-12).all()
        assert (out[item] <= valid.amax(1, keepdim=True) + 1e-12).all()


@pytest.mark.parametrize(("score", "align"), ON_THE_SIMPLEX)
def test_a_single_key_gets_weight_one_and_its_value_is_the_output(score: str, align: str) -> None:
    q, k, v = inputs(n=2, m=1)
    out, amap = attend(q, k, v, built(score), built(align))
    assert_close(amap.weights(), torch.ones(amap.shape, dtype=torch.float64))
    assert_close(out, v.expand_as(out))


@pytest.mark.covered(3)
@pytest.mark.parametrize(("score", "align"), SMOOTH)
def test_the_gradient_of_every_input_and_parameter_is_that_of_finite_differences(score: str, align: str) -> None:
    tensors = inputs(n=2, m=4, batch=1)
    made = built(score), built(align)
    tensors += [p for part in made for p in part.parameters()]

    def out(*_: Tensor) -> Tensor:
        return attend(*tensors[:3], *made).out

    assert torch.autograd.gradcheck(out, tensors, fast_mode=True, atol=1e-6)


class Lift(Modifier):
    """Adds another constant to each row."""

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        return s + 1.5 * (tile.query + 1)


@pytest.mark.parametrize("align", [a for a in ALIGNMENTS if a != "reinforced"])
def test_a_constant_added_to_a_row_matters_only_where_an_alignment_says_so(align: str) -> None:
    q, k, v = inputs(n=3, m=3)
    score = built("scaled_dot")
    plain, lifted = attend(q, k, v, score, built(align)).out, attend(q, k, v, score | Lift(), built(align)).out
    if not built(align).shift_invariant:
        assert (plain - lifted).abs().amax() > 0.01
    else:
        assert_close(plain, lifted)
