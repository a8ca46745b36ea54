"""What people looked at comes as it was measured."""

import os

import numpy as np
import pytest

from regard.data import MissingData, geco, scenes

real = pytest.mark.skipif(
    not os.environ.get("REGARD_DATA"), reason="REGARD_DATA is not set: it names the folder of real data sets"
)


@real
def test_longer_words_are_read_longer():
    stats = pytest.importorskip("scipy.stats")
    readings = geco()
    assert (len(readings), sum(len(one.words) for one in readings)) == (4926, 53853)
    assert all(abs(one.share.sum() - 1) < 1e-6 for one in readings)
    some = [one for one in readings[:600] if len({len(word) for word in one.words}) > 1 and np.ptp(one.share) > 0]
    found = [stats.spearmanr([len(word) for word in one.words], one.share).statistic for one in some]
    assert np.mean(found) == pytest.approx(0.69, abs=0.05)


@real
def test_every_fixation_lies_on_its_photograph():
    found = scenes()
    assert (len(found), sum(len(each) for one in found for each in one.fixations)) == (311, 26436)
    for one in found:
        places = np.concatenate(one.fixations)
        assert places.min() >= 0 and (places < one.size).all() and 10 <= len(one.fixations) <= 12
        assert one.jpeg.startswith(b"\xff\xd8") and one.jpeg.rstrip(b"\0").endswith(b"\xff\xd9")


@pytest.mark.parametrize("load", [geco, scenes])
def test_data_that_are_not_there_are_asked_for_by_name(load, tmp_path):
    with pytest.raises(MissingData, match=r"eye_tracking|images"):
        load(tmp_path)
