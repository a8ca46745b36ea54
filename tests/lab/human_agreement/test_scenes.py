"""Photographs: what stands out is found where it was put; a taught gaze finds planted looks that the centre misses."""

import io

import numpy as np
import pytest
import torch

pytest.importorskip("scipy")
pytest.importorskip("sklearn")
pytest.importorskip("lightning")
pytest.importorskip("PIL")

from PIL import Image
from tests.judging.progress_recorder import ProgressRecorder

from regard.data.batch import Example, collate
from regard.data.readers.fixations import Scene
from regard.lab.human_agreement.saliency_baselines import channels, contrast, patches, spectral_residual
from regard.lab.human_agreement.scene_model import Gaze, GazeTraining, folds, foreseen
from regard.lab.human_agreement.scenes import NAMES, Looks, finer, floored, judge_scenes
from regard.models.training.trainer import Training

SIDE = 64


def spot(row, column):
    """A grey photograph with one bright square."""
    picture = np.full((SIDE, SIDE, 3), 0.4, np.float32)
    picture[row : row + 6, column : column + 6] = 1.0
    return picture


def planted(count, seed=0, observers=3):
    """Everybody looks at the square, wherever it is."""
    draw = np.random.default_rng(seed)
    made = []
    for place in range(count):
        row, column = draw.integers(2, SIDE - 8, 2)
        held = io.BytesIO()
        Image.fromarray((spot(row, column) * 255).astype(np.uint8)).save(held, "png")
        middle = np.array([row + 3, column + 3])
        looks = tuple(np.clip(draw.normal(middle, 1.5, (5, 2)), 0, SIDE - 1) for _ in range(observers))
        made.append(Scene(f"photograph {place}", held.getvalue(), looks, (SIDE, SIDE)))
    return made


def brightest(found):
    return np.unravel_index(found.argmax(), found.shape)


@pytest.mark.parametrize("how", ["contrast", "spectral"])
def test_what_stands_out_is_found_where_it_is(how):
    for row, column in ((8, 40), (48, 16)):
        found = contrast(channels(spot(row, column))) if how == "contrast" else spectral_residual(spot(row, column))
        assert found.shape == (SIDE // 8, SIDE // 8)
        assert np.abs(np.subtract(brightest(found), ((row + 3) // 8, (column + 3) // 8))).max() <= 1


def test_nothing_stands_out_on_an_even_photograph():
    even = np.full((SIDE, SIDE, 3), 0.5)
    assert np.abs(contrast(channels(even))).max() < 1e-6
    assert spectral_residual(even).max() == 0


def test_patches_are_means():
    pixels = np.arange(64.0).reshape(8, 8)
    assert patches(pixels, 4).tolist() == [
        [pixels[:4, :4].mean(), pixels[:4, 4:].mean()],
        [pixels[4:, :4].mean(), pixels[4:, 4:].mean()],
    ]
    with pytest.raises(ValueError, match="do not fill"):
        patches(pixels, 3)


def test_a_gaze_begins_from_its_prior():
    prior = torch.rand(4, 4) + 0.1
    batch = collate([Example(torch.randn(5, 4, 4), torch.tensor(0), gold=torch.ones(16))])
    weights = Gaze(5, prior).eval()(batch).weights()
    assert torch.allclose(weights.flatten(), (prior / prior.sum()).flatten(), atol=1e-6)
    even = Gaze(5).eval()(batch).weights()
    assert torch.allclose(even, torch.full_like(even, 1 / 16))


def test_every_photograph_is_held_out_once():
    found = folds(11, 3, seed=1)
    assert sorted(np.concatenate(found).tolist()) == list(range(11))
    assert max(map(len, found)) - min(map(len, found)) <= 1
    with pytest.raises(ValueError, match="at most `count`"):
        folds(2, 3, 0)


def test_held_out_looks_are_never_learned_from():
    draw = np.random.default_rng(0)
    seen, looked = draw.random((16, 3, 4, 4)), draw.random((16, 4, 4))
    how = GazeTraining(training=Training(epochs=1, batch=8))
    held = [2, 5]
    other = looked.copy()
    other[held] = draw.random((2, 4, 4))
    assert np.array_equal(foreseen(seen, looked, held, 0, how), foreseen(seen, other, held, 0, how))


def test_a_map_is_measured_against_one_observer_at_a_time():
    looks = Looks(Scene("", b"", (np.array([[10.0, 10.0]]), np.array([[50.0, 40.0]])), (SIDE, SIDE)))
    right = looks.measured(looks.all)
    assert right[NAMES.index("AUC-Judd")] > 0.95
    assert looks.ceiling()[NAMES.index("NSS")] < 0  # the two looked at different places
    even = looks.measured(np.zeros((16, 16)))
    assert even[NAMES.index("AUC-Judd")] == pytest.approx(0.5) and np.isnan(even[NAMES.index("NSS")])
    alone = Looks(Scene("", b"", (np.array([[10.0, 10.0]]),), (SIDE, SIDE)))
    assert np.isnan(alone.ceiling()).all()


def test_a_floored_map_sums_to_one_and_has_no_zero():
    for one in (np.zeros((3, 3)), np.eye(3)):
        assert floored(one).sum() == pytest.approx(1.0) and floored(one).min() > 0
    assert finer(np.eye(4)).shape == (8, 8)


def test_taught_attention_foresees_planted_looks_that_position_does_not(tmp_path):
    how = {"taught attention": GazeTraining(training=Training(epochs=20, batch=8, rate=1e-2, patience=20))}
    found = judge_scenes(
        planted(20), parts=2, seeds=1, how=how, out=tmp_path, resamples=50, on_progress=(progress := ProgressRecorder())
    )
    assert progress.fills_one_bar(of=2)  # a model for each part
    by_name = {one.name: one for one in found}
    for measure in NAMES:
        one = by_name[f"{measure}: taught attention"]
        assert one.against("other photographs") == "better", measure
        assert by_name[f"{measure}: taught attention, less other photographs"].against("no gain") == "better"
        assert one.n == 20
    assert by_name["NSS: people"].value > by_name["NSS: other photographs"].value
    again = judge_scenes(planted(20), parts=2, seeds=1, how=how, out=tmp_path, resamples=50)  # from what was kept
    assert [one.value for one in again] == pytest.approx([one.value for one in found], abs=1e-6)
    with pytest.raises(ValueError, match="another recipe"):
        judge_scenes(planted(20), parts=2, seeds=1, how={"taught attention": GazeTraining()}, out=tmp_path)
