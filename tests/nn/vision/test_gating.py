"""Gates: squeeze-excitation, ECA and CBAM against the formulas of the papers, masks, and what opens a gate."""

import torch
import torch.nn.functional as F
from torch.testing import assert_close

import regard
from regard import Mask, Uniform
from regard.nn import ConvolutionalBlockAttention, EfficientChannelAttention, SqueezeExcitation


def picture(channels=8):
    return torch.randn(2, channels, 3, 5, dtype=torch.float64)


def test_squeeze_excitation_is_mean_two_layers_and_a_sigmoid():
    made, x = SqueezeExcitation(8, 2).double(), picture()
    z = x.mean((2, 3))
    gate = torch.sigmoid(F.linear(F.relu(F.linear(z, made.down.weight)), made.up.weight))
    found = made(x)
    assert_close(found.out, x * gate[:, :, None, None])
    assert_close(found.maps["gate"].weights()[..., 0, 0], gate)


def test_the_squeeze_may_look_where_it_matters():
    made, x = SqueezeExcitation(8, 2, score="query_free", align="softmax").double(), picture()
    flat, score = x.flatten(2).transpose(1, 2), made.squeeze.score
    s = torch.tanh(flat @ score.key[0].T + score.bias[0]) @ score.w[0]
    z = (torch.softmax(s, -1)[..., None] * flat).sum(1)
    gate = torch.sigmoid(F.linear(F.relu(F.linear(z, made.down.weight)), made.up.weight))
    assert_close(made(x).out, x * gate[:, :, None, None])


def test_where_positions_stand_does_not_matter_to_the_gate():
    made, x = SqueezeExcitation(8, 2).double(), picture()
    assert_close(made(x.flip(2, 3)).out, made(x).out.flip(2, 3))


def test_a_uniform_gate_is_open_and_the_ablation():
    x = picture()
    for made in (
        SqueezeExcitation(8, gate=Uniform()),
        EfficientChannelAttention(8, gate=Uniform()),
        ConvolutionalBlockAttention(8, gate=Uniform()),
    ):
        assert_close(made.double()(x).out, x)


def test_an_intervention_shuts_channels():
    made, x = SqueezeExcitation(8, 2).double(), picture()
    open_ones = made(x).out
    with regard.intervene(made, {"gate": regard.interventions.DropHeads([1, 4])}):
        found = made(x).out
    assert found[:, [1, 4]].abs().max() == 0
    rest = [0, 2, 3, 5, 6, 7]
    assert_close(found[:, rest], open_ones[:, rest])


def test_efficient_channels_look_at_their_neighbours():
    made, x = EfficientChannelAttention(8, 3).double(), picture()
    z, w = x.mean((2, 3)), made.conv.weight[0, 0]
    padded = F.pad(z, (1, 1))
    gate = torch.sigmoid(torch.stack([padded[:, c : c + 3] @ w for c in range(8)], -1))
    assert_close(made(x).out, x * gate[:, :, None, None])


def test_distant_channels_do_not_move_a_gate():
    made, x = EfficientChannelAttention(8, 3).double(), picture().requires_grad_()
    gate = made(x).maps["gate"].weights(grad=True)[0, 4, 0, 0]
    gate.backward()
    moved = x.grad[0].abs().amax((1, 2)) > 0
    assert moved.tolist() == [False, False, False, True, True, True, False, False]


def test_the_kernel_grows_with_the_logarithm_of_the_channels():
    sizes = [EfficientChannelAttention(channels).conv.kernel_size[0] for channels in (8, 64, 256, 512)]
    assert sizes == [3, 3, 5, 5]


def test_cbam_gates_channels_and_then_places():
    made, x = ConvolutionalBlockAttention(8, 2, 3).double(), picture()

    def perceptron(z):
        return F.linear(F.relu(F.linear(z, made.down.weight)), made.up.weight)

    gate = torch.sigmoid(perceptron(x.mean((2, 3))) + perceptron(x.amax((2, 3))))
    passed = x * gate[:, :, None, None]
    seen = torch.stack([passed.mean(1), passed.amax(1)], 1)
    places = torch.sigmoid(F.conv2d(seen, made.conv.weight, padding=1))
    assert_close(made(x).out, passed * places)


def test_closed_pixels_do_not_count_in_any_gate():
    x = picture()
    keep = torch.ones(2, 1, 1, 15, dtype=torch.bool)
    keep.view(2, 3, 5)[:, :, 3:] = False  # the two columns on the right
    for made in (SqueezeExcitation(8, 2), EfficientChannelAttention(8), ConvolutionalBlockAttention(8, 2, 3)):
        made = made.double()
        assert_close(made(x, Mask(keep=keep)).out[..., :3], made(x[..., :3].contiguous()).out)
