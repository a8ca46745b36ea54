"""The screenshots of docs/see/compare.md and docs/see/generation.md: python docs/make_comparisons.py [folder]."""

import shutil
import tempfile
from pathlib import Path

import torch
from make_screenshots import FOLDER, TEXT, long_map, shoot
from playwright.sync_api import Browser, Page, sync_playwright

import regard
from regard.interventions import DropHeads, MaskTokens
from regard.recording.pretrained import load_model, record_run, record_text

PROMPT = "Anna went to the market with her brother Tom. She bought apples, and Tom bought"
REVIEW = "a gripping film with wonderful acting, though the ending drags"
MARKED = {"gripping", "wonderful", "drag", "s"}


def importances(model, tokenizer, rec: regard.Record) -> dict[str, list[float]]:
    """How far the mean of the last layer moves when a head is dropped."""

    def read() -> torch.Tensor:
        with torch.no_grad():
            return model(**tokenizer(TEXT, return_tensors="pt")).last_hidden_state.mean(1)

    plain, made = read(), {}
    for name, amap in rec.maps.items():
        made[name] = []
        for head in range(amap.heads):
            with regard.intervene(model, {name: DropHeads([head])}):
                made[name].append(float((read() - plain).norm() / plain.norm()))
    return made


def pages(room: Path) -> dict[str, Path]:
    model, tokenizer = load_model("minilm")

    def run(text: str) -> regard.Record:
        return record_run(model, tokenizer, text, "minilm")[0]

    before = run(TEXT)
    with regard.intervene(model, {"*": MaskTokens([2])}):
        after = run(TEXT)
    review = run(REVIEW)
    names = next(iter(review.maps.values())).columns
    wrote = record_text("smollm2", PROMPT, generate=12)
    return {
        "without": after.save_html(
            room / "without.html", beside=before, names=("without", "with"), title="MiniLM with and without “animal”"
        ),
        "texts": run(TEXT.replace("tired", "wide").replace("The", "The old", 1)).save_html(
            room / "texts.html", beside=before, names=("wide", "tired"), title="Two sentences"
        ),
        "large": long_map().save_html(
            room / "large.html", beside=long_map(far=False), names=("far", "near"), title="8,192 tokens, twice"
        ),
        "steps": wrote.save_html(room / "steps.html", title="SmolLM2 writes twelve tokens"),
        "marks": review.save_html(
            room / "marks.html", rationale=[int(name in MARKED) for name in names], title="Marks beside weights"
        ),
        "heads": before.save_html(room / "heads.html", importance=importances(model, tokenizer, before)),
    }


def open_page(browser: Browser, file: Path, where: str = "", scheme: str = "light", high: int = 1120) -> Page:
    page = browser.new_page(viewport={"width": 1360, "height": high}, color_scheme=scheme)
    page.goto(f"{file.as_uri()}{where}")
    page.wait_for_timeout(1500)
    return page


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = pages(Path(tempfile.mkdtemp()))
    with sync_playwright() as run:
        browser = run.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = open_page(browser, made["without"], "#5,11,9,7")
        page.screenshot(path=str(FOLDER / "without_light.png"))
        for part in ("heads", "lines"):
            shoot(page, part, f"without_{part}", "light")
        shoot(open_page(browser, made["texts"], scheme="dark"), "map", "texts", "dark")
        page = open_page(browser, made["large"], scheme="dark")
        page.wait_for_timeout(1500)
        shoot(page, "map", "large_difference", "dark")
        page = open_page(browser, made["steps"], "#16,6,18,3", high=1000)
        page.screenshot(path=str(FOLDER / "generation_light.png"))
        shoot(page, "steps", "steps", "light")
        shoot(open_page(browser, made["marks"], "#5,7,0,2"), "text", "marks", "light")
        page = open_page(browser, made["heads"])
        page.locator("regard-heads select").select_option("importance")
        shoot(page, "heads", "importance", "light")
        browser.close()


if __name__ == "__main__":
    main()
