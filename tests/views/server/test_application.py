"""The application in a real browser: opened, typed into, double-clicked, exported, cancelled."""

import json
import re
import time

import pytest
import torch
from tests.small_models import saved
from tests.views.accessible_tree import accessible_tree, called_alike, without_a_name
from tests.views.driving import drawn, eventually, says
from tests.views.server.conftest import TOKEN, WORDS, recorded
from torch.nn import functional as F

import regard
from regard.interventions import MaskTokens
from regard.views.server.app_state import AppState

TEXT = "a cat sat. a script"


@pytest.fixture
def state(folder, tmp_path):
    made = AppState(folder, model=str(saved(tmp_path / "small-bert")))
    while not made.loading.ended:
        time.sleep(0.02)
    assert made.session is not None, made.loading.error
    yield made
    made.close()


@pytest.fixture
def show(browser, address):
    """The application in a browser that says nothing on the console."""
    said, pages = [], []

    def open_at(token: str = TOKEN, quiet: bool = True, before=lambda page: None):
        page = browser.new_page(viewport={"width": 1300, "height": 1000})
        before(page)
        if quiet:
            page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        page.on(
            "request", lambda ask: said.append(ask.url) if not ask.url.startswith((address, "data:", "blob:")) else None
        )
        page.goto(f"{address}/?token={token}")
        pages.append(page)
        return page

    yield open_at
    for page in pages:
        page.close()
    assert said == []


def read(page, text: str = TEXT):
    """Type a text and see it."""
    says(page.locator("regard-live h2"), "Input to small-bert")
    page.locator("regard-live textarea").fill(text)
    page.get_by_role("button", name="Run", exact=True).click()
    says(page.locator("regard-text .running"), text.split()[-1])
    says(page.locator("regard-map .readout"), "attends to")
    return page


def sentence(state, *changes):
    """The mean of the tokens, computed by the model itself."""
    inputs = state.session.tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad(), regard.intervene(state.session.model, list(changes)) if changes else torch.no_grad():
        return state.session.model(**inputs).last_hidden_state[0].mean(0)


def test_the_address_with_its_token_opens_and_the_token_leaves_the_address(show, address):
    page = show()
    says(page.locator("regard-live h2"), "Input to small-bert")
    assert page.url.partition("#")[0] == f"{address}/"
    page.reload()  # the cookie lets in
    says(page.locator("regard-live h2"), "Input to small-bert")
    assert page.evaluate("document.cookie") == "", "scripts cannot read it"


def test_a_wrong_token_shows_a_plain_page_that_says_what_to_do(show):
    page = show("wrong", quiet=False)
    says(page.locator("h1"), "token required")
    says(page.locator("p"), "regard serve")


