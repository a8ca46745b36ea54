"""Citation graphs: what is in them, and files that are not what they say."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from regard.data import planetoid
from regard.data.files import MissingData, read_arrays

real = pytest.mark.skipif(
    not os.environ.get("REGARD_DATA"), reason="REGARD_DATA is not set: it names the folder of real data sets"
)
COUNTS = {
    "cora": (2708, 10556, 1433, 7, 140),
    "citeseer": (3327, 9104, 3703, 6, 120),
    "pubmed": (19717, 88648, 500, 3, 60),
}


def arrays(**other: np.ndarray) -> dict[str, np.ndarray]:
    """Four papers, three words."""
    found = {
        "x_data": np.array([1, 3, 2, 5], np.float32),
        "x_indices": np.array([0, 2, 1, 0], np.int32),
        "x_indptr": np.array([0, 2, 3, 4, 4], np.int32),
        "x_shape": np.array([4, 3]),
        "y": np.array([0, 1, 1, 0]),
        "edge_index": np.array([[0, 1, 2], [1, 0, 3]]),
        **{f"{part}_mask": np.arange(4) == i for i, part in enumerate(("train", "val", "test"))},
    }
    return {**found, **other}


def save(folder: Path, **other: np.ndarray) -> Path:
    (folder / "planetoid").mkdir(exist_ok=True)
    np.savez(folder / "planetoid" / "cora.npz", **arrays(**other))
    return folder


@real
@pytest.mark.parametrize("name", COUNTS)
def test_the_graphs_have_the_counts_that_everyone_quotes(name: str) -> None:
    task = planetoid(name)
    nodes, edges, features, classes, train = COUNTS[name]
    assert (task.nodes, task.edge_index.shape[1], task.x.shape[1], task.classes) == (nodes, edges, features, classes)
    assert [int(part.sum()) for part in (task.train, task.val, task.test)] == [train, 500, 1000]
    assert not (task.train & task.val).any() and not ((task.train | task.val) & task.test).any()
    assert torch.equal(task.edge_index.unique(dim=1), task.edge_index.flip(0).unique(dim=1))


def test_features_of_a_row_sum_to_one_or_are_none(tmp_path: Path) -> None:
    task = planetoid("cora", save(tmp_path))
    assert_close(task.x.to_dense(), torch.tensor([[0.25, 0, 0.75], [0, 1, 0], [1, 0, 0], [0, 0, 0]]))
    raw = planetoid("cora", tmp_path, normalise=False)
    assert_close(raw.x.to_dense(), torch.tensor([[1.0, 0, 3], [0, 2, 0], [5, 0, 0], [0, 0, 0]]))
    assert "4 nodes, 3 edges" in repr(task)


def test_absent_data_say_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REGARD_DATA", raising=False)
    with pytest.raises(MissingData, match=r"set REGARD_DATA to the folder that contains planetoid/cora\.npz"):
        planetoid("cora")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    with pytest.raises(MissingData, match=r"no planetoid/cora\.npz in REGARD_DATA="):
        planetoid("cora")
    with pytest.raises(ValueError, match="expected one of cora, citeseer, pubmed"):
        planetoid("../secrets")


@pytest.mark.parametrize(
    "wrong",
    [
        {"edge_index": np.array([[0, 1], [1, 4]])},
        {"edge_index": np.array([[0, 1], [1, -1]])},
        {"edge_index": np.array([[0.5], [1.0]])},
        {"x_indices": np.array([0, 3, 1, 0])},
        {"x_indices": np.array([2, 0, 1, 0])},
        {"x_indptr": np.array([0, 3, 2, 4, 4])},
        {"x_indptr": np.array([0, 2, 3, 5, 5])},
        {"x_data": np.array([1, np.nan, 2, 5], np.float32)},
        {"x_shape": np.array([5, 3])},
        {"x_shape": np.array([4])},
        {"y": np.array([0, 1, -1, 0])},
        {"y": np.zeros((4, 1), np.int64)},
        {"val_mask": np.zeros(3, bool)},
    ],
    ids=lambda wrong: f"{next(iter(wrong))}",
)
def test_a_file_that_would_be_read_out_of_bounds_is_refused(tmp_path: Path, wrong: dict[str, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="is not a valid graph"):
        planetoid("cora", save(tmp_path, **wrong))


def test_pickles_other_files_and_large_ones_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        planetoid("cora", save(tmp_path, y=np.array([0, None, 1, 0], object)))
    path = save(tmp_path) / "planetoid" / "cora.npz"
    with pytest.raises(ValueError, match="more than the limit of 100"):
        read_arrays(path, ("y",), limit=100)
    with pytest.raises(ValueError, match="no array 'z'"):
        read_arrays(path, ("z",))
    path.write_text("not a zip")
    with pytest.raises(ValueError, match="is not a readable npz file"):
        planetoid("cora", tmp_path)
