"""Cards with little shared memory have smaller tiles: the same numbers, and no more memory than they have."""

import pytest
import torch

pytest.importorskip("triton")

from regard import Causal, attend
from regard.backends.triton.dense import backend as triton_dense
from regard.backends.triton.dense import launch_config, tile_sizes
from regard.backends.triton.dense.backend import TritonDense, kernel_refusals
from regard.backends.triton.dense.tile_sizes import side_of
from regard.backends.triton.maps import launch
from regard.backends.triton.maps.map_lowering import map_tensors_of
from regard.core.plan import make_plan

fp32, bf16 = torch.float32, torch.bfloat16


def card(monkeypatch, kib):
    for module in (tile_sizes, launch_config, launch):
        monkeypatch.setattr(module, "shared_memory_kib", lambda device: kib)


@pytest.fixture
def small_card(monkeypatch):
    card(monkeypatch, 99)


SIDES = {99: [64, 32, 16, 64, 32], 163: [64, 32, 32, 64, 64], 227: [64, 64, 32, 64, 64]}


@pytest.mark.parametrize("kib", SIDES)
def test_the_wider_a_head_the_smaller_its_tile(kib, monkeypatch):
    card(monkeypatch, kib)
    heads = [(64, fp32), (128, fp32), (256, fp32), (128, bf16), (256, bf16)]
    given = [torch.empty(1, 1, width, dtype=dtype) for width, dtype in heads]
    assert [side_of(x, x, core=0) for x in given] == SIDES[kib]
    assert [side_of(x, x, core=1) for x in given] == [64, 64, 32, 64, 64]  # pairs take little of it


@pytest.mark.covered
@pytest.mark.parametrize("align", ["softmax", "sigmoid", "entmax15"])
@pytest.mark.parametrize(("width", "side"), [(72, 32), (136, 16)])
def test_outputs_and_gradients_are_the_reference(width, side, align, small_card):
    q, k, v = (torch.randn(1, 1, places, width).div(2).requires_grad_() for places in (20, 37, 37))
    pull, asked = torch.randn(1, 1, 20, width), make_plan(q, k, v, "scaled_dot", align, Causal("end"))
    assert not kernel_refusals(asked) and side_of(q, v, 0) == side
    mine = TritonDense().run(asked).out
    true = attend(q, k, v, align=align, over=Causal("end"), backend="reference").out
    pairs = zip(*(torch.autograd.grad(x, (q, k, v), pull) for x in (mine, true)), strict=True)
    for x, y in ((mine, true), *pairs):
        torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-5)


def test_tiles_of_maps_fit_and_read_the_same(small_card):
    q, k = (torch.randn(1, 1, places, 40) for places in (70, 90))
    amap = attend(q, k, k, over=Causal("end")).map
    read = map_tensors_of(amap.live, amap.slab, amap.state)
    assert read.side == 64 and read.stages(128) == 1 and not read.stages(512)
    torch.testing.assert_close(launch.entropy_of(read)[0], amap.entropy()[0, 0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(launch.mass_of(read)[0], amap.mass()[0, 0], rtol=1e-5, atol=1e-5)


def test_more_tiles_than_a_list_can_name_are_refused(monkeypatch):
    monkeypatch.setattr(triton_dense, "MAX_TILES", 2)
    q, k = torch.randn(1, 1, 3, 8), torch.randn(1, 1, 129, 8)
    (why,) = kernel_refusals(make_plan(q, k, k, "scaled_dot", "sparsemax", None))
    assert "128 places; these are 129" in why
    assert not kernel_refusals(make_plan(q, k[..., :128, :], k[..., :128, :], "scaled_dot", "sparsemax", None))
    assert not kernel_refusals(make_plan(q, k, k, "scaled_dot", "softmax", None))
