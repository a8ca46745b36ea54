"""Monotonic attention in expectation (taxonomy 2.2 J)."""

import itertools

import pytest
import torch
from tests.core.mechanisms import inputs
from torch import Tensor
from torch.testing import assert_close

from regard import Local, Monotonic, Padding, attend


def enumerated(p: Tensor) -> Tensor:
    """Every way to stop: step t goes on from where the last stopped, stops at j with p_tj; m stands for never."""
    n, m = p.shape
    weights = torch.zeros(n, m, dtype=p.dtype)
    for stops in itertools.product(range(m + 1), repeat=n):
        chance, place = torch.ones((), dtype=p.dtype), 0
        for t, stop in enumerate(stops):
            if stop < place:
                chance = chance * 0
                break
            for j in range(place, min(stop, m)):
                chance = chance * (1 - p[t, j])
            if stop < m:
                chance = chance * p[t, stop]
            place = stop
        for t, stop in enumerate(stops):
            if stop < m:
                weights[t, stop] += chance
    return weights


@pytest.mark.parametrize("m", [1, 2, 4])
def test_the_recurrence_equals_the_enumeration_of_every_way_to_stop(m: int) -> None:
    q, k, v = inputs(n=3, m=m, batch=1)
    amap = attend(q, k, v, align="monotonic").map
    for h in range(2):
        assert_close(amap.weights()[0, h], enumerated(torch.sigmoid(q[0, h] @ k[0, h].T / 2).detach()))
    assert (amap.weights().sum(-1) <= 1).all()


def test_single_steps_that_hand_their_state_over_equal_all_steps_at_once() -> None:
    q, k, v = inputs(n=4)
    whole = attend(q, k, v, align="monotonic")
    state, rows = None, []
    for t in range(4):
        step = attend(q[:, :, t : t + 1], k, v, align="monotonic", state=state)
        state = step.state
        rows.append(step.out)
    assert_close(torch.cat(rows, 2), whole.out)
    assert_close(state, whole.state)


def test_it_never_moves_back() -> None:
    q, k, v = (x.detach() for x in inputs(n=4, m=6))
    sharp = attend(1e4 * q, k, v, align="monotonic").map.weights()
    place = torch.where(sharp.sum(-1) > 0.5, sharp.argmax(-1), 6)
    assert (place.diff(dim=-1) >= 0).all()


def test_noise_is_normal_with_the_given_deviation_and_pushes_no_way() -> None:
    q, k, v = (x.detach() for x in inputs(n=1, m=1, batch=2000, heads=4))
    align = Monotonic(noise=2.0)
    made = attend(q, k, v, align=align, sample=True, seed=0).map.weights()
    noise = torch.logit(made) - (q @ k.mT / 2)
    assert abs(noise.mean().item()) < 4 * 2 / 8000**0.5
    assert abs(noise.std().item() - 2) < 4 * 2 / 16000**0.5
    assert_close(attend(q, k, v, align=align).map.weights(), torch.sigmoid(q @ k.mT / 2))


def test_a_bias_moves_where_it_stops() -> None:
    q, k, v = inputs()
    assert_close(
        attend(q, k, v, align=Monotonic(bias=0.7)).map.weights()[:, :, 0, 0],
        torch.sigmoid(q[:, :, 0] @ k[:, :, 0].mT / 2 + 0.7).diagonal(dim1=-2, dim2=-1).detach(),
    )


def test_masked_keys_are_passed_over() -> None:
    q, k, v = inputs(batch=1)
    padded = attend(q, k, v, align="monotonic", over=Padding(torch.tensor([3]))).map.weights()
    assert_close(padded[..., :3], attend(q, k[:, :, :3], v[:, :, :3], align="monotonic").map.weights())


def test_it_is_not_luongs_local_monotonic_attention() -> None:
    q, k, v = inputs(n=3, m=3)
    assert (attend(q, k, v, align="monotonic").out - attend(q, k, v, align=Local(3)).out).abs().amax() > 0.01


def test_its_map_is_stored_and_has_the_gradient() -> None:
    q, k, v = inputs()
    amap = attend(q, k, v, align="monotonic").map
    assert type(amap).__name__ == "StoredMap"
    assert_close(amap.row(1), amap.weights()[:, :, 1])
