"""Make docs/recording/zoo.md from the zoo's results: python tests/zoo/table.py [folder of results ...] [--keep]

With --keep, models and packages that have no result in the folders stay on the page as they were, with their rows.
"""

import json
import re
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


def earlier(text: str) -> dict[str, dict[str, str]]:
    """Verdicts by title and model, of a page that was made before."""
    kept: dict[str, dict[str, str]] = {}
    for section in text.split("\n## ")[1:]:
        title, _, rest = section.partition("\n")
        rows = re.findall(r"^\| ([\w ]+) \| \d+ \| (.*) \|$", rest, re.MULTILINE)
        kept[title.strip()] = {name: word for word, names in rows for name in names.split(", ")}
    return kept


def rows_of(text: str, package: str, what: str) -> list[str]:
    """The rows of a package in the summary of a page that was made before."""
    rows = re.findall(r"^\| [\w-]+ \| [\d.+a-z]+ \| .* \|$", text, re.MULTILINE)
    ours = [row for row in rows if row.startswith(f"| {package} |")]
    start = next((i for i, row in enumerate(ours) if f"| {what} |" in row), None)
    if start is None:
        return []
    end = next((i for i, row in enumerate(ours) if i > start and "| the same" not in row), len(ours))
    return ours[start:end]


def summary(found: dict[str, dict[str, dict[str, Run]]], before: str = "") -> list[str]:
    kept = earlier(before)
    lines = [
        "| package | version | what | models | runs | outputs equal | attention, exact | reported | silent | wrong "
        "| entries of `rec.missed` that are attention | own weights put back, within 1e-4 |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for package, (name, what) in TITLES.items():
        runs = [run for cases in found.get(package, {}).values() for run in cases.values() if counted(run)]
        stays = set(kept.get(f"{name}: {what}", {})) - set(found.get(package, {}))
        old = rows_of(before, name, what) if stays else []
        lines += old
        if not runs:
            continue
        again = f"the same, {len(found[package])} models run later"
        models = sum(any(counted(run) for run in cases.values()) for cases in found[package].values())
        total = {
            key: sum(_size(run[key]) for run in runs) for key in ("exact", "told", "silent", "wrong", "entries", "wolf")
        }
        events = total["exact"] + total["told"] + total["silent"] + total["wrong"]
        silent = total["silent"] + sum(len(run["other_silent"]) for run in runs)
        back = [run["freeze"] for run in runs if run["freeze"] is not None]
        lines.append(
            f"| {name} | {version(name)} | {again if old else what} | {models} of {len(found[package])} | {len(runs)} "
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


def models_by_verdict(found: dict[str, dict[str, Run]], kept: dict[str, str]) -> list[str]:
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
        groups[kept.get(name, worst) if worst == "not run" else worst].append(name)
    for name, word in kept.items():
        if name not in found:
            groups[word].append(name)
    shown = ["exact", "exact and reported", "reported", "no attention", "silent", "wrong", "raised", "output changed"]
    shown.append("not run")
    return [f"| {word} | {len(groups[word])} | {', '.join(sorted(groups[word]))} |" for word in shown if groups[word]]


def page(found: dict[str, dict[str, dict[str, Run]]], before: str = "") -> str:
    kept = earlier(before)
    intro = (Path(__file__).parent / "page.md").read_text(encoding="utf-8")
    parts = [intro.replace("{summary}", "\n".join(summary(found, before))).replace("{torch}", version("torch"))]
    for package, (name, what) in TITLES.items():
        title = f"{name}: {what}"
        if package not in found and title in kept:
            section = before.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
            parts.append(f"\n## {title}\n{section.rstrip()}")
        elif package in found:
            parts.append(f"\n## {title}\n\n| | models | |\n|---|---|---|")
            parts += models_by_verdict(found.get(package, {}), kept.get(title, {}))
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    folders = [Path(folder) for folder in sys.argv[1:] if folder != "--keep"] or [ROOT / "build" / "zoo"]
    before = PAGE.read_text(encoding="utf-8") if "--keep" in sys.argv else ""
    PAGE.write_text(page(results(folders), before), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} is written.")
