"""Figures show the map: orientation, names, light."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from regard import attend
from regard.views import heat_map, overlay, spotlight

pytest.importorskip("matplotlib", reason="matplotlib is not installed: there are no figures.")


def test_queries_stand_on_y_and_keys_on_x():
    weights = torch.rand(2, 3)
    axes = heat_map(weights, queries=["q0", "q1"], keys=["k0", "k1", "k2"])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["q0", "q1"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["k0", "k1", "k2"]
    assert "query" in axes.get_ylabel() and "key" in axes.get_xlabel()
    assert_allclose(axes.images[0].get_array(), weights.numpy(), rtol=1e-6)


def test_a_map_is_drawn_as_its_weights():
    q = torch.randn(4, 8)
    amap = attend(q, q, q).map
    assert_allclose(heat_map(amap).images[0].get_array(), amap.weights().reshape(4, 4).numpy(), rtol=1e-6)


def test_several_heads_are_refused_with_what_to_type():
    with pytest.raises(ValueError, match=r"amap\[batch, head\]"):
        heat_map(torch.rand(2, 3, 3))


def test_a_wrong_number_of_names_is_refused():
    with pytest.raises(ValueError, match=r"queries=.* has 1 names for 2"):
        heat_map(torch.rand(2, 2), queries=["a"])


def test_equal_weights_light_an_image_evenly():
    lit = spotlight(np.ones((4, 4)), np.full((2, 2), 0.25))
    assert_allclose(lit, np.broadcast_to(lit[0, 0], lit.shape))


def test_light_falls_on_the_patch_with_the_weight():
    weights = np.array([[0.0, 0.0], [1.0, 0.0]])
    lit = overlay(np.ones((4, 4)), weights).images[0].get_array()
    assert (lit[2:, :2, 0] > lit[0, 0, 0]).all()
    assert_allclose(lit[:2, :], np.broadcast_to(lit[0, 0], (2, 4, 3)))


def test_a_patch_lights_the_pixels_whose_middle_lies_in_it():
    weights = np.array([[0.0, 1.0, 0.0]])
    lit = spotlight(np.zeros((2, 7)), weights)[..., 0]  # patches end at 2.33 and 4.67
    assert_allclose(lit, np.tile(0.22 * np.array([0, 0, 1, 1, 1, 0, 0]), (2, 1)))


def test_what_is_no_grid_of_an_images_patches_is_refused():
    for image, weights in (
        (np.ones((4, 4)), np.ones((5, 4))),
        (np.ones((4, 4, 2)), np.ones((2, 2))),
        (np.ones((4, 4)), np.ones(4)),
        (np.ones((4, 4)), np.ones((0, 4))),
    ):
        with pytest.raises(ValueError, match="of its patches"):
            spotlight(image, weights)
