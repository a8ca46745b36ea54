"""Two maps on one page: what it carries, and what a browser shows of it, against differences that are written out."""

import gzip
import re
from base64 import b64decode
from functools import cache

import numpy as np
import pytest
import torch
from tests.views.driving import MAP, choice, drawn, eventually, number, says, spot, told, until
from torch.testing import assert_close

import regard
from regard.core.maps.stored import StoredMap
from regard.views.payload import site_payload
from regard.views.payload.arrays import Blobs, signed_logarithmic
from regard.views.payload.diff_payload import compared_sites
from regard.views.payload.site_payload import join_steps

FIRST = ["[CLS]", "the", "<b>black</b>", "cat", "sat", "."]
SECOND = ["[CLS]", "the", "cat", "stood", "."]
BOTH = [(0, 0), (1, 1), (2, None), (3, 2), (4, 3), (5, 4)]  # sat is replaced by stood: one by one


def recorded(tokens, seed=0, layers=2, heads=2) -> regard.Record:
    torch.manual_seed(seed)
    with regard.record() as rec:
        for _ in range(layers):
            q = 2 * torch.randn(1, heads, len(tokens), 8)
            torch.nn.functional.scaled_dot_product_attention(q, q, q)
    return rec.label(tokens=tokens)


@cache
def weights(rec: regard.Record, site: int) -> torch.Tensor:
    return list(rec.maps.values())[site].weights()[0]


def expected(this, other, site, head, i, j) -> tuple[float, float, float]:
    """Both weights and their difference at a place of the shared axes, read from the maps one by one."""
    a, b = (weights(rec, site)[head] for rec in (this, other))
    (ai, bi), (aj, bj) = BOTH[i], BOTH[j]
    x = float(a[ai, aj])
    y = float(b[bi, bj]) if bi is not None and bj is not None else 0.0
    return x, y, x - y


def carried(this, other):
    blobs = Blobs()
    groups = [join_steps({name: amap[0] for name, amap in rec.maps.items()}) for rec in (this, other)]
    return compared_sites(*groups, blobs), blobs


def array(blobs, about) -> np.ndarray:
    raw = np.frombuffer(gzip.decompress(b64decode(blobs.texts[about["blob"]])), np.uint8)
    kind = np.dtype({"u8": "u1", "u16": "<u2", "u32": "<u4", "f32": "<f4"}[about["type"]])
    return np.ascontiguousarray(raw.reshape(kind.itemsize, -1).T).view(kind).reshape(about["shape"])


def test_the_site_of_two_maps_has_the_tokens_of_both_and_how_much_each_head_changed():
    this, other = recorded(FIRST, 0), recorded(SECOND, 1)
    (sites, only), _ = carried(this, other)
    assert only == [[], []] and len(sites) == 2
    assert sites[0]["rows"] == ["[CLS]", "the", "<b>black</b>", "cat", "sat / stood", "."]
    assert sites[0]["beside"]["rows"] == "==+=~="
    for head in range(2):
        rows = [i for i, pair in enumerate(BOTH) if None not in pair]
        change = [sum(abs(expected(this, other, 0, head, i, j)[2]) for j in range(6)) / 2 for i in rows]
        assert sites[0]["numbers"][head]["change"] == pytest.approx(sum(change) / len(rows), rel=1e-5)


def test_heads_in_small_share_one_scale_centred_at_zero():
    (sites, _), blobs = carried(recorded(SECOND, 0), recorded(SECOND, 1))
    codes = np.concatenate([array(blobs, site["beside"]["difference"]["thumbs"]).astype(int) for site in sites])
    a, b = (torch.cat([amap.weights()[0] for amap in recorded(SECOND, seed).maps.values()]) for seed in (0, 1))
    d = (a - b).numpy()
    assert np.abs(codes - 128).max() == 127
    assert np.abs(np.sign(d) * np.sqrt(np.abs(d) / np.abs(d).max()) * 127 - (codes - 128)).max() <= 0.501


def test_sites_of_one_record_alone_are_named_and_none_in_common_is_an_error():
    this, other = recorded(SECOND, 0, layers=3), recorded(SECOND, 1, layers=2)
    (sites, only), _ = carried(this, other)
    assert len(sites) == 2 and only == [[list(this.maps)[2]], []]
    with pytest.raises(ValueError, match="no site is in both"):
        compared_sites({"a": [], "b": []}, {"c": []}, Blobs())


