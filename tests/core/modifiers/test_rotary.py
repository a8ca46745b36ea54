"""Rotary embedding: positions as rotations."""

import math

import pytest
from tests.core.mechanisms import inputs
from torch.testing import assert_close

from regard import Rotary, attend


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
