"""Figures are drawn without a window, and each test finds and leaves matplotlib as it is by itself."""

import pytest


@pytest.fixture(autouse=True)
def off_screen():
    plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed: there are no figures.")
    plt.switch_backend("agg")
    plt.close("all")  # of other tests that this process ran
    before = dict(plt.rcParams)
    yield
    assert dict(plt.rcParams) == before
    plt.close("all")