def test_two_models_that_name_no_site_alike_are_compared_layer_by_layer():
    this, other = recorded(SECOND, 0), recorded(SECOND, 1)
    renamed = {f"transformer.layer.{place}": [amap] for place, amap in enumerate(other.maps.values())}
    sites, only = compared_sites({name: [amap] for name, amap in this.maps.items()}, renamed, Blobs())
    assert [site["site"] for site in sites] == list(this.maps) and only == [[], []]


def test_a_difference_makes_its_own_page(tmp_path):
    a, b = (next(iter(recorded(SECOND, seed).maps.values())) for seed in (0, 1))
    made = (a - b).save_html(tmp_path / "d.html", names=("one", "two")).read_text()
    assert re.search(r'"beside":\{"names":\["one","two"\]', made)


def test_signed_cells_are_within_a_thousandth():
    x = torch.cat([torch.logspace(-13, 0, 50), -torch.logspace(-13, 0, 50), torch.zeros(1)])
    code = torch.from_numpy(signed_logarithmic(x).astype(np.int64)) - 32768
    back = torch.where(code == 0, 0.0, code.sign() * 2.0 ** (48 * (code.abs() / 32767 - 1)))
    assert_close(back.float(), x, rtol=6e-4, atol=0.0)


# in a browser


def test_pointing_tells_both_weights_and_their_difference(opened):
    this, other = recorded(FIRST, 0), recorded(SECOND, 1)
    page = opened(this, beside=other, names=("new", "old"))
    assert choice(page)["side"] == "difference"
    for i, j in [(3, 4), (4, 3), (5, 2)]:
        page.mouse.move(*spot(page, i, j))
        site, head = choice(page)["site"], choice(page)["head"]
        x, y, d = expected(this, other, site, head, i, j)
        eventually(page, lambda: told(page), pytest.approx(d, abs=6e-5))
        said = page.locator("regard-map .readout small").inner_text()
        found = re.match(r"new (\S+) · old (\S+) · new − old (\S+?)(;|$)", said)
        assert number(found[1]) == pytest.approx(x, abs=6e-5) and number(found[3]) == pytest.approx(d, abs=6e-5)
        assert found[2] == "none" if j == 2 else number(found[2]) == pytest.approx(y, abs=6e-5)
    assert "the column is only in new" in said
    page.mouse.move(*spot(page, 2, 1))
    assert "the row is only in new" in says(page.locator("regard-map .readout"), "not compared").inner_text()


def test_all_components_follow_from_one_map_to_the_other_and_to_the_difference(opened):
    this, other = recorded(FIRST, 0), recorded(SECOND, 1)
    page = opened(this, beside=other, names=("new", "old"))
    page.mouse.click(*spot(page, 3, 4))
    eventually(page, lambda: choice(page)["pinned"])
    site, head = choice(page)["site"], choice(page)["head"]
    x, y, d = expected(this, other, site, head, 3, 4)
    for name, side, value in (("new", "this", x), ("old", "other", y), ("new − old", "difference", d)):
        page.get_by_role("button", name=name, exact=True).click()
        eventually(page, lambda: choice(page)["side"], side)
        word = page.locator("regard-text p span", has_text="sat / stood")
        near = pytest.approx(value, abs=6e-5)
        eventually(page, lambda: told(page), near)
        eventually(page, lambda word=word: number(word.get_attribute("title")), near)
        wanted = [
            dict(zip(("this", "other", "difference"), expected(this, other, site, head, 3, j), strict=True))[side]
            for j in range(6)
        ]

        def lines(wanted=wanted) -> bool:
            drawn = page.evaluate(
                "(() => { const l = document.querySelector('regard-page').shadowRoot.querySelector('regard-lines');"
                "return l.of(l.heads[0], 3).map(x => [x.j, x.w]); })()"
            )
            return bool(drawn) and all(w == pytest.approx(wanted[j], abs=1e-5) for j, w in drawn)

        eventually(page, lines, True)
    assert page.locator("regard-text span.unmatched").inner_text() == "<b>black</b>"
    page.locator("regard-map canvas").focus()
    for side in ("this", "other", "difference"):
        page.keyboard.press("d")
        eventually(page, lambda: choice(page)["side"], side)


