"""The figures of docs/judge/people.md and reviews.md, from what the commands on those pages print with --json:

regard people reading --json > people/reading.json
regard people scenes --out people/scenes --json > people/scenes.json
python docs/make_people_figures.py people
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from PIL import Image

import regard.data
from regard.lab.human_agreement.scenes import Looks, finer, share_of

matplotlib.use("Agg")
import matplotlib.pyplot as plt

IMAGES = Path(__file__).parent / "images" / "judge"
BLUE, AMBER, GREY = "#3b6ea5", "#d98c1f", "#777777"


def findings(file: Path) -> dict[str, Any]:
    return {one["name"]: one for one in json.loads(file.read_text(encoding="utf-8"))["findings"]}


def bars(ax: Any, rows: dict[str, Any], colour: str, shift: float = 0.0, height: float = 0.7, label: str = "") -> None:
    """Values with their intervals, the first on top."""
    places = [len(rows) - 1 - place + shift for place in range(len(rows))]
    values = [one["value"] for one in rows.values()]
    ends = [one["interval"] or (one["value"], one["value"]) for one in rows.values()]
    spread = [
        [v - e[0] for v, e in zip(values, ends, strict=True)],
        [e[1] - v for v, e in zip(values, ends, strict=True)],
    ]
    ax.barh(places, values, height, xerr=spread, color=colour, error_kw={"lw": 1, "ecolor": "#222222"}, label=label)
    ax.set_yticks([len(rows) - 1 - place for place in range(len(rows))], list(rows))


def reading(file: Path) -> None:
    found = findings(file)
    names = [name for name in found if "," not in name]
    figure, ax = plt.subplots(figsize=(7.2, 3.9), layout="constrained")
    bars(ax, {name: found[name] for name in names}, BLUE, 0.2, 0.38, "pieces of a word added up")
    left = {name: found[f"{name}, word length known"] for name in names}
    bars(ax, left, AMBER, -0.2, 0.38, "when word length is known")
    for name in ("word length", "word rarity", "BERT, published"):
        value = found["layer 1"]["baselines"][name]
        ax.axvline(value, color=GREY, lw=1, ls="--", zorder=0)
        ax.text(value, len(names) - 0.3, name, ha="center", va="bottom", fontsize=8, color="#444444")
    ax.set(xlabel="Spearman's rho with reading times, mean over sentences")
    ax.set(xlim=(0, 0.78), ylim=(-0.6, len(names) - 0.4))
    ax.legend(loc="lower right", fontsize=8, framealpha=1, edgecolor="none")
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "reading.png", dpi=120)


def scenes(folder: Path, places: tuple[int, ...] = (4, 60, 150, 210)) -> None:
    """Four photographs of the data set (MIT), small: looks, where all looked, and what was foreseen unseen.

    The photographs were chosen by number before anything was drawn.
    """
    kept = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("taught-attention-0-*.json"))]
    foreseen = {
        place: np.array(part["weights"]).reshape(len(part["held"]), 32, 32)[row]
        for part in kept
        for row, place in enumerate(part["held"])
    }
    load = regard.data.scenes()
    total = sum(share_of(Looks(one).all) for one in load)
    figure, axes = plt.subplots(4, len(places), figsize=(1.55 * len(places), 6.4), layout="constrained")
    for column, place in enumerate(places):
        scene, look = load[place], Looks(load[place])
        picture = scene.pixels()
        maps = (look.all, finer(foreseen[place]), finer(total - share_of(look.all)))
        axes[0, column].imshow(picture)
        at = np.concatenate(scene.fixations)
        axes[0, column].plot(at[:, 1], at[:, 0], ".", ms=2.5, color="#ffb000", mec="black", mew=0.15)
        for row, one in enumerate(maps, 1):
            axes[row, column].imshow(picture.mean(-1), cmap="gray", vmin=-0.2, vmax=1.2)
            axes[row, column].imshow(one, cmap="inferno", alpha=0.62, extent=(0, 256, 256, 0), interpolation="bilinear")
    for row, name in enumerate(("looks", "people", "taught attention", "other photographs")):
        axes[row, 0].set_ylabel(name, fontsize=8)
    for ax in axes.flat:
        ax.set(xticks=[], yticks=[])
    figure.savefig(IMAGES / "scenes.png", dpi=75)
    small = Image.open(IMAGES / "scenes.png").convert("RGB")
    small.quantize(200, dither=Image.Dither.NONE).save(IMAGES / "scenes.png", optimize=True)


def main(folder: Path) -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    if (folder / "reading.json").is_file():
        reading(folder / "reading.json")
    if (folder / "scenes").is_dir():
        scenes(folder / "scenes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
