"""Make docs/recording/zoo.md from the zoo's results: python tests/zoo/table.py [folder of results ...]"""

import json
import sys
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "recording" / "zoo.md"
TITLES = {
    "transformers": (
        "transformers",
        "`AutoModel.from_config` and, where there is one, `AutoModelForCausalLM.generate`",
    ),
    "testers": ("transformers", "the models of its own tests"),
    "timm": ("timm", "one model of each file"),
    "diffusers": ("diffusers", "networks of its pipelines"),
    "x_transformers": ("x-transformers", "a decoder or encoder for each option"),
    "vit_pytorch": ("vit-pytorch", "vision transformers"),
    "torch_geometric": ("torch_geometric", "layers and pooling that attend"),
    "plain": ("torch", "models without attention"),
}
Run = dict[str, Any]


def results(folders: list[Path]) -> dict[str, dict[str, dict[str, Run]]]:
    """Runs by package, model and case."""
    found: dict[str, dict[str, dict[str, Run]]] = defaultdict(dict)
    for folder in folders:
        for file in sorted(folder.glob("*.json")):
            one = json.loads(file.read_text(encoding="utf-8"))
            runs = one["runs"]
            if any(not isinstance(run, dict) for run in runs.values()):
                runs = {"": runs}
            found[one["package"]][one["name"]] = runs
    return found


def counted(run: Run) -> bool:
    return "equal" in run


def verdict(run: Run) -> str:
    """One word for a run."""
    if not counted(run):
        return "raised" if "raised while recorded" in run else "not run"
    if not run["equal"]:
        return "output changed"
    if run["wrong"]:
        return "wrong"
    if run["silent"] or run["other_silent"]:
        return "silent"
    if run["exact"] and not run["told"]:
        return "exact"
    if run["exact"] or run["told"]:
        return "exact and reported" if run["exact"] else "reported"
    return "no attention"


def summary(found: dict[str, dict[str, dict[str, Run]]]) -> list[str]:
    lines = [
        "| package | version | what | models | runs | outputs equal | attention, exact | reported | silent | wrong "
        "| entries of `rec.missed` that are attention | own weights put back, within 1e-4 |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for package, (name, what) in TITLES.items():
        runs = [run for cases in found.get(package, {}).values() for run in cases.values() if counted(run)]
        if not runs:
            continue
        models = sum(any(counted(run) for run in cases.values()) for cases in found[package].values())
        total = {
            key: sum(_size(run[key]) for run in runs) for key in ("exact", "told", "silent", "wrong", "entries", "wolf")
        }
        events = total["exact"] + total["told"] + total["silent"] + total["wrong"]
        silent = total["silent"] + sum(len(run["other_silent"]) for run in runs)
        back = [run["freeze"] for run in runs if run["freeze"] is not None]
        lines.append(
            f"| {name} | {version(name)} | {what} | {models} of {len(found[package])} | {len(runs)} "
            f"| {sum(run['equal'] for run in runs)} "
            f"| {total['exact']:,} of {events:,} ({_share(total['exact'], events)}) "
            f"| {total['told']:,} | {silent:,} | {total['wrong']:,} "
            f"| {total['entries'] - total['wolf']:,} of {total['entries']:,} "
            f"| {sum(x <= 1e-4 for x in back)} of {len(back)} |"
        )
    return lines


def _size(value: Any) -> int:
    return value if isinstance(value, int) else len(value)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"


def models_by_verdict(found: dict[str, dict[str, Run]]) -> list[str]:
    order = [
        "wrong",
        "output changed",
        "raised",
        "silent",
        "reported",
        "exact and reported",
        "exact",
        "no attention",
        "not run",
    ]
    groups: dict[str, list[str]] = defaultdict(list)
    for name, cases in found.items():
        words = {verdict(run) for run in cases.values()} or {"not run"}
        worst = next(word for word in order if word in words and (word != "not run" or words == {"not run"}))
        groups[worst].append(name)
    shown = ["exact", "exact and reported", "reported", "no attention", "silent", "wrong", "raised", "output changed"]
    shown.append("not run")
    return [f"| {word} | {len(groups[word])} | {', '.join(sorted(groups[word]))} |" for word in shown if groups[word]]


def page(found: dict[str, dict[str, dict[str, Run]]]) -> str:
    intro = (Path(__file__).parent / "page.md").read_text(encoding="utf-8")
    parts = [intro.replace("{summary}", "\n".join(summary(found))).replace("{torch}", version("torch"))]
    for package, (name, what) in TITLES.items():
        if package in found:
            parts.append(f"\n## {name}: {what}\n\n| | models | |\n|---|---|---|")
            parts += models_by_verdict(found[package])
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    folders = [Path(folder) for folder in sys.argv[1:]] or [ROOT / "build" / "zoo"]
    PAGE.write_text(page(results(folders)), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} is written.")
