"""The page of a report: offline, without script, true to the findings, and harmless whatever a token says."""

import re
from functools import cache
from html.parser import HTMLParser

import pytest
from tests.judging.test_suite import EVIDENCE, marked

import regard
from regard.judging import Finding, Judged, PairedDifference, Report
from regard.judging.artifacts import Histogram, TextExample, TextExamples

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
ABOUT = {"model": HOSTILE, "model class": "Tiny", "data": "made", "instances": 3, "seed": 0, "versions": {"torch": "2"}}


@cache
def report():
    better = Finding(
        "one",
        0.5,
        "It is so.",
        "higher",
        3,
        interval=(0.4, 0.6),
        baselines={"random": 0.1, "limit": 0.9},
        differences={"random": PairedDifference(0.4, (0.3, 0.5), 0.001, 3)},
    )
    apart = Finding(
        "two",
        0.5,
        "It is not.",
        "lower",
        3,
        interval=(0.0, 0.6),
        baselines={"random": 0.1},
        differences={"random": PairedDifference(0.4, (-0.1, 0.5), 0.4, 3)},
    )
    worse = Finding(
        "three",
        0.5,
        f"It says {HOSTILE}.",
        "lower",
        3,
        interval=(0.4, 0.6),
        baselines={"chance": 0.1},
        differences={"chance": PairedDifference(0.4, (0.3, 0.5), 0.001, 3)},
    )
    nothing = Finding("four", None, "Undefined: it cannot be said.", "lower", 3, baselines={"random": None})
    endless = Finding("five", float("inf"), "Equal images.", "higher", 1, unit="dB", baselines={"random": 3.0})
    text = TextExamples(
        "Texts", [TextExample("7", ["a", HOSTILE], {"attention": [0.2, 0.8], "marked by people": [0.0, 1.0]})]
    )
    tests = [
        Judged("first", "Does it hold?", [better, apart, worse, nothing, endless], [*EVIDENCE, text], first=4),
        Judged("second", "Is it there?", left_out="No instance carries a rationale."),
        Judged("third", "How many?", [better] * 40),
    ]
    return Report(ABOUT, tests)


class Read(HTMLParser):
    """Tags, attributes that a browser would fetch, and the words of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.fetched, self.contents, self.words = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.contents += [x for name, x in attributes if name == "content"]
        self.fetched += [
            x for name, x in attributes if name in ("src", "srcset", "data") or (tag, name) == ("link", "href")
        ]

    def handle_data(self, data):
        self.words.append(data)

    @property
    def said(self):
        return re.sub(r"\s+", " ", " ".join(self.words))


def test_the_page_fetches_nothing_and_runs_nothing():
    page = report().html()
    read = Read(page)
    assert read.fetched == [] and "script" not in read.tags and "img" not in read.tags
    assert not re.search(r"https?:|url\((?!#)|@import|//\w", page)
    assert any(x.startswith("default-src 'none'; style-src") for x in read.contents)


def test_hostile_tokens_and_sentences_are_letters():
    read = Read(report().html())
    assert read.said.count(HOSTILE) >= 4  # the title, the model, a sentence, a word


def test_the_first_page_has_what_held_and_what_did_not_with_baseline_and_interval():
    said = Read(report().html()).said
    first = said[: said.index("A measure is called better or worse")]
    held, apart, failed, left = (
        first.index(x) for x in ("What held", "Not significantly different", "What did not hold", "What was not tested")
    )
    assert held < apart < failed < left
    assert re.search(r"0\.5 0\.4 to 0\.6 better than random 0\.1", first[held:apart])
    assert re.search(r"not significantly different from random 0\.1", first[apart:failed])
    assert re.search(r"worse than chance 0\.1", first[failed:left])
    assert "No instance carries a rationale." in first[left:]
    assert "2 tests on 3 instances of made" in first


def test_every_number_of_every_finding_is_on_the_page():
    said = Read(report().html()).said
    assert "undefined" in said and "∞ dB" in said.replace("  ", " ")
    assert "28 more" in said  # of 40 findings twelve are open, none is dropped
    assert said.count("three") >= 2


def test_no_page_says_that_attention_explains():
    pages = [report().html(), regard.judge(marked(count=4), tests="task,rationales").html()]
    for page in pages:
        assert "explain" not in page.lower()


def test_the_same_report_is_the_same_page():
    assert report().html() == report().html()


def test_a_histogram_of_nothing_is_drawn_and_says_so():
    empty = Histogram("Empty", "tau", {"attention": [None, None], "random": []})
    page = Report(ABOUT, [Judged("a", "b?", [], [empty, Histogram("Nothing", "tau", {})])]).html()
    assert "attention: undefined everywhere" in page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_every_section_and_figure_without_an_error(browser, tmp_path, scheme):
    made, said = report(), []
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("request", lambda ask: said.append(ask.url) if not ask.url.startswith("file:") else None)
    page.goto(made.save(tmp_path / "report.html").as_uri())
    for test in made.tests:
        assert page.locator(f"section#{test.name} h2").inner_text() == test.asks
        assert page.locator(f"section#{test.name}").is_visible()
    assert page.locator("svg.figure").count() == 2
    for figure in page.locator("svg.figure, figure.texts, figure.grid").all():
        assert figure.bounding_box()["height"] > 20
    assert page.evaluate("document.documentElement.scrollWidth") <= 390  # nothing leaves a phone's screen
    ink, paper = page.evaluate("""[getComputedStyle(document.querySelector('svg.figure text')).fill,
                                   getComputedStyle(document.body).backgroundColor]""")
    assert contrast(ink, paper) > 4.5
    page.close()
    assert said == []


def contrast(one, other):
    """WCAG's ratio of two colours that a browser tells as rgb(r, g, b)."""
    lights = []
    for colour in (one, other):
        parts = [int(x) / 255 for x in re.findall(r"\d+", colour)[:3]]
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def test_a_number_is_said_shortly_and_what_rounding_left_is_nothing():
    from regard.views.report import number

    given = (0.12345, -0.5, 1.39e-17, 2e-9, float("-inf"), None)
    assert [number(x) for x in given] == ["0.123", "−0.5", "0", "2e−09", "−∞", "undefined"]
