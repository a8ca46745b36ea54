"""The screenshots of docs/see/, made with a system Chromium: python docs/make_screenshots.py [folder]."""

import shutil
import sys
import tempfile
from pathlib import Path

import torch
from playwright.sync_api import Page, sync_playwright

import regard
from regard.recording.pretrained import record_text
from regard.views.page import html_of, write_file

TEXT = "The animal did not cross the street because it was too tired."
FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "images" / "see")


def long_map(n: int = 8192, far: bool = True) -> regard.AttentionMap:
    """A map that no other viewer opens: rotary-like bands, a sink, and pairs that look far back."""
    torch.manual_seed(0)
    place = torch.arange(n)[:, None]
    angle = place / 10_000 ** torch.linspace(0, 1, 32)
    wave = torch.cat([angle.cos(), angle.sin()], -1)
    q, k = (1.5 * (wave + 0.3 * torch.randn(n, 64)) for _ in range(2))
    k[0] = 2.2 * q.mean(0)
    if far:
        q[4000:4600] += 3 * torch.randn(64)
        k[1200:1500] += 0.5 * (q[4000:4600].mean(0))
    return regard.attend(q[None], k[None], k[None, :, :1], over=regard.Causal()).map


def shoot(page: Page, part: str, name: str, scheme: str) -> None:
    page.wait_for_timeout(300)
    page.locator(f"section:has(regard-{part})").screenshot(path=str(FOLDER / f"{name}_{scheme}.png"))


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    room = Path(tempfile.mkdtemp())
    rec = record_text("minilm", TEXT, "qk", None, "*", 0, False, lambda sentence: None)
    small = write_file(html_of(rec, title="MiniLM"), room / "small.html")
    large = long_map().save_html(room / "large.html", title="8,192 tokens")
    with sync_playwright() as run:
        browser = run.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            look = {"viewport": {"width": 1360, "height": 1120}, "color_scheme": scheme}
            page = browser.new_page(**look, device_scale_factor=1)
            page.goto(f"{small.as_uri()}#5,11,9,2")
            page.wait_for_timeout(900)
            page.screenshot(path=str(FOLDER / f"page_{scheme}.png"))
            for part in ("text", "lines"):
                shoot(page, part, part, scheme)
            page.locator("regard-heads select").select_option("entropy")
            shoot(page, "heads", "heads", scheme)
            page.close()
            page = browser.new_page(**look)
            page.goto(f"{large.as_uri()}#0,0,4310,1350")
            page.wait_for_timeout(2500)
            shoot(page, "map", "long", scheme)
            page.locator("regard-map canvas").focus()
            page.keyboard.press("Enter")
            page.locator("regard-map label", has_text="visible range").locator("input").check()
            page.wait_for_timeout(500)
            shoot(page, "map", "close", scheme)
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
