"""A torchvision of another build stops no model of text."""

import sys
from importlib.util import find_spec

import pytest

from regard.recording.pretrained import hide_broken_torchvision

BROKEN = 'raise RuntimeError("operator torchvision::nms does not exist")'


@pytest.fixture
def broken(tmp_path, monkeypatch):
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text(BROKEN)
    monkeypatch.setitem(sys.modules, "torchvision", None)  # what is imported below goes with the test
    monkeypatch.delitem(sys.modules, "torchvision")
    monkeypatch.syspath_prepend(tmp_path)


def test_a_torchvision_of_another_build_is_left_out_with_a_sentence(broken):
    with pytest.warns(UserWarning, match="built for another torch than .* is left out"):
        hide_broken_torchvision()
    assert find_spec("torchvision") is None
    hide_broken_torchvision()  # said once


def test_a_torchvision_that_loads_stays(broken, tmp_path):
    (tmp_path / "torchvision" / "__init__.py").write_text("")
    hide_broken_torchvision()
    assert find_spec("torchvision") is not None
