"""Judges a transformer that was taught SST, and draws the figures of docs/judge/minilm.md.

    regard train minilm -o minilm-sst
    python docs/make_minilm.py minilm-sst found/       judges, and keeps the findings of each test in found/
    python docs/make_minilm.py minilm-sst found/ cuda 1821      the same on a GPU, every test on so many sentences
    python docs/make_minilm.py found/                  draws them, and prints the tables of the page

Tests whose findings are kept are not run again.
"""

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from torch import Tensor

from regard.cli.inputs.judge_inputs import ready
from regard.judging import Adapter, Finding, from_json, to_json
from regard.judging.adapters.inputs import Inputs
from regard.judging.attribution.importance import IMPORTANCES, Importance
from regard.judging.tests.ablation import ablation
from regard.judging.tests.adversarial import adversary
from regard.judging.tests.agreement import Matrix, agreement, matrix
from regard.judging.tests.correlation import correlation
from regard.judging.tests.faithfulness import faithfulness_of_all
from regard.judging.tests.infidelity import infidelity
from regard.judging.tests.layers import adversary_of_all_layers, layers, removals
from regard.judging.tests.permutation import permutation
from regard.judging.tests.task_performance import task
from regard.recording.io.writing import write_whole

IMAGES = Path(__file__).parent / "images" / "judge"
COUNTS = {
    "task": None,
    "correlation": 100,
    "permutation": 100,
    "infidelity": 50,
    "agreement": 50,
    "importances": 50,
    "ablation": 50,
    "layers": 50,
    "removals": 50,
    "adversary": 20,
    "everywhere": 20,
}
SEARCH = {"starts": 2, "steps": 100, "rate": 0.1}

TESTS: dict[str, Callable[..., list[Finding]]] = {
    "task": task,
    "correlation": correlation,
    "permutation": permutation,
    "infidelity": infidelity,
    "agreement": agreement,
    "importances": faithfulness_of_all,
    "ablation": ablation,
    "adversary": lambda adapter: adversary(adapter, **SEARCH),
    "everywhere": lambda adapter: adversary_of_all_layers(adapter, **SEARCH),
    "layers": layers,
    "removals": removals,
}


def kept_in_mind(measure: Importance) -> Importance:
    """Three tests ask for the same importances of the same texts: they are found once."""
    known: dict[bytes, Tensor] = {}

    def find(adapter: Adapter, inputs: Inputs) -> Tensor:
        key = inputs.tokens.cpu().numpy().tobytes()
        if key not in known:
            known[key] = measure(adapter, inputs)
        return known[key]

    return find


def judge(folder: str, kept: Path, device: str = "cpu", count: int | None = None) -> None:
    kept.mkdir(exist_ok=True)
    IMPORTANCES.update({name: kept_in_mind(measure) for name, measure in IMPORTANCES.items()})
    for name, test in TESTS.items():
        file = kept / f"{name}.json"
        if not file.exists():
            adapter, _ = ready(
                folder, "sst", limit=count or COUNTS[name], size=16 if device == "cpu" else 128, device=device
            )
            found = test(adapter)
            write_whole(file, [to_json(found).encode()])
            print(f"{name}: {len(found)} findings", flush=True)


def read(kept: Path) -> dict[str, dict[str, Finding]]:
    """Findings by test and name."""
    return {
        name: {one.name: one for one in from_json((kept / f"{name}.json").read_text(encoding="utf-8"))}
        for name in TESTS
        if (kept / f"{name}.json").exists()
    }


def draw(found: dict[str, dict[str, Finding]]) -> None:
    """The figures of the page."""
    if "agreement" in found:
        _save("agreement", _matrix(matrix(found["agreement"].values())))
    if "importances" in found:
        _save("erasure", _erasure(found["importances"]))
    if "layers" in found:
        _save("layers", _layers(found["layers"]))
    if "ablation" in found:
        _save("heads", _heads(found["ablation"]))


