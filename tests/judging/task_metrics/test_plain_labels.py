"""Labels of any container are compared by value; labels that could never be equal are an error."""

import numpy as np
import pytest
import torch

from regard.judging.task_metrics import extrinsic

SAID, WANTED = [1, 0, 1, 2], [1, 1, 1, 2]


def accuracy(said, wanted, **options):
    return extrinsic("classification", said, wanted, resamples=10, **options)[0]


@pytest.mark.parametrize(
    "said", [SAID, torch.tensor(SAID), np.array(SAID), np.array(SAID, float), [*torch.tensor(SAID)]]
)
@pytest.mark.parametrize("wanted", [WANTED, torch.tensor(WANTED), np.array(WANTED, np.uint8)])
def test_lists_arrays_and_tensors_of_the_same_labels_have_the_same_accuracy(said, wanted):
    found = accuracy(said, wanted, baselines={"mine": torch.tensor(WANTED)}, positive=torch.tensor(2))
    assert found.value == 0.75
    assert (found.baselines["commonest class"], found.baselines["mine"]) == (0.75, 1.0)
    assert 0.3 < found.baselines["random answer"] < 0.9


def test_true_is_one():
    assert accuracy([True, False], torch.tensor([1, 0])).value == 1


@pytest.mark.parametrize(
    ("said", "wanted", "sentence"),
    [
        (["1", "0"], [1, 0], "none would ever be equal"),
        (torch.tensor([1, 0]), ["pos", "neg"], "wanted has names, such as 'pos'"),
        (torch.rand(2, 3), [1, 0], r"shape \(2, 3\), expected \(n,\) labels"),
        ([0.7, 0.2], [1, 0], "said holds 0.7, which is no label"),
        ([[1], [0]], [1, 0], "said holds a list"),
    ],
)
def test_labels_of_another_type_are_an_error_and_not_a_zero(said, wanted, sentence):
    with pytest.raises(ValueError, match=sentence):
        accuracy(said, wanted)
