"""The public names, from the packages' own `__all__`: what docs/reference/names.md lists."""

import inspect
import re
from importlib import import_module
from types import ModuleType
from typing import Any

PUBLIC = (
    "regard",
    "regard.scores",
    "regard.alignments",
    "regard.nn",
    "regard.models",
    "regard.models.features",
    "regard.data",
    "regard.recording",
    "regard.interventions",
    "regard.derived",
    "regard.detectors",
    "regard.judging",
    "regard.judging.task_metrics",
    "regard.judging.retraining",
    "regard.lab.claims",
    "regard.studies",
    "regard.studies.statistics",
    "regard.studies.report",
    "regard.views",
    "regard.integrations.distributed",
    "regard.integrations.torch_geometric",
)
# What is neither a class, a function nor a module has no docstring of its own.
CONSTANTS = {
    "regard.scores.NAMES": "By name, the scores that `attend` takes: the form without parameters.",
    "regard.scores.SCORES": "Where scores enlist: by name without sizes (`free`), and with them (`built`).",
    "regard.alignments.NAMES": "By name, the alignments that `attend` takes.",
    "regard.alignments.ALIGNMENTS": "Where alignments enlist: by name without sizes (`free`), and with them (`built`).",
    "regard.alignments.NO_CONTEXT": "A RowContext without noise, keys, heads or a learned alpha.",
    "regard.detectors.DETECTORS": "By name, every detector of what a head does.",
    "regard.lab.claims.CLAIMS": "By name, the four claims made for graph attention.",
    "regard.judging.task_metrics.TASKS": "By name, the kinds of tasks that can be measured.",
    "regard.studies.statistics.SEEDS": "How many seeds a study has unless it says otherwise.",
}
SENTENCE = re.compile(r".+?[.?:](?=\s|$)", re.DOTALL)


def says(package: str, name: str) -> str:
    """The first sentence of what a name is; "" where nobody wrote one."""
    one: Any = getattr(import_module(package), name)
    if not (isinstance(one, ModuleType) or callable(one)):
        return CONSTANTS.get(f"{package}.{name}", "")
    text = inspect.cleandoc(one.__doc__ or "").split("\n\n")[0]
    if inspect.isclass(one) and text.startswith(f"{one.__name__}("):
        return ""  # what @dataclass writes where nobody has
    found = SENTENCE.match(text)
    return " ".join(found[0].split()).rstrip(":") if found else ""


def tables() -> str:
    """A table for each package, its names in order, whatever their case."""
    parts = []
    for package in PUBLIC:
        there = import_module(package)
        rows = ["| name | |", "|---|---|"]
        for name in sorted(there.__all__, key=str.lower):
            told = says(package, name).replace("|", "\\|").replace("<", "&lt;")
            rows.append(f"| `{name}` | {told} |")
        about = inspect.cleandoc(there.__doc__ or "").split("\n\n")[0]
        parts += [f"## {package}", " ".join(about.split()), "\n".join(rows)]
    return "\n\n".join(parts)
