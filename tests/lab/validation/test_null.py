"""Null reports: weights that are permuted within a text, and verdicts that are counted."""

import pytest
import torch
from torch.testing import assert_close

from regard.judging.adapters.adapter import Adapter
from regard.lab.validation.models.reasons import Bottleneck
from regard.lab.validation.null import NullReports, PermutedSelector, null_adapter, null_report
from regard.lab.validation.tables import null_says
from regard.lab.validation.words import started, texts

pytest.importorskip("scipy")
pytest.importorskip("sklearn")


def test_permuted_weights_are_the_same_numbers_on_the_same_units_and_alike_each_time():
    some = started(texts(12)[0])
    plain, moved, again, other = (
        Adapter(Bottleneck().eval(), some, **options)
        for options in ({}, *({"selector": PermutedSelector(seed=seed)} for seed in (1, 1, 2)))
    )
    inputs = plain.inputs(range(12))
    before, after = plain.attention(inputs), moved.attention(inputs)
    assert_close(before.sort(-1).values, after.sort(-1).values)
    assert_close(before[inputs.special], after[inputs.special])
    assert not torch.allclose(before, after)
    assert torch.equal(after, again.attention(inputs)) and not torch.equal(after, other.attention(inputs))
    alone = moved.attention(moved.inputs([5]))[0]
    assert_close(after[5, : len(alone)], alone)


def test_a_null_has_half_of_each_class_and_the_model_does_not_know_the_permutation():
    adapter = null_adapter(3, count=20)
    assert sum(adapter.labels) == 10
    said = adapter.predict(adapter.inputs([0]))
    assert_close(said, Adapter(adapter.model, adapter.instances).predict(adapter.inputs([0])))


def test_rationales_of_a_null_stand_anywhere_in_a_text():
    marked = [one.marks for seed in range(9) for one in null_adapter(seed).instances]
    ends = torch.tensor([[marks[0], marks[-1]] for marks in marked])
    share = torch.tensor([1 / len(marks) for marks in marked]).mean()
    assert all(marks.sum() == 1 for marks in marked)
    assert_close(ends.double().mean(0), share.double().expand(2), rtol=0, atol=4 * (share / len(marked)).sqrt().item())


@pytest.mark.slow
def test_a_null_report_is_the_same_for_the_same_seed():
    assert null_report(1, count=10) == null_report(1, count=10)


def test_the_bar_is_in_proportion_to_sixteen_of_two_hundred():
    assert NullReports(200, 16, {}, {}).held and not NullReports(200, 17, {}, {}).held
    assert NullReports(50, 4, {}, {}).held and not NullReports(50, 5, {}, {}).held
    assert null_says(NullReports(50, 5, {}, {})) == "5 of 50 reports have a false verdict; at most 4 may: not held."
