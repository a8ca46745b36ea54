"""Pictures in a real browser: patches under weights, pointed at, clicked and walked by keys."""

import numpy as np
import pytest
import torch
from tests.views.driving import COPIED, choice, drawn, eventually, number, says, until

import regard
from regard.views import Picture

IMAGE = "document.querySelector('regard-page').shadowRoot.querySelector('regard-image')"
GRID, SIDE = (3, 4), 10  # of 34 x 46 pixels: 4 rows and 6 columns of pixels are unseen
HOSTILE = "</script><img src=x onerror=alert(1)>"


def looked(heads=2, skip=1):
    torch.manual_seed(0)
    count = skip + GRID[0] * GRID[1]
    q, k = 2 * torch.randn(1, heads, count, 4), 2 * torch.randn(1, heads, count, 4)
    return regard.attend(q, k, k).map


def picture(**how):
    return Picture(np.full((34, 46, 3), 255, np.uint8), grid=GRID, skip=1, patch=SIDE, **how)


@pytest.fixture
def shown(opened):
    def show(amap, scheme="light", **how):
        page = opened(amap, scheme, image=picture(**how))
        until(page, "ready", IMAGE)
        drawn(page)
        return page

    return show


def spot(page, x, y):
    """Where a pixel of the picture stands on the screen."""
    return tuple(
        page.evaluate(
            f"""([x, y]) => {{
        const image = {IMAGE}, box = image.shadowRoot.querySelector('canvas').getBoundingClientRect(), at = image.box;
        return [box.x + at.x + x * at.scale, box.y + at.y + y * at.scale]; }}""",
            [x, y],
        )
    )


def colours(page, spots):
    """The colours that stand there, red, green, blue."""
    return page.evaluate(
        f"""spots => {{
        const image = {IMAGE}, canvas = image.shadowRoot.querySelector('canvas'), at = image.box;
        const ratio = canvas.width / canvas.clientWidth, data = ({COPIED})(canvas);
        return spots.map(([x, y]) => {{
            const [i, j] = [at.y + y * at.scale, at.x + x * at.scale].map(z => Math.round(z * ratio));
            const place = 4 * (i * canvas.width + j);
            return [...data.slice(place, place + 3)]; }}); }}""",
        spots,
    )


def told(page):
    return number(page.locator("regard-image .readout b").inner_text())


def test_the_first_token_is_the_query_and_a_click_makes_a_patch_it(shown):
    amap = looked()
    page = shown(amap)
    assert choice(page)["row"] == 0
    page.mouse.move(*spot(page, 25, 15))
    head = choice(page)["head"]
    says(page.locator("regard-image .readout"), "token 0 attends to patch 2, 3:")
    assert told(page) == pytest.approx(float(amap.weights()[0, head, 0, 7]), abs=6e-5)
    page.mouse.click(*spot(page, 35, 25))
    page.mouse.move(*spot(page, 5, 5))
    held = ("row", "column", "pinned")
    eventually(page, lambda: [choice(page)[name] for name in held], [12, 1, True])
    eventually(page, lambda: told(page), pytest.approx(float(amap.weights()[0, head, 12, 1]), abs=6e-5))
    page.mouse.move(*spot(page, 43, 5))  # unseen: nothing is there
    drawn(page)
    assert choice(page)["column"] == 1


def test_a_patch_is_as_bright_as_its_weight_and_no_pixel_is_between_two(shown):
    amap = looked(heads=1)
    page = shown(amap)
    w = amap.weights()[0, 0, 0, 1:]
    middles = [(10 * c + 5, 10 * r + 7) for r in range(3) for c in range(4)]
    inside = [(10 * c + 2, 10 * r + 3) for r in range(3) for c in range(4)]
    seen = colours(page, middles)
    assert colours(page, inside) == seen  # nearest: a patch has one colour
    red = np.array(seen)[:, 0]
    best, least = int(w.argmax()), int(w.argmin())
    assert red[best] == red.max() and red[least] == red.min() and red[best] > red[least] + 60
    assert len({tuple(x) for x in colours(page, [(43, 5), (5, 32), (44, 33)])}) == 1  # what no patch covers
    page.locator("regard-image label", has_text="interpolate").locator("input").check()
    says(page.locator("regard-image .note"), "only the patch centres are actual weights")
    eventually(page, lambda: colours(page, inside) != seen)


