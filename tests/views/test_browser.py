"""Pages in a real browser: loaded, pointed at, zoomed, driven by keys. Needs Chromium from the system."""

import pytest
import torch
from tests.views.accessible_tree import accessible_tree, without_a_name
from tests.views.driving import MAP, choice, drawn, eventually, says, spot, told, until

import regard
from regard.core.maps.stored import StoredMap
from regard.views.payload import site_payload

WORDS = ["[CLS]", "the", "keeper", "lit", "the", "lamp", "</script><b>x</b>", "because", "it", "was", "dark", "[SEP]"]


def recorded(layers=2, heads=3):
    torch.manual_seed(2)
    with regard.record() as rec:
        for _ in range(layers):
            q = 2 * torch.randn(1, heads, len(WORDS), 8)
            torch.nn.functional.scaled_dot_product_attention(q, q, q)
    return rec.label(tokens=WORDS)


def test_pointing_at_a_weight_tells_it_exactly_and_every_component_follows(opened):
    rec = recorded()
    page = opened(rec)
    page.mouse.move(*spot(page, 8, 2))
    site, head = choice(page)["site"], choice(page)["head"]
    w = list(rec.maps.values())[site].weights()[0, head]
    says(page.locator("regard-map .readout"), "“it” (8) attends to “keeper” (2):")
    assert told(page) == pytest.approx(float(w[8, 2]), rel=6e-3)
    eventually(page, page.locator("regard-text span.row").inner_text, "it")
    page.mouse.click(*spot(page, 3, 4))
    eventually(page, lambda: choice(page)["pinned"])
    page.mouse.move(*spot(page, 9, 9))
    drawn(page)
    assert (choice(page)["row"], choice(page)["column"], choice(page)["pinned"]) == (3, 4, True)


def test_tokens_that_are_html_are_shown_as_text(opened):
    page = opened(recorded(), title="<b>bold</b>")
    says(page.locator("regard-text p"), "</script><b>x</b>")
    assert page.locator("h1").inner_text().endswith("<b>bold</b>")
    assert page.locator("regard-page b", has_text="bold").count() == 0


def test_a_large_map_zooms_to_one_exact_weight(opened, monkeypatch):
    monkeypatch.setattr(site_payload, "MAX_DENSE", 1000)
    torch.manual_seed(0)
    q, k = (2 * torch.randn(1, 1, 1500, 16) for _ in range(2))
    amap = regard.attend(q, k, k, over=regard.Causal()).map
    page = opened(amap)
    until(page, "head?.pairs")
    says(page.locator("regard-map .legend"), "maximum weight per")
    page.mouse.move(*spot(page, 1200, 300))
    for _ in range(20):
        page.mouse.wheel(0, -240)
    until(page, "view.scale === 44")
    drawn(page)
    page.mouse.move(*spot(page, 1199, 301))
    eventually(page, lambda: (choice(page)["row"], choice(page)["column"]), (1199, 301))
    eventually(page, lambda: told(page), pytest.approx(float(amap.row(1199)[0, 0, 301]), rel=6e-3))
    eventually(page, page.locator("regard-map .legend").first.inner_text, lambda said: said.endswith("weight"))