def _matrix(table: Matrix) -> plt.Figure:
    figure, ax = plt.subplots(figsize=(7.2, 6.2), layout="constrained")
    image = ax.imshow(table.tau, cmap="RdBu_r", vmin=-1, vmax=1)
    for i, row in enumerate(table.tau):
        for j, tau in enumerate(row):
            ax.text(
                j,
                i,
                f"{tau:.2f}".replace("0.", "."),
                ha="center",
                va="center",
                fontsize=8,
                color="white" if abs(tau) > 0.6 else "black",
            )
    ax.set_xticks(range(len(table.names)), table.names, rotation=40, ha="right", fontsize=9)
    ax.set_yticks(range(len(table.names)), table.names, fontsize=9)
    figure.colorbar(image, label="Kendall tau-b, mean of sentences", shrink=0.8)
    return figure


def _erasure(found: dict[str, Finding]) -> plt.Figure:
    names = [name.partition(" of ")[2] for name in found if name.startswith("comprehensiveness")]
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
    for ax, what, says in zip(
        axes, ("comprehensiveness", "sufficiency"), ("higher is better", "lower is better"), strict=True
    ):
        for place, name in enumerate(names):
            one = found[f"{what} of {name}"]
            ax.plot(one.interval, [place, place], color="#4477aa", lw=2)
            ax.plot(one.value, place, "o", color="#4477aa")
        ax.axvline(one.baselines["random"], color="#888888", ls="--", lw=1)
        ax.text(one.baselines["random"], -0.8, "random", ha="center", va="bottom", fontsize=8, color="#444444")
        ax.set(xlabel=f"{what}, {says}")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(range(len(names)), names)
    axes[0].set_ylim(len(names) - 0.5, -1)
    return figure


def _layers(found: dict[str, Finding]) -> plt.Figure:
    figure, axes = plt.subplots(2, 2, figsize=(9, 5.2), sharex=True, layout="constrained")
    ends = {" and gradient": "tau with the gradient", " and leave one out": "tau with leave one out"}
    panels = [(f"tau of {{}}{end}", says) for end, says in ends.items()]
    panels += [("comprehensiveness of {}", "comprehensiveness"), ("sufficiency of {}", "sufficiency (lower is better)")]
    names = [name.removeprefix("sufficiency of ") for name in found if name.startswith("sufficiency")]
    for ax, (pattern, says) in zip(axes.flat, panels, strict=True):
        some = [found[pattern.format(name)] for name in names]
        for place, one in enumerate(some):
            ax.plot([place, place], one.interval, color="#4477aa", lw=2)
            ax.plot(place, one.value, "o", color="#4477aa")
            ax.plot([place - 0.3, place + 0.3], [one.baselines["random"]] * 2, color="#888888", ls="--", lw=1)
        ax.set_title(says, fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[-1]:
        ax.set_xticks(range(len(names)), [name.removesuffix(" of layers").removeprefix("layer ") for name in names])
        ax.set_xlabel("layer; all: mean, rollout. Dashed: random")
    return figure


def _heads(found: dict[str, Finding]) -> plt.Figure:
    """How far the prediction moves without each head."""
    moved = {name: one for name, one in found.items() if name.startswith("head ")}
    places = {name: tuple(int(x) for x in re.findall(r"\d+", name)[:2]) for name in moved}  # head, layer
    table = np.zeros([1 + max(place[at] for place in places.values()) for at in (1, 0)])
    for name, (head, layer) in places.items():
        table[layer, head] = moved[name].value
    figure, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    image = ax.imshow(table, cmap="Blues", vmin=0)
    ax.set(xlabel="head", ylabel="layer", xticks=range(table.shape[1]), yticks=range(table.shape[0]))
    figure.colorbar(image, label="total variation without it")
    return figure


def _save(name: str, figure: plt.Figure) -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=130)
    plt.close(figure)
    Image.open(drawn).convert("RGB").quantize(255, dither=Image.Dither.NONE).save(
        IMAGES / f"minilm_{name}.png", optimize=True
    )


def tables(found: dict[str, dict[str, Finding]]) -> None:
    """Every finding as a row, for the page."""
    for test, by_name in found.items():
        print(f"\n{test}\n")
        for one in by_name.values():
            ends = "" if one.interval is None else f"{one.interval[0]:.3f} to {one.interval[1]:.3f}"
            beside = ", ".join(f"{name} {value:.3f}" for name, value in one.baselines.items() if value is not None)
            print(f"| {one.name} | {one.value:.3f} | {ends} | {beside} | {one.n} |")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        judge(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:4], *map(int, sys.argv[4:]))
    kept = read(Path(sys.argv[min(2, len(sys.argv) - 1)]))
    draw(kept)
    tables(kept)