def test_the_share_of_tokens_that_stand_for_no_patch_is_said(shown):
    amap = looked(heads=1)
    page = shown(amap)
    w = amap.weights()[0, 0, 0]
    note = page.locator("regard-image .note").inner_text()
    assert f"{100 * float(w[1:].sum()):.1f} % of the row falls on patches" in note
    assert f"{100 * float(w[0]):.1f} % on the one non-patch token" in note


def test_boxes_have_their_share_beside_their_area_and_names_are_text(shown):
    amap = looked(heads=1)
    page = shown(amap, boxes=[(0, 0, 15, 10, HOSTILE)], fixations=[(5, 5), (20, 20, 0.5)])
    w = amap.weights()[0, 0, 0, 1:]
    inside = float((w[0] + w[1] / 2) / w.sum())
    note = page.locator("regard-image .note").inner_text()
    assert (
        f"{100 * inside:.1f} % of the weight on patches falls inside the boxes, which cover 12.5 % of the patch area."
        in note
    )
    assert page.locator("regard-image img").count() == 0
    with_marks = colours(page, [(15, 6)])
    page.locator("regard-image label", has_text="boxes and fixations").locator("input").uncheck()
    eventually(page, lambda: colours(page, [(15, 6)]) != with_marks)


def test_keys_move_over_patches_and_choose_the_query(shown):
    amap = looked()
    page = shown(amap, scheme="dark")
    page.mouse.move(*spot(page, 5, 5))
    page.locator("regard-image canvas").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    eventually(page, lambda: choice(page)["column"], 10)
    page.keyboard.press("Enter")
    eventually(page, lambda: choice(page)["row"], 10)
    says(page.locator("regard-image [aria-live]"), "patch 3, 2 attends to patch 3, 2:")
    page.keyboard.press("Home")
    eventually(page, lambda: choice(page)["row"], 0)


def test_who_attends_to_a_patch_can_be_asked_too(shown):
    amap = looked(heads=1)
    page = shown(amap)
    page.locator("regard-image select[aria-label^=What]").select_option("column")
    page.mouse.click(*spot(page, 15, 15))
    page.mouse.move(*spot(page, 5, 5))
    eventually(page, lambda: (choice(page)["row"], choice(page)["column"]), (1, 6))
    eventually(page, lambda: told(page), pytest.approx(float(amap.weights()[0, 0, 1, 6]), abs=6e-5))


def test_words_that_look_at_a_picture_choose_by_the_map_and_a_site_without_patches_says_so(opened):
    torch.manual_seed(0)
    words, patches = torch.randn(1, 1, 3, 4), torch.randn(1, 1, 12, 4)
    with regard.record() as rec:
        torch.nn.functional.scaled_dot_product_attention(words, patches, patches)
        torch.nn.functional.scaled_dot_product_attention(words, words, words)
    page = opened(rec, image=Picture(np.zeros((30, 40), np.uint8), grid=GRID, skip=0))
    until(page, "ready", IMAGE)
    page.evaluate("document.querySelector('regard-page').store.choose({ site: 0, row: 2 })")
    drawn(page)
    page.mouse.click(*spot(page, 15, 25))
    eventually(page, lambda: (choice(page)["row"], choice(page)["column"]), (2, 9))
    page.evaluate("document.querySelector('regard-page').store.choose({ site: 1 })")
    says(page.locator("regard-image .note"), "fewer than the image's 3 × 4 patches")
    page.evaluate("document.querySelector('regard-page').store.choose({ site: 0 })")
    eventually(page, page.locator("regard-image canvas").is_visible)
