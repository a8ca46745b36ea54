"""Lines between queries and keys: what is broad, where it goes, what is refused."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed: there are no figures.")

from matplotlib.colors import to_hex  # noqa: E402

from regard import attend  # noqa: E402
from regard.views import heat_map, line_map  # noqa: E402


def test_a_line_is_as_broad_as_its_weight_and_has_the_colour_of_its_query():
    axes = line_map([[0.1, 0.4], [0.3, 0.2]], colours=["#ff0000", "#0000ff"], width=8)
    found = {(to_hex(line.get_edgecolor()), round(line.get_linewidth(), 6)) for line in axes.patches}
    assert found == {("#ff0000", 2.0), ("#ff0000", 8.0), ("#0000ff", 6.0), ("#0000ff", 4.0)}
    opacity = [line.get_alpha() for line in sorted(axes.patches, key=lambda line: line.get_linewidth())]
    assert opacity == sorted(opacity)


def test_a_line_leaves_its_query_on_the_left_and_reaches_its_key_on_the_right():
    weights = np.array([[0.1, 0.4, 0.5], [0.3, 0.2, 0.5]])
    axes = line_map(weights, ["q0", "q1"], ["k0", "k1", "k2"], top=1.0, width=1.0)
    height = {text.get_text(): text.get_position()[1] for text in axes.texts}
    assert height["k0"] > height["k1"] > height["k2"] and height["q0"] > height["q1"]
    for line in axes.patches:
        (start, *_, stop) = line.get_path().vertices
        assert (start[0], stop[0]) == (0, 1)
        query = [q for q in range(2) if np.isclose(height[f"q{q}"], start[1])]
        key = [k for k in range(3) if np.isclose(height[f"k{k}"], stop[1])]
        assert_allclose(line.get_linewidth(), weights[query[0], key[0]])


def test_equal_weights_look_equal_and_a_weight_of_zero_has_no_line():
    assert len({line.get_linewidth() for line in line_map(torch.full((1, 4), 0.25)).patches}) == 1
    assert len(line_map([[0.0, 1.0], [0.5, 0.0]]).patches) == 2
    assert not line_map([[0.0, 0.0]]).patches


def test_top_makes_two_pictures_comparable():
    one, two = (line_map([[weight]], top=0.5, width=10).patches[0].get_linewidth() for weight in (0.1, 0.3))
    assert_allclose([one, two], [2, 6])


def test_the_weights_are_written_for_one_query_unless_told():
    def written(axes) -> list[str]:
        return sorted(text.get_text() for text in axes.texts if "." in text.get_text())

    assert written(line_map([[0.25, 0.75]])) == ["0.25", "0.75"]
    assert written(line_map([[0.25, 0.75]], numbers=False)) == []
    assert written(line_map([[0.25, 0.75]] * 2)) == []


def test_a_map_of_one_head_is_drawn_and_several_heads_are_refused_with_what_to_type():
    x = torch.randn(2, 3, 4)  # two heads
    amap = attend(x[None], x[None], x[None]).map
    assert len(line_map(amap[0, 1]).patches) == 9
    with pytest.raises(ValueError, match=r"line_map\(\) draws one head.*amap\[batch, head\]"):
        line_map(amap)


def test_names_and_colours_of_another_number_are_refused():
    with pytest.raises(ValueError, match=r"line_map\(keys=\) has 1 names for 2 keys"):
        line_map([[0.5, 0.5]], keys=["one"])
    with pytest.raises(ValueError, match=r"line_map\(colours=\) has 2 colours for 1 queries"):
        line_map([[0.5, 0.5]], colours=["red", "blue"])


def test_a_name_that_was_broken_over_lines_is_written_on_as_many():
    axes = line_map([[0.25, 0.75]], ["Do you still\nlike apples"], ["the father", "truancy has\nrun rampant"])
    written = [text.get_text() for text in axes.texts]
    assert written[:3] == ["Do you still\nlike apples", "the father", "truancy has\nrun rampant"]
    assert heat_map([[0.5]], ["two\nlines"], ["a"]).get_yticklabels()[0].get_text() == "two\nlines"


@pytest.mark.parametrize(
    ("token", "seen"),
    [
        ("\n", "⏎"),
        ("Ċ", "⏎"),
        ("ĊĊ", "⏎"),
        ("endĊ", "end"),
        ("aĊb", "a⏎b"),
        (" ", "␣"),
        ("Ġcat", "cat"),
        ("a\tb", "a·b"),
    ],
)
def test_a_token_that_ends_a_line_is_a_sign_that_the_font_has(token, seen):
    from matplotlib.font_manager import FontProperties, fontManager, get_font

    (given,) = line_map([[1.0]], [token], ["key"], numbers=False).texts[:1]
    assert given.get_text() == seen
    amap = attend(torch.randn(1, 4), torch.randn(1, 4), torch.randn(1, 4)).map
    amap.rows = amap.columns = ["a\nb"]
    assert line_map(amap, numbers=False).texts[0].get_text() == "a⏎b", "a map's names are tokens"
    family = FontProperties(family=given.get_fontfamily())
    fonts = [get_font(path) for path in fontManager._find_fonts_by_props(family)]
    assert all(any(ord(letter) in font.get_charmap() for font in fonts) for letter in seen)
