"""Judges a transformer that was taught SST, and draws the figures of docs/judge/minilm.md.

    regard train minilm -o minilm-sst
    python docs/make_minilm.py minilm-sst found/       judges, and keeps the findings of each test in found/
    python docs/make_minilm.py found/                  draws them, and prints the tables of the page

Tests whose findings are kept are not run again.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from regard.judging import Adapter, Finding, from_json, to_json
from regard.judging.ablation import ablation
from regard.judging.adversary import adversary
from regard.judging.agreement import agreement
from regard.judging.correlation import correlation
from regard.judging.faithfulness import faithfulness_of_all
from regard.judging.importance import IMPORTANCES, Importance
from regard.judging.infidelity import infidelity
from regard.judging.inputs import Inputs
from regard.judging.layers import adversary_of_all_layers, layers, removals
from regard.judging.permutation import permutation
from regard.judging.sources import ready
from regard.judging.task import task
from regard.recording.files.writing import write_whole

COUNTS = {"task": None, "correlation": 100, "permutation": 100, "adversary": 20, "everywhere": 20}  # others: 50
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
    "layers": layers,
    "everywhere": lambda adapter: adversary_of_all_layers(adapter, **SEARCH),
    "removals": removals,
}


def kept_in_mind(measure: Importance) -> Importance:
    """Three tests ask for the same importances of the same texts: they are found once."""
    known: dict[bytes, Tensor] = {}

    def find(adapter: Adapter, inputs: Inputs) -> Tensor:
        key = inputs.tokens.numpy().tobytes()
        if key not in known:
            known[key] = measure(adapter, inputs)
        return known[key]

    return find


def judge(folder: str, kept: Path) -> None:
    kept.mkdir(exist_ok=True)
    IMPORTANCES.update({name: kept_in_mind(measure) for name, measure in IMPORTANCES.items()})
    for name, test in TESTS.items():
        file = kept / f"{name}.json"
        if not file.exists():
            found = test(ready(folder, "sst", limit=COUNTS.get(name, 50)))
            write_whole(file, [to_json(found).encode()])
            print(f"{name}: {len(found)} findings", flush=True)


def read(kept: Path) -> dict[str, dict[str, Finding]]:
    """Findings by test and name."""
    return {name: {one.name: one for one in from_json((kept / f"{name}.json").read_text(encoding="utf-8"))}
            for name in TESTS if (kept / f"{name}.json").exists()}  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) == 3:
        judge(sys.argv[1], Path(sys.argv[2]))
