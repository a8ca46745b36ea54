"""One file that shows maps: read back as text here, in a browser in test_browser.py."""

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

import regard
from regard.core.maps.attention_map import _operations
from regard.core.maps.stored import StoredMap
from regard.views import page
from regard.views.page import html_of, save_html
from regard.views.payload import site_payload


def recorded(layers: int = 2, heads: int = 2, n: int = 8, batch: int = 1, tokens=None) -> regard.Record:
    torch.manual_seed(0)
    with regard.record() as rec:
        for _ in range(layers):
            q = torch.randn(batch, heads, n, 4)
            torch.nn.functional.scaled_dot_product_attention(q, q, q)
    return rec if tokens is None else rec.label(tokens=tokens)


class Scripts(HTMLParser):
    """The scripts of a page and the tags outside them, as a browser finds them."""

    def __init__(self, text: str):
        super().__init__()
        self.tags, self.scripts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "script":
            self.scripts.append([dict(attrs), ""])

    def handle_data(self, data):
        if self.tags and self.tags[-1] == "script" and self.scripts:
            self.scripts[-1][1] += data


def data_of(text: str) -> dict:
    return json.loads(next(body for attrs, body in Scripts(text).scripts if attrs.get("id") == "regard-data"))


def test_a_record_becomes_one_file_with_all_its_sites(tmp_path):
    rec = recorded()
    made = rec.save_html(tmp_path / "run.html", title="Two layers")
    data = data_of(made.read_text())
    assert [site["site"] for site in data["sites"]] == list(rec.maps)
    assert data["title"] == "Two layers" and data["sites"][0]["heads"] == 2
    assert [x.name for x in tmp_path.iterdir()] == ["run.html"]  # no draft is left


def test_a_map_saves_itself_and_so_does_one_head(tmp_path):
    q = torch.randn(3, 2, 8, 4)
    amap = regard.attend(q, q, q).map
    assert data_of(amap.save_html(tmp_path / "a.html", item=2).read_text())["sites"][0]["heads"] == 2
    assert data_of(amap[0, 1].save_html(tmp_path / "b.html").read_text())["sites"][0]["heads"] == 1
    with pytest.raises(ValueError, match="this batch has 3 items"):
        amap.save_html(tmp_path / "c.html", item=3)


def test_tokens_that_are_html_stay_text(tmp_path):
    hostile = [
        "</script><script>alert(1)</script>",
        "<img src=x onerror=alert(2)>",
        "&lt;",
        "]]>",
        "<!--",
        "%%script%%",
        "\u2028",
        "'\"",
    ]
    text = html_of(recorded(tokens=hostile), title="</title><script>alert(3)</script>", text=hostile[0])
    read = Scripts(text)
    assert data_of(text)["sites"][0]["rows"] == hostile
    assert read.tags.count("script") == len(read.scripts) == text.count("<script") and "img" not in read.tags
    code = [body for attrs, body in read.scripts if "type" not in attrs]
    assert len(code) == 1 and "alert" not in code[0]


def test_nothing_is_fetched_from_elsewhere():
    text = html_of(recorded())
    assert "default-src 'none'" in text
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", text)
    assert not re.search(r"\bfetch\(|XMLHttpRequest|import\(|WebSocket", text)


def test_a_page_that_would_be_too_large_says_what_to_do(monkeypatch):
    monkeypatch.setattr(page, "MAX_PAGE_BYTES", 100)
    with pytest.raises(ValueError, match="Show fewer sites or heads"):
        html_of(recorded())


def test_no_maps_is_an_error_and_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="No maps to show"):
        save_html(recorded(), tmp_path / "x.html", sites=lambda name: False)
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        save_html(recorded(), tmp_path / "none" / "x.html")
    assert not list(tmp_path.iterdir())


def test_twelve_by_twelve_heads_at_256_tokens_are_at_most_10_megabytes(monkeypatch):
    torch.manual_seed(0)
    q, k = 1.2 * torch.randn(12, 256, 64), 1.2 * torch.randn(12, 256, 64)  # nothing to compress: the hard case
    amap = regard.attend(q, k, k).map
    monkeypatch.setattr(site_payload, "EXACT_BYTES", 0)  # as a page of twelve sites would carry it
    text = html_of(amap)
    assert 12 * len(text) - 11 * len(page.script()) < 10_000_000


def test_the_script_is_one_that_a_page_can_hold():
    script = page.script()
    assert "</script" not in script and "<!--" not in script and "%%" not in script
    assert len(base64.b64encode(script.encode())) < 400_000


def test_cells_that_are_there_are_not_made_again(monkeypatch):
    monkeypatch.setattr(site_payload, "MAX_DENSE", 10)
    q = torch.randn(1, 2, 40, 4)
    amap = regard.attend(q, q, q).map
    made = amap.pyramid()
    monkeypatch.setitem(_operations, "build_pyramid", lambda *_: pytest.fail("built again"))
    assert data_of(html_of(amap))["sites"][0]["cell"] == made.cell


def test_steps_of_a_generation_are_one_map():
    torch.manual_seed(0)
    k = torch.randn(1, 2, 7, 4)
    with regard.record() as rec:
        torch.nn.functional.scaled_dot_product_attention(k[:, :, :4], k[:, :, :4], k[:, :, :4], is_causal=True)
        for m in (5, 6, 7):
            torch.nn.functional.scaled_dot_product_attention(k[:, :, m - 1 : m], k[:, :, :m], k[:, :, :m])
    (group,) = site_payload.join_steps({name: amap[0] for name, amap in rec.maps.items()}).values()
    whole = torch.softmax((k @ k.transpose(-1, -2) / 2).masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf), -1)
    torch.testing.assert_close(site_payload.all_weights(group), whole[0])
    assert len(data_of(html_of(rec))["sites"]) == 1


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("index", ["map.html", "run.html"]),
        ("compare", ["difference.html", "marks.html"]),
        ("generation", ["steps.html"]),
        ("graphs", ["graph.html"]),
        ("images", ["dog.html", "vit.html"]),
    ],
)
def test_the_code_of_the_pages_about_pages_runs(name, made, tmp_path, monkeypatch):
    document = Path(__file__).parents[2] / f"docs/see/{name}.md"
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in re.findall(r"^```python\n(.*?)^```", document.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        exec(compile(block, document.name, "exec"), names)
    assert sorted(x.name for x in tmp_path.iterdir()) == made


def test_weights_below_zero_and_not_numbers_make_a_page_that_opens():
    w = torch.tensor([[[0.5, -0.25], [float("nan"), 1.0]]])
    text = html_of(StoredMap((1,), w))
    (site,) = data_of(text)["sites"]
    assert site["form"] == "weights" and site["numbers"][0]["entropy"] is None
    assert "NaN" not in json.dumps(data_of(text)) and "Infinity" not in json.dumps(data_of(text))


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (3, 0), (0, 3)])
def test_maps_of_any_shape_make_a_page(shape):
    n, m = shape
    q, k = torch.randn(2, n, 4), torch.randn(2, m, 4)
    (site,) = data_of(html_of(regard.attend(q, k, k).map))["sites"]
    assert (site["n"], site["m"], site["heads"]) == (n, m, 2)