def test_the_map_is_driven_by_keys_and_says_where_it_is(opened):
    page = opened(recorded())
    canvas = page.locator("regard-map canvas")
    canvas.focus()
    for key in ("PageUp", "Home", "ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    eventually(page, lambda: (choice(page)["row"], choice(page)["column"]), (2, 1))
    says(page.locator("regard-map [aria-live]"), "“keeper” (2) attends to “the” (1):")
    page.keyboard.press("Enter")
    page.keyboard.press("h")
    until(page, "view.scale >= 40")
    outline = canvas.evaluate("x => getComputedStyle(x).outlineStyle + getComputedStyle(x).outlineWidth")
    assert outline == "solid2px"


def test_choosing_a_head_in_small_shows_it_everywhere(opened):
    page = opened(recorded())
    page.locator("regard-heads select").select_option("entropy")
    drawn(page)
    page.locator("regard-heads canvas").focus()
    before = choice(page)
    page.keyboard.press("ArrowRight" if before["head"] != 2 else "ArrowLeft")
    chosen = lambda: [choice(page)[name] for name in ("site", "head")]  # noqa: E731
    _, head = eventually(page, chosen, lambda now: now != [before["site"], before["head"]])
    eventually(page, page.locator("regard-lines button[aria-pressed=true]").inner_text, str(head))
    eventually(page, page.locator("regard-page select[aria-label=Head]").input_value, str(head))


def test_two_heads_are_compared_weight_by_weight_and_a_reload_keeps_it(opened):
    rec = recorded()
    page = opened(rec)
    first, second = (amap.weights()[0] for amap in rec.maps.values())
    page.get_by_label("Head", exact=True).select_option("0")
    page.get_by_label("Layer", exact=True).select_option("0")
    page.get_by_label("Compare with head").select_option("1.2")
    page.mouse.click(*spot(page, 8, 2))
    eventually(page, lambda: told(page), pytest.approx(float(first[0, 8, 2] - second[2, 8, 2]), abs=2e-4))
    says(page.locator("regard-page .sides"), "head 0.0 − head 1.2")
    page.reload()
    eventually(page, page.get_by_label("Compare with head").input_value, "1.2")
    eventually(page, lambda: told(page), pytest.approx(float(first[0, 8, 2] - second[2, 8, 2]), abs=2e-4))
    page.get_by_role("button", name="head 1.2", exact=True).click()
    eventually(page, lambda: told(page), pytest.approx(float(second[2, 8, 2]), rel=6e-3))
    page.get_by_label("Compare with head").select_option("")
    eventually(page, lambda: told(page), pytest.approx(float(first[0, 8, 2]), rel=6e-3))


def test_a_whole_map_stays_whole_where_it_gets_less_room(opened):
    page = opened(recorded())
    drawn(page)
    page.get_by_label("Compare with head").select_option("1.2")  # another line of controls above the map
    says(page.locator("regard-page .sides"), "head 1.2")
    drawn(page)
    page.set_viewport_size({"width": 700, "height": 500})
    drawn(page)
    until(page, f"view.scale * {len(WORDS)} <= Math.min({MAP}.frameBox.width, {MAP}.frameBox.height) + 1")


def test_light_and_dark_are_drawn_as_such(opened):
    shades = []
    for scheme in ("light", "dark"):
        page = opened(recorded(), scheme)
        drawn(page)
        shades.append(
            page.evaluate(f"""() => {{
            const {{ data }} = {MAP}.picture.getContext('2d').getImageData(0, 0, 400, 400);
            return data.reduce((a, b) => a + b, 0) / data.length; }}""")
        )
    assert shades[0] > shades[1] + 40


@pytest.mark.parametrize("kind", ["no rows", "one", "few rows", "few columns", "below zero", "not a number"])
def test_maps_of_any_shape_and_sign_open_and_are_driven_without_an_error(opened, kind):
    sizes = {"no rows": (0, 3), "one": (1, 1), "few rows": (3, 400), "few columns": (400, 7)}
    if kind in sizes:
        n, m = sizes[kind]
        q, k = torch.randn(2, n, 4), torch.randn(2, m, 4)
        amap = regard.attend(q, k, k).map
    else:
        w = torch.randn(2, 9, 9)
        amap = StoredMap((2,), w if kind == "below zero" else w.softmax(-1).masked_fill(w > 1, float("nan")))
    page = opened(amap)
    page.locator("regard-map canvas").focus()
    for key in ("ArrowDown", "ArrowRight", "+", "Enter", "0", "h"):
        page.keyboard.press(key)
    says(page.locator("regard-heads p"), "head 1")


def test_a_screen_reader_has_a_name_for_every_control_of_a_page(opened):
    page = opened(recorded(), title="a run")
    tree = accessible_tree(page)
    assert without_a_name(page) == []
    assert next(part.name for part in tree if part.role == "heading") == "Regard a run"
    said = {part.name.partition(":")[0] for part in tree if part.role == "application"}
    assert {"Attention heat map", "Thumbnails of all heads"} <= said
    assert {"Layer", "Head", "Colour scale"} <= {part.name for part in tree if part.role == "combobox"}
