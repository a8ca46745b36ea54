"""Fingers on a map: one moves it, two zoom it, a tap holds a weight."""

import pytest
import torch
from tests.views.driving import MAP, choice, drawn, eventually, spot, until

import regard


def fingers(page, kind: str, *spots: tuple[float, float]) -> None:
    points = [{"x": x, "y": y, "id": at} for at, (x, y) in enumerate(spots)]
    page.touch = getattr(page, "touch", None) or page.context.new_cdp_session(page)
    page.touch.send("Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": points})
    drawn(page)


def view(page) -> dict:
    return page.evaluate(f"{MAP}.view")


@pytest.fixture
def page(opened):
    torch.manual_seed(0)
    q = torch.randn(1, 1, 60, 8)
    return opened(regard.attend(q, q, q).map, touch=True)


def test_two_fingers_pinch_and_what_is_under_them_stays_there(page):
    x, y = spot(page, 30, 30)
    before = view(page)
    fingers(page, "Start", (x - 20, y), (x + 20, y))
    for far in (30, 45, 60):
        fingers(page, "Move", (x - far, y), (x + far, y))
    fingers(page, "End")
    eventually(page, lambda: view(page)["scale"], pytest.approx(3 * before["scale"], rel=0.02))
    assert spot(page, 30, 30) == pytest.approx((x, y), abs=2)
    assert not choice(page)["pinned"]  # a pinch is no tap


def test_one_finger_moves_a_map_that_is_close(page):
    page.locator("regard-map canvas").focus()
    for _ in range(4):
        page.keyboard.press("+")
    until(page, "view.scale > 30")
    drawn(page)
    before = view(page)
    x, y = spot(page, *(choice(page)[key] for key in ("row", "column")))
    fingers(page, "Start", (x, y))
    for step in range(1, 5):
        fingers(page, "Move", (x - 15 * step, y - 10 * step))
    fingers(page, "End")
    wanted = {**before, **{way: before[way] + far / before["scale"] for way, far in (("x", 60), ("y", 40))}}
    eventually(page, lambda: view(page), pytest.approx(wanted, abs=0.2))
    assert view(page)["scale"] == before["scale"]


def test_a_tap_holds_a_weight(page):
    page.touchscreen.tap(*spot(page, 12, 40))
    eventually(page, lambda: [choice(page)[name] for name in ("row", "column", "pinned")], [12, 40, True])
