"""Rotary embedding: positions as rotations."""

import math

import pytest
import torch
from tests.core.mechanisms import inputs
from torch.testing import assert_close

from regard import GridRotary, Rotary, attend


def test_each_pair_of_coordinates_turns_by_its_own_angle() -> None:
    x = inputs(n=3, width=6)[0][0, 0]
    turned = Rotary(6, base=100.0)(x)
    for p in range(3):
        for c in range(3):
            angle = p / 100 ** (2 * c / 6)
            a, b = x[p, c], x[p, c + 3]
            assert_close(turned[p, c], a * math.cos(angle) - b * math.sin(angle))
            assert_close(turned[p, c + 3], b * math.cos(angle) + a * math.sin(angle))


@pytest.mark.parametrize("shift", [1, 17, 1000])
def test_a_dot_product_depends_on_the_distance_of_two_positions_alone(shift: int) -> None:
    q, k, _ = inputs(n=5, m=5, width=8)
    rotary = Rotary(8)
    assert_close(rotary(q, shift) @ rotary(k, shift).mT, rotary(q) @ rotary(k).mT)


def test_the_first_position_and_every_length_stay_as_they_are() -> None:
    q = inputs(n=5, width=8)[0]
    turned = Rotary(8)(q)
    assert_close(turned[..., 0, :], q[..., 0, :])
    assert_close(turned.norm(dim=-1), q.norm(dim=-1))


def test_starting_later_equals_taking_later_rows() -> None:
    q, k, v = inputs(n=5, m=5, width=8)
    rotary = Rotary(8)
    assert_close(rotary(q[..., 3:, :], start=3), rotary(q)[..., 3:, :])
    assert_close(attend(rotary(q[..., 4:, :], 4), rotary(k), v).out, attend(rotary(q), rotary(k), v).out[..., 4:, :])


def test_partial_rotary_leaves_the_other_coordinates_and_turns_the_first_as_a_narrower_one() -> None:
    q = inputs(n=5, width=8)[0]
    turned = Rotary(8, turned=4)(q, 3)
    assert_close(turned[..., :4], Rotary(4)(q[..., :4], 3))
    assert_close(turned[..., 4:], q[..., 4:])


@pytest.mark.parametrize("factor", [1.0, 4.0, 32.0])
@pytest.mark.parametrize("d", [8, 64, 128])
def test_yarn_and_linear_have_the_frequencies_of_transformers(d: int, factor: float) -> None:
    rope = pytest.importorskip("transformers.modeling_rope_utils", reason="the peer is transformers")
    transformers = pytest.importorskip("transformers")
    for kind in ("linear", "yarn"):
        parameters = {"rope_type": kind, "rope_theta": 10000.0, "factor": factor}
        if kind == "yarn":
            parameters["original_max_position_embeddings"] = 2048
        config = transformers.LlamaConfig(
            hidden_size=d, num_attention_heads=1, head_dim=d, max_position_embeddings=4096, rope_parameters=parameters
        )
        wanted, gain = rope.ROPE_INIT_FUNCTIONS[kind](config, "cpu")
        found, ours = Rotary(d, stretch=kind, factor=factor, trained=2048).frequencies()
        assert_close(found.float(), wanted)
        assert ours == pytest.approx(gain)


def test_ntk_keeps_the_fastest_rotation_and_divides_the_slowest_by_the_factor() -> None:
    plain, longer = Rotary(16).frequencies()[0], Rotary(16, stretch="ntk", factor=8.0).frequencies()[0]
    assert_close(longer[0], plain[0])
    assert_close(longer[-1], plain[-1] / 8)


def test_pixels_score_by_how_far_they_are_apart_in_rows_and_columns() -> None:
    rotary = GridRotary(8, (4, 5)).double()
    q, k = (torch.randn(8, dtype=torch.float64).expand(20, 8) for _ in range(2))
    scores = (rotary(q) @ rotary(k).mT).view(4, 5, 4, 5)
    assert_close(scores[:-1, :-1, :-1, :-1], scores[1:, 1:, 1:, 1:])
    assert not torch.allclose(scores[0, 0, 1, 0], scores[0, 0, 0, 1])


def test_wrong_stretches_say_what_was_expected() -> None:
    with pytest.raises(ValueError, match="needs trained="):
        Rotary(8, stretch="yarn", factor=2.0)
    with pytest.raises(ValueError, match="expected None, 'linear', 'ntk', 'yarn'"):
        Rotary(8, stretch="log")
    with pytest.raises(ValueError, match=r"Rotary\(stretch=.*tensor.*expected None"):
        Rotary(8, stretch=torch.arange(3))
    with pytest.raises(ValueError, match="of at most d=8"):
        Rotary(8, turned=10)
    with pytest.raises(ValueError, match="4 x 5 pixels of width 8, but x is"):
        GridRotary(8, (4, 5))(torch.randn(19, 8))
