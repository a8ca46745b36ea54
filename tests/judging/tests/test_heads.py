"""Heads that do nothing, and heads for which their mean does not speak."""

import numpy as np
import pytest
import torch

from regard.judging import Adapter, NotApplicable
from regard.judging.artifacts import Caution, collect_artifacts
from regard.judging.tests.ablation import ablation
from regard.judging.tests.heads import cross_fitted, heads
from regard.lab.validation.built import OfWords, numbers_of
from regard.lab.validation.models.reasons import Bottleneck, OneDeadHead, Redundant
from regard.lab.validation.words import texts

pytest.importorskip("scipy")


def judged(model, count=24):
    with collect_artifacts() as evidence:
        found = {one.name: one for one in heads(Adapter(model.eval(), texts(count)[0]))}
    return found, {one.title for one in evidence if isinstance(one, Caution)}


def test_a_head_that_the_output_does_not_read_is_named():
    found, warned = judged(OneDeadHead())
    dead = found["heads whose removal changes nothing"]
    assert dead.value == 0.5 and "head 1 of attention" in dead.says and "head 0" not in dead.says
    assert dead.says.endswith("1 of 2 heads does nothing.")
    assert "Redundant heads" in warned


def test_a_report_names_dead_heads_of_every_layer():
    found = {one.name: one for one in ablation(Adapter(OneDeadHead().eval(), texts(8)[0]))}
    assert "head 1 of attention" in found["heads whose removal changes nothing"].says


def test_heads_that_do_the_same_are_spoken_for_by_their_mean():
    found, warned = judged(Redundant())
    assert found["tau of a head and the mean of the others"].value == pytest.approx(1)
    spared = found["heads whose removal changes nothing"]
    assert spared.value == 1 and "redundant one by one" in spared.says and warned == {"Redundant heads"}


def test_a_head_that_looks_elsewhere_is_named():
    class Apart(OfWords):
        def forward(self, tokens, real):
            says, loud = self.read(tokens)
            scores = [loud, loud, 5.0 * numbers_of(tokens, 1)]
            return self.attend(scores, [says] * 3, real) @ torch.tensor([1.0, 1.0, 0.2])

    found, warned = judged(Apart())
    assert "does not represent head" in found["tau of a head and the mean of the others"].says
    assert "Heads that disagree" in warned
    best, worst = (found[f"comprehensiveness of the {name} head"].value for name in ("best", "worst"))
    assert best > 0.3 > worst


def test_the_best_head_is_measured_on_instances_that_did_not_choose_it():
    table = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])  # each half has a best head of its own
    assert cross_fitted(table, np.argmax).tolist() == [0, 0, 0, 0]
    assert cross_fitted(table, np.argmin).tolist() == [1, 1, 1, 1]


def test_one_head_has_no_mean():
    with pytest.raises(NotApplicable, match="one head"):
        heads(Adapter(Bottleneck().eval(), texts(4)[0]))
