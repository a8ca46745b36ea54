"""May I believe it? The digits' network before the judges, as the demo's page tells it."""

import re

import pytest
import torch
from torch.testing import assert_close

from regard import Mask
from regard.lab.demo import digits, faithfulness


@pytest.fixture(scope="module")
def trained():
    data = digits.Digits.load()
    return digits.trained(data, data.split(0)[0], 0, "softmax", False, 2), data


def test_the_judged_network_is_the_one_that_reads_and_a_patch_that_is_gone_is_closed(trained):
    reader, data = trained
    adapter, test = faithfulness.digits_adapter(reader, data, 5), data.split(0)[1][:5]
    inputs = adapter.inputs(range(5))
    assert_close(adapter.predict(inputs), reader(data.patches[test])[0].double().softmax(-1))
    for places in ([2, 7], [14, 15]):
        gone = torch.zeros(5, 16, dtype=torch.bool)
        gone[:, places] = True
        closed, _ = reader(data.patches[test], Mask(keep=~gone[:, None, None, :]))
        assert_close(adapter.predict_without(inputs, gone), closed.double().softmax(-1))
    assert_close(adapter.attention(inputs), digits.query_weights(reader, data, test)[0].double())


def test_the_page_has_every_headline_with_its_baseline_and_both_pictures(trained):
    reader, data = trained
    found = faithfulness.study(reader, data, 6)
    page = str(faithfulness.section(found, data).html)
    assert page.count("<tr>") == 1 + len(list(found.report.headlines()))
    for _, one in found.report.headlines():
        assert one.name in page
    assert not found.report.left_out
    assert page.count('<div class="two">') == len(found.pairs) > 0
    assert re.search(r"better than|not significantly different from|worse than", page)
    assert "explain" not in page.lower()