def test_a_record_of_the_folder_is_browsed_to_and_shows_its_weights(show, folder):
    page = show()
    page.get_by_role("button", name="Open …").click()
    says(page.locator("regard-records ul"), "inner/small.regard")
    page.locator("regard-records li button", has_text="run.regard").click()
    record = page.locator(".about + regard-page")
    says(record.locator("regard-map .readout"), "attends to")
    record.locator("regard-map canvas").focus()
    for key in ("PageUp", "Home", "ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    here = says(record.locator("regard-map .readout"), "“keeper” (2) attends to “the” (1)")
    choice = record.evaluate("x => x.store.choice")
    rec = regard.load(folder / "run.regard")
    expected = float(list(rec.maps.values())[choice["site"]].weights()[0, choice["head"], 2, 1])
    assert float(here.locator("b").inner_text().replace("−", "-")) == pytest.approx(expected, abs=6e-5)
    says(record.locator("regard-text .running"), WORDS[3])  # a script is text


def test_what_was_chosen_by_a_key_before_a_record_is_there_whole_stays_chosen(show):
    """Though it was what the record opened with: its first weight."""
    page, late = show(), []  # what is late are numbers of heads, by which a page finds where to open
    page.route("**/api/views/*/sites/*", lambda route: late.append(route))
    page.get_by_role("button", name="Open …").click()
    page.locator("regard-records li button", has_text="run.regard").click()
    record = page.locator(".about + regard-page")
    says(record.locator("regard-map .readout"), "attends to")
    record.locator("regard-map canvas").focus()
    page.keyboard.press("PageUp")
    says(record.locator("regard-map .readout"), "pinned")
    for request in late:
        request.continue_()
    known = "x => x.store.data.sites.every((site) => site.numbers.some((head) => 'elsewhere' in head))"
    eventually(page, lambda: record.evaluate(known))
    page.keyboard.press("ArrowRight")
    says(record.locator("regard-map .readout"), "(0) attends to")
    assert record.evaluate("x => [x.store.choice.row, x.store.choice.column]") == [0, 1]


def test_two_records_are_compared_and_the_address_leads_back_to_the_comparison(show, folder):
    recorded(words=[*WORDS[:-2], "he", "[SEP]"]).save(folder / "other.regard")
    page = show()
    page.get_by_role("button", name="Open …").click()
    page.get_by_role("button", name="run.regard").click()
    says(page.locator("regard-map .readout"), "attends to")
    others = page.get_by_label("Compare with another record")
    assert "run.regard" not in others.locator("option").all_inner_texts(), "it is not compared with itself"
    others.select_option(label="other.regard")
    says(page.locator("regard-page .sides"), "run − other")
    page.reload()
    says(page.locator("regard-page .sides"), "run − other")
    page.get_by_role("button", name="run.regard", exact=True).click()
    eventually(page, page.locator("regard-page .sides").count, 0)
    page.go_back()
    says(page.locator("regard-page .sides"), "run − other")


def test_records_that_cannot_be_compared_are_answered_by_a_sentence(show, folder):
    recorded(layers=3).save(folder / "more.regard")
    recorded(4, heads=3).save(folder / "heads.regard")
    page = show()
    page.get_by_role("button", name="Open …").click()
    page.get_by_role("button", name="more.regard").click()
    says(page.locator("regard-map .readout"), "attends to")
    page.get_by_label("Compare with another record").select_option(label="heads.regard")
    says(page.locator("[role=alert]"), "a difference needs the same number")


def test_double_clicking_a_token_shows_the_new_output_beside_the_old(show, state):
    page = read(show())
    before = sentence(state)
    says(page.locator("regard-output table"), f"{float(before.norm()):.4f}")
    page.locator("regard-text .running span", has_text="cat").dblclick()
    says(page.locator("regard-live .changes"), "“cat” (2) masked")
    after = sentence(state, MaskTokens([2]))
    near = float(F.cosine_similarity(before, after, dim=0))
    says(page.locator("regard-output .says"), f"{near:.4f}")
    table = page.locator("regard-output table").inner_text()
    assert f"{float(before.norm()):.4f}" in table and f"{float(after.norm()):.4f}" in table
    eventually(page, page.locator("regard-text .running span.masked").inner_text, "cat")
    shown = page.locator("regard-page .sides button[aria-pressed=true]")
    eventually(page, shown.inner_text, "after − before")
    page.locator("regard-page .sides button", has_text="after").first.click()
    page.locator("regard-map canvas").focus()
    for key in ("Home", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    here = says(page.locator("regard-map .readout"), "attends to “cat” (2)")
    eventually(page, here.locator("b").inner_text, "none")
    assert "before 0." in here.inner_text()
    page.get_by_role("button", name="Reset", exact=True).click()
    page.locator("regard-live .changes").wait_for(state="detached")
    says(page.locator("regard-map .readout"), "attends to")
    eventually(page, page.locator("regard-page .sides").count, 0)


def test_double_clicking_a_head_makes_it_uniform_and_changes_stack(show):
    page = read(show())
    heads = page.locator("regard-heads canvas")
    grid = "x => x.places.map(p => [p.x + x.side / 2, p.y + x.side / 2, p.site, p.head])"
    places = eventually(page, lambda: page.locator("regard-heads").evaluate(grid), lambda found: len(found) == 4)
    x, y = next(place for *place, site, head in places if (site, head) == (1, 0))
    heads.dblclick(position={"x": x, "y": y})
    says(page.locator("regard-live .changes"), "head 1.0 uniform")
    page.locator("regard-page .sides button", has_text="after").first.click()
    page.locator("regard-page select[aria-label=Layer]").select_option("1")
    page.locator("regard-page select[aria-label=Head]").select_option("0")
    here = says(page.locator("regard-map .readout"), "attends to")
    says(page.locator("regard-map .readout b"), "0.1250")  # eight tokens
    says(here, "after 0.1250")
    page.locator("regard-lines canvas").dblclick(position={"x": 40, "y": 26 + 3.5 * 21})
    says(page.locator("regard-live .changes"), "“sat” (3) masked")
    says(page.locator("regard-map .readout b"), "0.1429")  # seven are left
    page.get_by_role("button", name="Undo").click()
    says(page.locator("regard-map .readout b"), "0.1250")
    eventually(page, page.locator("regard-live .changes").inner_text, lambda said: "sat" not in said)


def test_what_is_chosen_can_be_changed_without_a_pointer(show):
    page = read(show())
    page.locator("regard-map canvas").focus()
    for key in ("PageUp", "Home", "ArrowRight"):
        page.keyboard.press(key)
    page.get_by_role("button", name="mask “a”").press("Enter")
    says(page.locator("regard-live .changes"), "“a” (1) masked")


def test_an_export_reads_back_as_what_was_seen(show, tmp_path, browser):
    page = read(show())
    page.locator("regard-text .running span", has_text="cat").dblclick()
    says(page.locator("regard-live .changes"), "masked")
    says(page.locator("regard-page .sides"), "after")
    page.locator("summary", has_text="Export").click()
    with page.expect_download() as coming:
        page.get_by_role("button", name="HTML page, all sites").click()
    coming.value.save_as(tmp_path / "page.html")
    data = re.search(r'id="regard-data">(.*?)</script>', (tmp_path / "page.html").read_text(), re.DOTALL)[1]
    made = json.loads(data)
    assert made["beside"]["names"] == ["after", "before"] and made["sites"][0]["rows"][2] == "cat"
    page.locator("summary", has_text="Export").click()
    with page.expect_download() as coming:
        page.get_by_role("button", name="Record file").click()
    coming.value.save_as(tmp_path / "run.regard")
    rec = regard.load(tmp_path / "run.regard")
    for amap in rec.maps.values():
        assert amap.rows[2] == "cat" and torch.equal(amap.weights()[..., 2], torch.zeros(1, 2, 8))


def test_escape_closes_the_menu_of_exports_and_goes_back_to_its_button(show):
    page = read(show())
    menu, button = page.locator("regard-app details"), page.locator("summary", has_text="Export")
    opened = "menu => menu.open"
    focused = "document.querySelector('regard-app').shadowRoot.activeElement?.textContent"
    for way_in in ("Export", "Record file"):  # where the keyboard is: on the menu's button, within the menu
        button.click()
        assert menu.evaluate(opened)
        page.locator("regard-app details").get_by_text(way_in).focus()
        page.keyboard.press("Escape")
        eventually(page, lambda: menu.evaluate(opened), False)
        assert page.evaluate(focused) == "Export"
    button.click()
    page.locator("regard-live textarea").click()
    eventually(page, lambda: menu.evaluate(opened), False)
    button.click()
    page.locator("regard-app .name").click()  # where nothing takes the keyboard
    eventually(page, lambda: menu.evaluate(opened), False)


def test_something_slow_is_cancelled_while_the_page_goes_on(show, state):
    page = read(show())

    def held(*_):  # as slow as somebody is who says that it need not go on
        next(job for job in state.jobs.active() if job.says.startswith("Running the model"))._stop.wait(60)

    hook = state.session.model.register_forward_pre_hook(held)
    page.locator("regard-live textarea").fill("a cat sat. a cat sat.")
    page.get_by_role("button", name="Run", exact=True).click()
    says(page.locator("regard-app .job"), "Running the model")
    page.get_by_role("button", name="Open …").click()
    says(page.locator("regard-records ul"), "run.regard")
    page.get_by_role("button", name="Live: small-bert").click()
    page.get_by_role("button", name="Cancel").click()
    says(page.locator("regard-live .hint.bad"), "Stopped.")
    hook.remove()
    eventually(page, state.jobs.active, [])
    assert "script" in page.locator("regard-text .running").inner_text(), "the old picture stays"
    read(page, "a sat cat")


@pytest.mark.parametrize("text", ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)> a"])
def test_a_text_that_is_html_is_text(show, text):
    page = show()
    says(page.locator("regard-live h2"), "Input to small-bert")
    page.locator("regard-live textarea").fill(text)
    page.get_by_role("button", name="Run", exact=True).click()
    says(page.locator("regard-text .running"), "<")
    assert page.locator("regard-page img").count() == 0


def test_who_opens_the_list_of_records_before_anything_is_known_stays_there_and_is_told_what_is_wrong(
    browser, address, tmp_path
):
    page = browser.new_page()
    held = []
    page.route("**/api/state", lambda route: held.append(route) if len(held) < 2 else route.continue_())
    page.goto(f"{address}/?token={TOKEN}")
    page.get_by_role("button", name="Open …").click()
    (tmp_path / "bad.regard").write_bytes(b"PK\x03\x04" + bytes(100))
    page.locator("input[type=file]").set_input_files(tmp_path / "bad.regard")
    says(page.locator("regard-app .problem"), "it is a zip archive")
    for route in held:
        route.continue_()
    says(page.locator("nav"), "Live: small-bert")
    assert page.locator("regard-records").is_visible()
    says(page.locator("regard-app .problem"), "it is a zip archive")
    page.close()


def test_a_record_is_sent_and_one_that_is_none_is_refused_with_its_sentence(show, folder, tmp_path):
    page = show()
    page.get_by_role("button", name="Open …").click()
    (tmp_path / "bad.regard").write_bytes(b"PK\x03\x04" + bytes(100))
    page.locator("input[type=file]").set_input_files(tmp_path / "bad.regard")
    says(page.locator("regard-app .problem"), "bad.regard cannot be read as a record: it is a zip archive")
    (tmp_path / "mine.regard").write_bytes((folder / "run.regard").read_bytes())
    page.locator("input[type=file]").set_input_files(tmp_path / "mine.regard")
    says(page.locator(".about + regard-page").locator("regard-map .readout"), "attends to")
    mine = page.get_by_role("button", name="mine.regard", exact=True)
    eventually(page, lambda: mine.get_attribute("aria-pressed"), "true")


def holding(page, which):
    """Answers that do not come before they are let go: those of which this is so."""
    held = []
    page.route(
        re.compile(r"/api/views/\w+/sites/\d+$"),
        lambda route: held.append(route) if which(route.request.url) else route.continue_(),
    )
    return held


def test_what_is_chosen_before_a_record_is_wholly_there_stays_chosen(show):
    page = show()
    held = holding(page, lambda _: True)
    page.get_by_role("button", name="Open …").click()
    page.locator("regard-records li button", has_text="run.regard").click()
    record = page.locator(".about + regard-page")
    says(record.locator("regard-map .readout"), "attends to")
    record.locator("regard-map canvas").focus()
    for key in ("PageUp", "Home", "ArrowDown", "ArrowRight", "h"):
        page.keyboard.press(key)
    eventually(page, lambda: len(held), 4)  # of this record, and of the text that is read at the start
    before = record.evaluate("x => x.store.choice")
    for route in held:
        route.continue_()
    says(record.locator("regard-heads p"), "entropy")
    drawn(page, ".about + regard-page")
    assert record.evaluate("x => x.store.choice") == before
    assert [before[name] for name in ("head", "row", "column", "pinned")] == [1, 1, 1, True]


def test_a_reading_that_comes_late_does_not_replace_the_one_that_was_asked_for_after_it(show):
    views = []

    def first(url):
        views.append(url.split("/")[-3])
        return views[-1] == views[0]

    page = show(before=lambda page: setattr(page, "held", holding(page, first)))
    eventually(page, lambda: len(page.held) > 0)
    read(page)
    with page.expect_request(lambda ask: ask.method == "DELETE" and views[0] in ask.url):  # it is left
        for route in page.held:
            route.continue_()
    drawn(page, "regard-page")
    says(page.locator("regard-text .running"), TEXT.split()[-1])


def test_a_screen_reader_has_a_name_of_its_own_for_every_control(show, folder):
    recorded(words=WORDS).save(folder / "other.regard")
    page = read(show())
    page.locator("regard-map canvas").focus()
    for key in ("PageUp", "Home", "ArrowDown"):
        page.keyboard.press(key)
    says(page.locator("regard-why section"), "cut it")
    page.locator("regard-text .running span", has_text="cat").dblclick()
    says(page.locator("regard-live .changes"), "masked")
    says(page.locator("regard-page .sides"), "after")
    page.locator("summary", has_text="Export").click()
    assert without_a_name(page) == []
    twice = set(called_alike(page)) - {"PNG", "CSV", "SVG"}  # in groups whose names say of what
    assert not twice
    tree = accessible_tree(page)
    assert {part.name for part in tree if part.role == "heading"} >= {"Regard", "Input to small-bert", "Why?"}
    assert "Text for the model" in [part.name for part in tree if part.role == "textbox"]
    assert page.title() == "small-bert · Regard"
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Open …").click()
    page.get_by_role("button", name="run.regard").click()
    says(page.locator(".about + regard-page regard-map .readout"), "attends to")
    page.get_by_label("Compare with another record").select_option(label="other.regard")
    says(page.locator(".about + regard-page .sides"), "run − other")
    assert without_a_name(page) == []
    assert page.title() == "run.regard − other.regard · Regard"


def test_on_a_phone_nothing_is_wider_than_the_screen_and_a_tab_keeps_its_cross(show, folder):
    page = show(before=lambda page: page.set_viewport_size({"width": 390, "height": 844}))
    page.get_by_role("button", name="Open …").click()
    page.get_by_role("button", name="run.regard").click()
    says(page.locator("regard-map .readout"), "attends to")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    name, cross = page.locator("nav span").first.locator("button").all()
    assert abs(name.bounding_box()["y"] - cross.bounding_box()["y"]) < 2
    assert page.locator("nav").bounding_box()["width"] > 300, "the views have a row of their own"
