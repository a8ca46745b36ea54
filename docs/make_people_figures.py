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
    ax.set(
        xlabel="Spearman's rho with reading times, mean over sentences", xlim=(0, 0.78), ylim=(-0.6, len(names) - 0.4)
    )
    ax.legend(loc="lower right", fontsize=8, framealpha=1, edgecolor="none")
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "reading.png", dpi=120)


def main(folder: Path) -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name, draw in (("reading", reading),):
        if (folder / f"{name}.json").is_file():
            draw(folder / f"{name}.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
