"""What a reader saves from a page is what it shows."""

import csv
import io
from xml.etree import ElementTree

import pytest
import torch
from tests.views.driving import choice, drawn, eventually, says, spot, until

import regard
from regard.core.maps.stored import StoredMap
from regard.views.payload import site_payload

HOSTILE = ["=1+1", '"quoted", text', "</text><script>alert(1)</script>", "\u0001&amp;", "a", "b"]
SVG = "{http://www.w3.org/2000/svg}"


def map_of(words, seed=0, over=None) -> regard.AttentionMap:
    torch.manual_seed(seed)
    q, k = 2 * torch.randn(2, 2, len(words), 8)
    made = regard.attend(q, k, k, **({} if over is None else {"over": over})).map
    made.rows = made.columns = words
    return made


def saved(page, part: str, kind: str) -> bytes:
    with page.expect_download() as caught:
        page.locator(f"regard-{part} .savers button", has_text=kind).click()
    with open(caught.value.path(), "rb") as file:
        return file.read()


def test_a_table_has_every_weight_in_sight_and_no_pair_that_may_not_meet(opened):
    amap = map_of(HOSTILE, over=regard.Causal())
    page = opened(amap)
    lines = list(csv.reader(io.StringIO(saved(page, "map", "CSV").decode(), newline="")))
    assert lines[0] == ["row", "row name", "column", "column name", "weight", "exact"]
    head = choice(page)["head"]
    w = amap.weights()[head]
    assert [(int(x[0]), int(x[2])) for x in lines[1:]] == [(i, j) for i in range(6) for j in range(i + 1)]
    for i, row, j, column, value, exact in lines[1:]:
        assert float(value) == pytest.approx(float(w[int(i), int(j)]), rel=2e-6, abs=1e-9) and exact == "1"
        assert (row.removeprefix("'"), column.removeprefix("'")) == (HOSTILE[int(i)], HOSTILE[int(j)])
    assert lines[1][1] == "'=1+1"  # a spreadsheet reads text, not a formula


def test_a_table_of_a_part_has_that_part_alone_and_one_of_too_much_says_so(opened, monkeypatch):
    monkeypatch.setattr(site_payload, "MAX_DENSE", 1000)
    q = torch.randn(1, 1, 1200, 8)
    page = opened(regard.attend(q, q, q).map)
    until(page, "head?.pairs")
    page.locator("regard-map .savers button", has_text="CSV").click()
    says(page.locator("regard-map [role=status]"), "1,440,000 weights are visible")
    drawn(page)
    page.mouse.click(*spot(page, 700, 300))
    eventually(page, lambda: choice(page)["pinned"])
    page.locator("regard-map canvas").focus()
    page.keyboard.press("Enter")
    until(page, "view.scale === 44")
    lines = saved(page, "map", "CSV").decode().splitlines()[1:]
    rows, columns = ({int(line.split(",")[x]) for line in lines} for x in (0, 2))
    assert len(lines) == len(rows) * len(columns) < 800
    assert choice(page)["row"] in rows and choice(page)["column"] in columns


def test_a_table_of_two_maps_has_both_and_the_difference(opened):
    a, b = map_of(["a", "b", "c"], 0), map_of(["a", "c"], 1)
    page = opened(a, beside=b, names=("new", "old"))
    lines = list(csv.reader(io.StringIO(saved(page, "map", "CSV").decode(), newline="")))
    assert lines[0][4:7] == ["new", "old", "new - old"]
    head = choice(page)["head"]
    x, y = a.weights()[head].tolist(), b.weights()[head].tolist()
    found = {(int(line[0]), int(line[2])): line[4:7] for line in lines[1:]}
    assert found[1, 0][1:] == ["", ""] and found[0, 1][1] == ""  # b is in the first text alone
    assert [float(v) for v in found[2, 0]] == pytest.approx([x[2][0], y[1][0], x[2][0] - y[1][0]], abs=1e-6)
    assert float(found[0, 1][2]) == pytest.approx(x[0][1], abs=1e-6)


