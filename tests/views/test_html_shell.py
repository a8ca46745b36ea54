"""The frame of offline pages: one head for all, nothing runs unasked, one set of colours."""

import re
from pathlib import Path

import pytest
import torch
from markupsafe import Markup
from tests.studies.made import drawn, made
from tests.views.test_report import report

import regard
from regard.lab.demo.page import PageSection, render
from regard.studies.statistics import analyse
from regard.views.html_shell import html_page, template_text
from regard.views.page import html_of
from regard.views.report import report_page
from regard.views.study import study_page

THEME = Path(__file__).parents[2] / "web" / "src" / "theme.ts"


def head(page):
    """A page's head without what is its own: title, style of its parts, permission to run scripts."""
    text = page[: page.index("<body>")].replace("; script-src &#x27;unsafe-inline&#x27;", "")
    text = text.replace("; script-src 'unsafe-inline'", "")
    return re.sub(r"<title>.*?</title>", "", text.partition(template_text("frame.css"))[0])


def test_the_pages_of_a_map_a_report_a_study_and_the_demo_have_one_head():
    q = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0))
    pages = [
        html_of(regard.attend(q, q, q).map),
        report_page(report()),
        study_page(analyse(made(drawn(1, 2, 4)))),
        render([PageSection("One", "It is so.", Markup("<p>It is.</p>"))], regard="0"),
    ]
    assert len({head(page) for page in pages}) == 1
    assert all(template_text("frame.css") in page for page in pages)


def test_scripts_run_only_where_they_are_asked_for_and_nothing_is_ever_fetched():
    plain, scripted = html_page("a", "b"), html_page("a", "b", scripts=True)
    assert "script-src" not in plain and "script-src 'unsafe-inline'" in scripted
    for page in (plain, scripted):
        assert "default-src 'none'" in page and not re.search(r"https?:", page)


def test_words_of_a_title_and_of_facts_are_letters_and_a_body_is_left_as_it_is():
    page = html_page("<b>", "%%title%% <i>kept</i>", facts={"<u>": "a & b"}, how="Is it <so>?")
    assert "<title>&lt;b&gt; · Regard</title>" in page and "%%title%% <i>kept</i>" in page
    assert "<dt>&lt;u&gt;</dt><dd>a &amp; b</dd>" in page and "Is it &lt;so&gt;?" in page
    assert "<footer" not in html_page("a", "b")


@pytest.mark.skipif(not THEME.exists(), reason="The sources of the front end are not in an installed package.")
def test_the_colours_of_pages_are_those_of_the_components():
    def colours(text):
        light, dark = text.split("@media (prefers-color-scheme: dark)")[:2]
        return [dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", part.split("*")[0])) for part in (light, dark)]

    theme = THEME.read_text().split("css`")[1]
    for ours, theirs in zip(colours(template_text("frame.css").split("*/")[1]), colours(theme), strict=True):
        assert len(theirs) == 8 and theirs.items() <= ours.items()
