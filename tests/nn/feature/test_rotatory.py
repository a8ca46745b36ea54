"""Rotatory attention against a plain loop: turns, hops that chain, the inverse order, empty contexts."""

import pytest
import torch
from tests.nn.unrolled import read
from torch.testing import assert_close

from regard import Padding
from regard.nn import RotatoryAttention

LENGTHS = {"target": [3, 2], "left": [4, 1], "right": [5, 3]}


def built(*sizes, **options):
    made = RotatoryAttention(*sizes, **options).double()
    for name, parameter in made.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    return made


def three(dims=(4, 3, 2)):
    sizes = dict(zip(LENGTHS, dims, strict=True))
    return {name: torch.randn(2, max(LENGTHS[name]), width, dtype=torch.float64) for name, width in sizes.items()}


def padded(**lengths):
    return {f"over_{name}": Padding(torch.tensor(lengths.get(name, sizes))) for name, sizes in LENGTHS.items()}


@pytest.mark.parametrize("inverse", [False, True], ids=["forward", "inverse"])
@pytest.mark.parametrize(("hops", "tied"), [(1, False), (3, False), (3, True)], ids=["one", "three", "three, tied"])
def test_turns_follow_one_another(hops, tied, inverse):
    made, given = built(4, 3, 2, hops=hops, tied=tied, inverse=inverse), three()
    found = made(**given, **padded())
    for item in range(2):
        target, left, right = (given[name][item, : LENGTHS[name][item]] for name in LENGTHS)
        if inverse:
            asks = [left.mean(0), right.mean(0)]
        else:
            asks = [target.mean(0), target.mean(0)]
        for hop in range(hops):
            turn = made.turns[0 if tied else hop]
            if inverse:
                towards = [
                    read(turn["left_target"].score, asks[0], target),
                    read(turn["right_target"].score, asks[1], target),
                ]
                asks = [read(turn["left"].score, towards[0], left), read(turn["right"].score, towards[1], right)]
                parts = [*asks, *towards]
            else:
                outward = [read(turn["left"].score, asks[0], left), read(turn["right"].score, asks[1], right)]
                asks = [
                    read(turn["left_target"].score, outward[0], target),
                    read(turn["right_target"].score, outward[1], target),
                ]
                parts = [*outward, *asks]
        assert_close(found.out[item], torch.cat(parts))


def test_hops_chain():
    made, given = built(4, hops=2), three((4, 4, 4))
    made(**given).out.square().sum().backward()
    gradients = [p.grad.abs().max() for p in made.turns[0].parameters()]
    assert min(gradients) > 0


def test_an_empty_context_is_zero_and_the_target_it_asks_is_a_mean():
    made, given = built(4, 3, 2), three()
    found = made(**given, **padded(left=[4, 0]))
    assert found.out[1, :3].abs().max() == 0
    assert_close(found.steps["left_target"].out[1, 0], given["target"][1, :2].mean(0))


def test_left_and_right_are_mirrors():
    made, given = built(4, 3, 3), three((4, 3, 3))
    swapped = RotatoryAttention(4, 3, 3).double()
    for mine, other in (("left", "right"), ("right", "left")):
        swapped.turns[0][mine].load_state_dict(made.turns[0][other].state_dict())
        swapped.turns[0][f"{mine}_target"].load_state_dict(made.turns[0][f"{other}_target"].state_dict())
    r_l, r_r, r_lt, r_rt = made(**given).out.split([3, 3, 4, 4], -1)
    mirrored = swapped(given["target"], given["right"], given["left"]).out
    assert_close(mirrored, torch.cat([r_r, r_l, r_rt, r_lt], -1))


def test_tied_hops_have_the_parameters_of_one():
    def count(**options):
        return sum(p.numel() for p in RotatoryAttention(4, **options).parameters())

    assert count(hops=3, tied=True) == count(hops=1)
    assert count(hops=3) == 3 * count(hops=1)
