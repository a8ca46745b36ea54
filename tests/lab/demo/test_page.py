"""The demo's page: whole, offline, and true to the numbers."""

import re
import shlex
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from markupsafe import Markup
from rich.console import Console
from tests.views.accessible_tree import accessible_tree, without_a_name
from tests.views.driving import eventually

import regard
from regard.lab.demo import records, run
from regard.lab.demo.page import PageSection, render, write
from regard.views.terminal.record_summary import source_text

WEIGHTS = [
    [0.2976, 0.1095, 0.1805, 0.1805, 0.2318],
    [0.1205, 0.3275, 0.1986, 0.1986, 0.1547],
    [0.1805, 0.1805, 0.2976, 0.1095, 0.2318],
    [0.1986, 0.1986, 0.1205, 0.3275, 0.1547],
    [0.2374, 0.1440, 0.2374, 0.1440, 0.2374],
]
CONTEXTS = [
    [0.7100, 0.4059, 0.5941, 0.2900],
    [0.4738, 0.6035, 0.3965, 0.5262],
    [0.7100, 0.5941, 0.4059, 0.2900],
    [0.4738, 0.3965, 0.6035, 0.5262],
    [0.7121, 0.5000, 0.5000, 0.2879],
]


class Loads(HTMLParser):
    """Everything a browser would fetch for a page, the tags left open, and the words between them."""

    VOID = frozenset({"meta", "img", "source", "br", "link", "hr"})

    def __init__(self):
        super().__init__()
        self.fetched: list[str] = []
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.tables: list[list[list[str]]] = []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        for name, value in attributes:
            if name in ("src", "srcset", "poster", "data") or (name == "href" and tag == "link"):
                self.fetched.append(value)
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        if self.open and self.open[-1] == "td":
            self.tables[-1][-1].append(data)


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> tuple[Path, str]:
    """The whole demo in its fastest setting: one seed, one pass over the images."""
    console = Console(record=True, width=120, file=open("/dev/null", "w"))  # noqa: SIM115
    return run(tmp_path_factory.mktemp("demo") / "new", seeds=1, epochs=1, console=console), console.export_text()


@pytest.fixture(scope="module")
def parsed(demo) -> Loads:
    loads = Loads()
    loads.feed(demo[0].read_text(encoding="utf-8"))
    assert loads.open == []
    return loads


def test_the_page_fetches_nothing(demo, parsed):
    assert parsed.fetched and all(address.startswith("data:image/png;base64,") for address in parsed.fetched)
    assert parsed.tags.isdisjoint({"link", "iframe", "object"})
    page = demo[0].read_text(encoding="utf-8")
    own = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)  # the components have tests of their own
    assert not re.search(r"url\(|@import|https?://", own)
    assert "default-src 'none'" in page and "connect-src" not in page


def test_the_page_holds_the_textbook_numbers(parsed):
    tables = [[[cell for cell in row if cell.strip()] for row in table if row] for table in parsed.tables]
    assert [[f"{value:.4f}" for value in row] for row in WEIGHTS] in tables
    assert [[f"{value:.4f}" for value in row] for row in CONTEXTS] in tables


def test_the_terminal_says_which_part_of_six_is_on_and_how_long_it_took(demo):
    printed = demo[1]
    assert [int(x) for x in re.findall(r"\[(\d)/6\]", printed)] == [1, 2, 3, 4, 5, 6]
    assert len(re.findall(r"took \d+ s, \d+ s so far", printed)) == 6
    assert printed.index("0.2976") < printed.index("Karate club") < printed.index("Digits")


def test_the_first_screen_has_a_question_its_answer_and_the_live_maps_of_two_sentences(demo):
    page = re.sub(r"<script.*?</script>", "", demo[0].read_text(encoding="utf-8"), flags=re.DOTALL)
    first_screen = page[page.index("<header>") : page.index("</header>")]
    assert "<h1>Does attention show what “it” means?</h1>" in first_screen
    assert re.search(r'<p class="found">(No|Often): with “wide”, .* In 12 such pairs', first_screen)
    assert "<regard-lines" in first_screen and first_screen.count("<template") == 2
    assert not re.search(r"\d%", first_screen)
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert titles[0] == "The same question, counted" and titles[-1].startswith("Your own model")


def test_on_a_phone_the_page_is_whole_and_a_screen_reader_has_a_name_for_every_control(demo, browser):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(demo[0].as_uri())
    eventually(
        page,
        lambda: page.evaluate("Boolean(document.querySelector('regard-lines').shadowRoot.querySelector('canvas'))"),
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert without_a_name(page) == []
    headings = [part.name for part in accessible_tree(page) if part.role == "heading"]
    assert headings[0] == "Does attention show what “it” means?" and all(headings)
    page.close()


def test_ten_digits_are_lit_in_their_part(demo):
    assert demo[0].read_text(encoding="utf-8").count("with its attention weights") == 10


def test_the_page_two_records_and_a_study_are_left_in_the_folder_and_the_command_opens_them(demo):
    folder = demo[0].parent
    assert {path.name for path in folder.iterdir()} == {
        "index.html",
        "karate.regard",
        "paragraph.regard",
        "quick-study",
    }
    own, serve, record, *rest = shlex.split(records.command(folder))
    assert (own, serve, rest) == ("regard", "serve", ["--model", "minilm", "--folder", str(folder)])
    read = regard.load(record)
    assert len(read.maps) == 6 and "trigonometric" not in source_text(read) and "Yao Ming" in source_text(read)
    club = regard.load(folder / "karate.regard")
    for amap in club.maps.values():
        torch.testing.assert_close(amap.weights().sum(-1), torch.ones(amap.heads, 34))


def test_the_demo_has_the_table_of_its_study_and_leaves_the_study_behind(demo):
    import html

    from regard.lab.demo import ablation_study
    from regard.studies.aggregate import collect
    from regard.studies.report import means_sheet
    from regard.studies.run_study import store_of
    from regard.studies.statistics import analyse

    folder = demo[0].parent / "quick-study"
    store = store_of(folder)
    study = ablation_study.Study.model_validate(store.specification("quick"))
    found = analyse(collect(store, study))
    store.close()
    assert study.variant_names() == ablation_study.Study.read("quick").variant_names() and not found.results.missing
    page = html.unescape(demo[0].read_text(encoding="utf-8"))
    for row in means_sheet(found, "retrieval").rows:
        assert all(cell in page for cell in row)


def test_text_is_escaped_and_html_is_not():
    page = render([PageSection("a < b", "<script>", Markup("<em>kept</em>"))], note="x & y")
    assert "a &lt; b" in page and "&lt;script&gt;" in page and "x &amp; y" in page and "<em>kept</em>" in page


def test_the_first_part_with_a_hero_is_the_question_of_the_page():
    plain, first, second = (
        PageSection(name, "", Markup(""), hero, "answer to " + name)
        for name, hero in (("plain", None), ("first", Markup("HERO-1")), ("second", Markup("HERO-2")))
    )
    page = render([plain, first, second])
    assert "HERO-1" in page and "HERO-2" not in page
    assert "<h1>first</h1>" in page and "answer to first" in page and "answer to second" not in page


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path: Path):
    write("old", tmp_path)
    with pytest.raises(UnicodeEncodeError):
        write("new \ud800", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    assert (tmp_path / "index.html").read_text() == "old"
