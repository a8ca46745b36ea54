"""Figures by the words that other viewers have for them."""

import pytest
import torch

from regard import attend

pytest.importorskip("matplotlib")


def test_the_words_of_matplotlib_and_of_other_viewers_draw_the_same():
    amap = attend(*torch.randn(3, 1, 1, 4, 8)).map[0, 0]
    axes = amap.plot(kind="heatmap", cmap="viridis", labels=["a", "b", "c", "d"], title="head 0")
    assert axes.images[0].cmap.name == "viridis" and axes.get_title() == "head 0"
    for ticks in (axes.get_xticklabels(), axes.get_yticklabels()):
        assert [tick.get_text() for tick in ticks] == ["a", "b", "c", "d"]
    pair = amap.plot("heat", labels=(["p", "q", "r", "s"], ["w", "x", "y", "z"]))
    assert [tick.get_text() for tick in pair.get_yticklabels()] == ["p", "q", "r", "s"]


@pytest.mark.parametrize(
    "kind, how, says",
    [
        ("heatmp", {}, "did you mean 'heatmap'"),
        ("heat", {"colour": 1}, "did you mean colours"),
        ("heat", {"cmap": "a", "colours": "b"}, "two of these are one argument"),
        ("heads", {"labels": ["a"]}, "no argument labels"),
    ],
)
def test_words_that_a_figure_has_not_are_answered(kind, how, says):
    amap = attend(*torch.randn(3, 1, 1, 4, 8)).map
    with pytest.raises((TypeError, ValueError), match=says):
        (amap if kind == "heads" else amap[0, 0]).plot(kind, **how)