def test_what_is_saved_is_what_was_chosen_even_before_it_is_there(opened):
    amap = map_of(["a", "b", "c"])
    page = opened(amap)
    other = 1 - choice(page)["head"]
    with page.expect_download() as caught:
        page.locator("regard-map .savers button", has_text="CSV").evaluate(
            f"button => {{ document.querySelector('regard-page').store.choose({{ head: {other} }}); button.click(); }}"
        )
    with open(caught.value.path(), newline="") as file:
        lines = list(csv.reader(file))[1:]
    assert caught.value.suggested_filename.endswith(f".{other}-map.csv")
    assert [float(line[4]) for line in lines] == pytest.approx(amap.weights()[other].flatten().tolist(), rel=2e-6)


def test_pictures_are_png_of_what_is_drawn(opened):
    w = torch.zeros(1, 2, 2)
    w[0, 0, 0] = w[0, 1, 1] = 1
    page = opened(StoredMap((1,), w))
    drawn(page)
    for part in ("map", "lines"):
        made = saved(page, part, "PNG")
        assert made[:8] == b"\x89PNG\r\n\x1a\n"
    made = saved(page, "map", "PNG")
    size = int.from_bytes(made[16:20], "big"), int.from_bytes(made[20:24], "big")
    canvas = page.evaluate(
        "(() => { const c = document.querySelector('regard-page').shadowRoot.querySelector('regard-map')"
        ".shadowRoot.querySelector('canvas'); return [c.width, c.height]; })()"
    )
    assert list(size) == canvas
    shades = page.evaluate(
        """async (bytes) => { const b = await createImageBitmap(new Blob([new Uint8Array(bytes)], {type: 'image/png'}));
        const c = document.createElement('canvas'); c.width = b.width; c.height = b.height;
        const g = c.getContext('2d'); g.drawImage(b, 0, 0);
        const map = document.querySelector('regard-page').shadowRoot.querySelector('regard-map');
        const f = map.frameBox, d = g.getImageData(0, 0, c.width, c.height).data;
        const at = (x, y) => d[4 * (Math.floor(f.upper + y * f.height) * c.width + Math.floor(f.left + x * f.width))];
        return [at(.3, .3), at(.7, .3)]; }""",
        list(made),
    )
    assert shades[0] < 80 < 200 < shades[1]  # the weight of 1 is dark, that of 0 is paper


def test_lines_and_text_are_drawings_with_names_as_text(opened):
    page = opened(map_of(HOSTILE))
    page.mouse.click(*spot(page, 4, 2))
    eventually(page, lambda: (choice(page)["row"], choice(page)["pinned"]), (4, True))
    drawn(page)
    lines = ElementTree.fromstring(saved(page, "lines", "SVG"))
    names = [x.text for x in lines.iter(f"{SVG}text")]
    assert names[:2] == HOSTILE[:2] and names[2].startswith("</text><scr")
    head = choice(page)["head"]
    assert not list(lines.iter(f"{SVG}script")) and lines.tag == f"{SVG}svg" and head in (0, 1)
    strokes = [float(x.get("stroke-width")) for x in lines.iter(f"{SVG}path")]
    assert strokes and max(strokes) == pytest.approx(14 * float(map_of(HOSTILE).weights()[head, 4].max()), abs=0.02)
    text = ElementTree.fromstring(saved(page, "text", "SVG"))
    shown = [x.text for x in text.iter(f"{SVG}text")]
    assert shown[:3] == HOSTILE[:3] and shown[3] == "·&amp;" and shown[4:] == ["a", "b"]
    assert len(list(text.iter(f"{SVG}rect"))) > 3


def test_a_file_is_named_after_what_it_shows_and_nothing_else(opened):
    page = opened(map_of(["a", "b"]), title="../../etc/<passwd> \u202e x")
    with page.expect_download() as caught:
        page.locator("regard-map .savers button", has_text="CSV").click()
    name = caught.value.suggested_filename
    assert name.startswith("etc-passwd") and name.endswith("-map.csv") and "/" not in name and "\u202e" not in name