def test_the_legend_is_centred_at_zero_and_colours_have_signs(opened):
    w = torch.tensor([[[0.9, 0.1], [0.5, 0.5]]])
    a, b = StoredMap((1,), w), StoredMap((1,), w.flip(-1))
    page = opened(a, beside=b)
    drawn(page)
    scale = page.locator("regard-map .legend .scale").inner_text().split()
    assert scale == ["−0.8000", "0", "+0.8000"]
    shade = page.evaluate(
        f"""() => {{ const c = {MAP}.picture, {{ data }} = c.getContext('2d').getImageData(0, 0, c.width, c.height);
        return [[.25, .25], [.75, .25], [.25, .75]].map(([x, y]) => {{
          const at = 4 * (Math.floor(y * c.height) * c.width + Math.floor(x * c.width));
          return [...data.slice(at, at + 4)]; }}); }}"""
    )
    assert shade[0][0] > shade[0][2] and shade[1][2] > shade[1][0]  # warm above 0, cold below
    assert shade[2] == [255, 253, 248, 255]  # unchanged: the middle of the scale


def test_heads_stand_in_the_order_of_their_change(opened):
    torch.manual_seed(3)
    w = torch.rand(5, 6, 6).softmax(-1)
    moved = torch.tensor([0.1, 0.9, 0.0, 0.5, 0.3])[:, None, None]
    page = opened(StoredMap((5,), w), beside=StoredMap((5,), (1 - moved) * w + moved * torch.eye(6)))
    order = "document.querySelector('regard-page').shadowRoot.querySelector('regard-heads').places.map(p => p.head)"
    eventually(page, lambda: page.evaluate(order), [1, 3, 4, 0, 2])
    assert choice(page)["head"] == 1
    says(page.locator("regard-heads p"), "% of weight moved")


def test_large_maps_are_compared_from_cells_down_to_single_weights(opened, monkeypatch):
    monkeypatch.setattr(site_payload, "MAX_DENSE", 1000)
    torch.manual_seed(0)
    words = [f"w{i}" for i in range(700)]
    q, k = (2 * torch.randn(1, 1, 700, 16) for _ in range(2))
    this = regard.attend(q, k, k, over=regard.Causal()).map
    other = regard.attend(q[:, :, 3:] + 0.3, k[:, :, 3:], k[:, :, 3:], over=regard.Causal()).map
    this.rows = this.columns = words
    other.rows = other.columns = words[3:]
    page = opened(this, beside=other)
    until(page, "difference?.single")
    says(page.locator("regard-map .legend"), "largest-magnitude this − other per")
    whole = this.weights()[0, 0]
    d = whole.clone()
    d[3:, 3:] -= other.weights()[0, 0]
    d[:3] = 0
    cells = page.evaluate(f"(() => {{ const l = {MAP}.head.levels[0]; return [l.size, l.cols, ...l.peak]; }})()")
    size, cols = int(cells[0]), int(cells[1])
    for r, c in ((3, 2), (60, 40), (80, 80)):
        cell = d[size * r : size * r + size, size * c : size * c + size].flatten()
        assert cells[2 + r * cols + c] == pytest.approx(float(cell[cell.abs().argmax()]), rel=1e-3, abs=1e-9)
    page.mouse.move(*spot(page, 600, 300))
    for _ in range(20):
        page.mouse.wheel(0, -240)
    until(page, "view.scale === 44")
    drawn(page)
    page.mouse.move(*spot(page, 599, 301))
    eventually(page, lambda: choice(page)["row"], 599)
    eventually(page, lambda: told(page), pytest.approx(float(d[599, 301]), abs=6e-5))


def test_hostile_names_of_sides_and_tokens_stay_text(opened):
    this, other = recorded(["<img src=x onerror=alert(1)>", "b"], 0), recorded(["</script>", "<i>x</i>", "b"], 1)
    page = opened(this, beside=other, names=("<b>new</b>", "</script><script>alert(2)</script>"))
    assert page.locator("regard-page .sides b, regard-page img, regard-page .sides script").count() == 0
    assert "<b>new</b>" in page.locator("regard-page .sides").inner_text()
