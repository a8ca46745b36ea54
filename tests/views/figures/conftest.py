"""Figures are drawn without a window."""

import pytest


@pytest.fixture(autouse=True)
def off_screen():
    plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed: there are no figures.")
    plt.switch_backend("agg")
    yield
    plt.close("all")
