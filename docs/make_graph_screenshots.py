"""The screenshots of docs/see/graphs.md and docs/see/images.md: python docs/make_graph_screenshots.py [folder].

Needs a system Chromium and, for Cora, the data sets in REGARD_DATA.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import torch
from playwright.sync_api import Page, sync_playwright
from sklearn.datasets import load_sample_image

import regard
from regard.data import planetoid
from regard.lab.demo.digits import Digits, trained
from regard.lab.demo.karate import Club, fitted
from regard.models.training.node_training import Recipe, train
from regard.views import GraphNodes, Picture

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "images" / "see")
CORA = [
    "theory",
    "reinforcement learning",
    "genetic algorithms",
    "neural networks",
    "probabilistic methods",
    "case-based",
    "rule learning",
]
SIDE = 20  # pixels along a patch of the photograph


def karate(room: Path) -> Path:
    club = Club.load()
    model = fitted(club, "attention", 0)
    with torch.no_grad(), regard.record(model) as rec:
        model(torch.eye(34), club.edge_index)
    sides = ["the instructor's side" if side == 0 else "the administrator's side" for side in club.sides.tolist()]
    nodes = GraphNodes(names=range(1, 35), classes=sides, places=club.places)
    return rec.save_html(room / "karate.html", title="A karate club, as a GAT sees it", nodes=nodes)


def cora(room: Path) -> Path:
    task = planetoid("cora")
    model, reached = train("gat", task, recipe=Recipe(epochs=200))
    print(f"Cora: {reached.test:.3f} of the test papers after {reached.epochs} epochs")
    model.eval()
    with torch.no_grad(), regard.record(model) as rec:
        model(task.x, task.edge_index)
    nodes = GraphNodes(classes=[f"{CORA[y]}" for y in task.y.tolist()])
    return rec.save_html(room / "cora.html", title="Cora: 2,708 papers and what they cite", nodes=nodes)


def digit(room: Path) -> Path:
    data = Digits.load()
    rows, test = data.split(0)
    reader = trained(data, rows, 0, "softmax", False, epochs=30)
    one = test[(data.labels[test] == 5).nonzero()[3, 0]]
    with torch.no_grad(), regard.record(reader) as rec:
        answer = reader(data.patches[one][None])[0].argmax()
    print(f"digit {int(data.labels[one])}, read as {int(answer)}")
    picture = Picture(data.images[one].numpy(), grid=(4, 4), skip=0)
    return rec.save_html(room / "digit.html", title=f"A handwritten {int(data.labels[one])}", image=picture)


def flower(room: Path) -> Path:
    photo = load_sample_image("flower.jpg")
    rows, columns = photo.shape[0] // SIDE, photo.shape[1] // SIDE
    pixels = torch.tensor(photo[: rows * SIDE, : columns * SIDE].copy()).float() / 255
    patches = pixels.reshape(rows, SIDE, columns, SIDE, 3).transpose(1, 2).reshape(rows * columns, -1, 3)
    x = torch.cat([patches.mean(1), patches.std(1)], -1)
    x = (x - x.mean(0)) / x.std(0)
    amap = regard.attend(x[None], x[None], x[None], score="gaussian").map
    picture = Picture(photo, grid=(rows, columns), patch=SIDE, boxes=[(166, 78, 446, 362, "flower")])
    return amap.save_html(room / "flower.html", title="Patches that look alike", image=picture)


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    room = Path(tempfile.mkdtemp())
    pages = {make.__name__: make(room) for make in (karate, cora, digit, flower)}
    with sync_playwright() as run:
        browser = run.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])

        def opened(name: str, scheme: str, hash: str = "", wait: int = 2500) -> Page:
            page = browser.new_page(viewport={"width": 1360, "height": 1120}, color_scheme=scheme)
            page.goto(pages[name].as_uri() + hash)
            page.wait_for_timeout(wait)
            return page

        def shoot(page: Page, part: str, name: str) -> None:
            page.locator(f"section:has(regard-{part})").screenshot(path=str(FOLDER / f"{name}.png"))
            page.close()

        opened("karate", "dark").screenshot(path=str(FOLDER / "graph_page_dark.png"))
        shoot(opened("karate", "light", "#1,0,2,32"), "graph", "graph_near_light")
        shoot(opened("cora", "dark", wait=9000), "graph", "graph_cora_dark")
        shoot(opened("digit", "light", "#1,0,0,0"), "image", "image_digit_light")
        page = opened("flower", "dark", "#0,0,303,303")
        page.mouse.move(5, 5)
        shoot(page, "image", "image_flower_dark")
        browser.close()


if __name__ == "__main__":
    main()
