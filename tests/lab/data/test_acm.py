"""ACM: what is in it, meta-paths, and files that are not what they say."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data import acm
from regard.data.hetero import meta_path

real = pytest.mark.skipif(
    not os.environ.get("REGARD_DATA"), reason="REGARD_DATA is not set: it names the folder of real data sets"
)


def save(folder: Path, **other: np.ndarray) -> Path:
    """Four papers, three words, three authors, two subjects."""
    arrays = {
        "x_p_data": np.ones(4),
        "x_p_indices": np.array([0, 2, 1, 0]),
        "x_p_indptr": np.array([0, 2, 3, 4, 4]),
        "x_p_shape": np.array([4, 3]),
        "y": np.array([0, 1, 1, 0]),
        "edge_pa": np.array([[0, 1, 1, 2, 3], [0, 0, 1, 1, 2]]),
        "edge_ps": np.array([[0, 1, 2, 3], [0, 0, 1, 1]]),
        "train_20": np.array([0]),
        "val_20": np.array([1]),
        "test_20": np.array([2, 3]),
    }
    (folder / "hetero_graphs").mkdir(exist_ok=True)
    np.savez(folder / "hetero_graphs" / "acm.npz", **{**arrays, **other})
    return folder


@real
@pytest.mark.parametrize("labels", [20, 40, 60])
def test_the_graph_has_the_counts_that_its_source_states(labels: int) -> None:
    task = acm(labels)
    assert {kind: x.shape for kind, x in task.x.items()} == {
        "paper": (4019, 1902),
        "author": (7167, 7167),
        "subject": (60, 60),
    }
    assert [edges.shape[1] for edges in task.edge_index.values()] == [13407, 13407, 4019, 4019]
    assert task.y.bincount().tolist() == [1993, 965, 1061]
    assert [int(part.sum()) for part in (task.train, task.val, task.test)] == [3 * labels, 1000, 1000]
    assert task.y[task.train].bincount().tolist() == [labels] * 3


@real
def test_papers_that_share_an_author_or_a_subject_are_as_many_as_the_source_has() -> None:
    task = acm()
    assert [task.path(kind).shape[1] for kind in (("paper", "by", "author"), ("paper", "about", "subject"))] == [
        57853,
        4338213,
    ]


def test_a_meta_path_is_the_product_of_the_links_with_their_turn() -> None:
    torch.manual_seed(0)
    links = (torch.rand(9, 6) < 0.3).float()
    path = meta_path(links.nonzero().t().contiguous(), 9)
    dense = torch.zeros(9, 9).index_put_((path[1], path[0]), torch.ones(()), accumulate=True)
    assert torch.equal(dense, (links @ links.t() > 0).float())


def test_edges_go_both_ways_and_features_are_words_and_numbers(tmp_path: Path) -> None:
    task = acm(20, save(tmp_path))
    assert torch.equal(task.edge_index["author", "wrote", "paper"], task.edge_index["paper", "by", "author"].flip(0))
    assert task.x["paper"].to_dense().tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert torch.equal(task.x["author"].to_dense(), torch.eye(3))
    assert "4 papers, 3 authors, 2 subjects" in repr(task)
    with pytest.raises(ValueError, match="expected one of 20, 40, 60 a class"):
        acm(30, tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"edge_pa": np.array([[0, 4], [0, 1]])},
        {"edge_ps": np.array([[0, 1], [0, -1]])},
        {"edge_pa": np.array([[0.5], [1.0]])},
        {"x_p_indices": np.array([0, 3, 1, 0])},
        {"x_p_indices": np.array([2, 0, 1, 0])},
        {"x_p_indptr": np.array([0, 3, 2, 4, 4])},
        {"x_p_shape": np.array([5, 3])},
        {"y": np.array([0, 1, -1, 0])},
        {"val_20": np.array([4])},
        {"val_20": np.array([0])},
    ],
    ids=lambda wrong: f"{next(iter(wrong))}",
)
def test_a_file_that_would_be_read_out_of_bounds_is_refused(tmp_path: Path, wrong: dict[str, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="is not a valid graph"):
        acm(20, save(tmp_path, **wrong))
