"""A generation on a page, step by step, against the attention of each step as torch computes it."""

from functools import cache

import pytest
import torch
from tests.views.driving import choice, eventually, number, says

import regard
from regard.views.page import maps_of, page_data
from regard.views.payload.site_payload import join_steps

PROMPT, WROTE = ["The", " cat", " <b>sat</b>", " on"], [" the", " mat", "."]


def generated(heads=2) -> tuple[regard.Record, list[torch.Tensor]]:
    """Four tokens are read, then each step attends to all before it; and the weights of each row that wrote."""
    torch.manual_seed(0)
    x = 1.5 * torch.randn(1, heads, 7, 8)
    attend = torch.nn.functional.scaled_dot_product_attention
    with regard.record() as rec:
        attend(x[:, :, :4], x[:, :, :4], x[:, :, :4], is_causal=True)
        for m in (5, 6, 7):
            attend(x[:, :, m - 1 : m], x[:, :, :m], x[:, :, :m])
    rows = [torch.softmax(x[0, :, m - 1 : m] @ x[0, :, :m].mT / 8**0.5, -1)[:, 0] for m in (4, 5, 6, 7)]
    return rec.label(tokens=PROMPT + WROTE), rows


@cache
def translated():
    """An encoder-decoder that writes five tokens."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=50, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, decoder_start_token_id=0
    )
    model = transformers.T5ForConditionalGeneration(config).eval()
    with regard.record(model) as rec:
        model.generate(torch.arange(3, 9)[None], max_new_tokens=5, min_new_tokens=5, do_sample=False)
    rec.label(tokens=[f"s{i}" for i in range(6)])
    return rec.label(tokens=["<pad>", *(f"t{i}" for i in range(5))], side="target")


def test_a_token_is_written_by_the_row_before_it():
    rec, _ = generated()
    (site,) = page_data(rec)[0]["sites"]
    assert site["steps"] == {"first": 3, "written": [*WROTE, None]}


def test_a_map_that_is_no_generation_has_no_steps():
    with regard.record() as rec:
        q = torch.randn(1, 2, 5, 4)
        torch.nn.functional.scaled_dot_product_attention(q, q, q)
    assert "steps" not in page_data(rec)[0]["sites"][0]


def test_the_steps_of_an_encoder_decoder_are_those_of_its_decoder():
    sites = {site["site"]: site for site in page_data(translated())[0]["sites"]}
    for name, site in sites.items():
        if name.startswith("encoder"):
            assert "steps" not in site
        else:
            assert site["steps"] == {"first": 0, "written": ["t0", "t1", "t2", "t3", None]}
    groups = join_steps(maps_of(translated()))
    assert [len(group) for group in groups.values()] == [1, 5, 5]


# in a browser


def weights_shown(page) -> list[float]:
    text = page.locator("regard-steps p.running").first
    return [number(token.get_attribute("title")) for token in text.locator("span").all()]


def test_each_step_shows_what_the_new_token_attended_to(opened):
    rec, rows = generated()
    page = opened(rec)
    page.locator("regard-steps .steps").focus()
    page.keyboard.press("Home")
    for step, row in enumerate(rows):
        wanted = torch.nn.functional.pad(row.mean(0), (0, 7 - row.shape[-1]))
        eventually(page, lambda: weights_shown(page), pytest.approx(wanted.tolist(), abs=6e-5))
        wrote = "…" if step == 3 else f"“{WROTE[step].strip()}”"
        eventually(page, page.locator("regard-steps .now").inner_text, f"step {step + 1} of 4: wrote {wrote}")
        assert choice(page)["row"] == 3 + step  # shared with the map, the lines and the text
        new = page.locator("regard-steps span.new")
        assert (new.inner_text() == WROTE[step].strip()) if step < 3 else new.count() == 0
        page.keyboard.press("ArrowRight")
    assert "<b>sat</b>" in page.locator("regard-steps p.running").inner_text()
    page.locator("regard-steps label", has_text="mean over 2 heads").locator("input").uncheck()
    wanted = rows[3][choice(page)["head"]].tolist()
    eventually(page, lambda: weights_shown(page), pytest.approx(wanted, abs=6e-5))


def test_steps_play_pause_slide_and_go_where_a_token_is_clicked(opened):
    page = opened(generated()[0])
    row = lambda: choice(page)["row"]  # noqa: E731
    page.locator("regard-steps p.running span", has_text="mat").click()
    eventually(page, row, 4)
    play = page.locator("regard-steps button.play")
    page.clock.install(time=0)
    page.clock.pause_at(3600)  # from here on time goes on when it is told to, and else never
    play.click()
    pressed = lambda: play.get_attribute("aria-pressed")  # noqa: E731
    eventually(page, pressed, "true")
    for at in (5, 6, 6):
        page.clock.run_for(800)
        eventually(page, row, at)
    eventually(page, pressed, "false")  # the end
    play.click()
    eventually(page, pressed, "true")
    page.clock.run_for(800)
    eventually(page, lambda: (pressed(), row()), ("true", 4))  # from the beginning
    play.click()
    eventually(page, pressed, "false")
    page.clock.run_for(5000)
    assert (pressed(), row()) == ("false", 4)
    page.locator("regard-steps input[type=range]").fill("0")
    eventually(page, row, 3)
    page.locator("regard-steps .steps").focus()
    for _ in range(9):
        page.keyboard.press("ArrowRight")
    eventually(page, row, 6)
    page.keyboard.press("Home")
    eventually(page, row, 3)


def test_cross_attention_is_shown_on_the_source_and_what_was_written_stands_below(opened):
    rec = translated()
    page = opened(rec)
    names = [site["site"] for site in page_data(rec)[0]["sites"]]
    cross = next(i for i, name in enumerate(names) if "EncDec" in name)
    page.locator("regard-page select[aria-label=Layer]").select_option(str(cross))
    page.locator("regard-steps .steps").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    steps = [amap for name, amap in rec.maps.items() if "EncDec" in name]
    wanted = steps[1].weights()[0, :, 0].mean(0).tolist()
    eventually(page, lambda: weights_shown(page), pytest.approx(wanted, abs=6e-5))
    eventually(page, page.locator("regard-steps .written span.new").inner_text, "t1")
    once = next(i for i, name in enumerate(names) if name.startswith("encoder"))
    page.locator("regard-page select[aria-label=Layer]").select_option(str(once))
    says(page.locator("regard-steps small"), "This site was called once")


def test_a_page_without_a_generation_has_no_steps(opened):
    q = torch.randn(1, 2, 5, 4)
    assert opened(regard.attend(q, q, q).map).locator("regard-steps").count() == 0
