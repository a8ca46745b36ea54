"""Judges a transformer that was taught SST, and draws the figures of docs/judge/minilm.md.

    regard train minilm -o minilm-sst
    python docs/make_minilm.py minilm-sst found/       judges, and keeps the findings of each test in found/
    python docs/make_minilm.py found/                  draws them, and prints the tables of the page

Tests whose findings are kept are not run again.
"""

import random
import sys
from collections.abc import Callable
from pathlib import Path

from regard.data.sst import sentences
from regard.judging import Adapter, Finding, Instance, from_json, to_json
from regard.judging.ablation import ablation
from regard.judging.adversary import adversary
from regard.judging.agreement import agreement
from regard.judging.correlation import correlation
from regard.judging.faithfulness import faithfulness_of_all
from regard.judging.infidelity import infidelity
from regard.judging.layers import adversary_of_all_layers, layers, removals
from regard.judging.permutation import permutation
from regard.judging.task import task
from regard.models.fine_tuning import pieces
from regard.recording.models import load_model

SENTENCES, FEWER = 120, 40  # of the test set, drawn with seed 0; fewer where the whole model is searched through
SEARCH = {"starts": 2, "steps": 100, "rate": 0.1}

TESTS: dict[str, tuple[Callable[..., list[Finding]], int]] = {
    "task": (task, 1821),
    "correlation": (correlation, SENTENCES),
    "permutation": (permutation, SENTENCES),
    "infidelity": (infidelity, SENTENCES),
    "agreement": (agreement, SENTENCES),
    "adversary": (lambda adapter: adversary(adapter, **SEARCH), FEWER),
    "ablation": (ablation, SENTENCES),
    "importances": (faithfulness_of_all, SENTENCES),
    "layers": (layers, SENTENCES),
    "everywhere": (lambda adapter: adversary_of_all_layers(adapter, **SEARCH), FEWER),
    "removals": (removals, SENTENCES),
}


def judge(folder: str, kept: Path) -> None:
    model, tokenizer = load_model(folder)
    special = set(tokenizer.all_special_ids)
    texts = sentences("test")
    chosen = [texts[place] for place in random.Random(0).sample(range(len(texts)), len(texts))]
    examples = pieces(tokenizer, chosen)
    instances = [Instance(one.inputs, int(one.target), one.inputs.clone().apply_(lambda x: x in special).bool())
                 for one in examples]  # fmt: skip
    kept.mkdir(exist_ok=True)
    for name, (test, count) in TESTS.items():
        file = kept / f"{name}.json"
        if not file.exists():
            found = test(Adapter(model, instances[:count], names=("negative", "positive")))
            file.write_text(to_json(found), encoding="utf-8")
            print(f"{name}: {len(found)} findings", flush=True)


def read(kept: Path) -> dict[str, dict[str, Finding]]:
    """Findings by test and name."""
    return {name: {one.name: one for one in from_json((kept / f"{name}.json").read_text(encoding="utf-8"))}
            for name in TESTS if (kept / f"{name}.json").exists()}  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) == 3:
        judge(sys.argv[1], Path(sys.argv[2]))
