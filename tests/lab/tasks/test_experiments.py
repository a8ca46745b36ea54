"""Every experiment of regard train, at a tiny size: trained, judged, set beside its ablations and what is trivial."""

import math
import os
from dataclasses import replace

import pytest

from regard.cli.output.train_tables import comparison_tables
from regard.data.registry import TASKS
from regard.lab.tasks import speech
from regard.lab.tasks.compare import compare
from regard.lab.tasks.images import digits as images
from regard.lab.tasks.images import photographs
from regard.lab.tasks.translation import translation
from regard.models.training.experiment import by_length

PLANTED = ("retrieval", "cipher", "clutter", "motifs")
OWN = {  # the user's own files
    "classification": "text,label\n" + "".join(f"some text {i},{'ab'[i % 2]}\n" for i in range(40)),
    "translation": "".join(f"w{i} v{i % 3} ||| x{i} y{i % 3}\n" for i in range(40)),
}
PARTS = {"train": 24, "val": 8, "test": 8}
FEW = {  # what is made or cut while loading is not made in full
    (speech, "spoken_strings"): PARTS,
    (images, "noisy_mnist"): PARTS,
    (images, "clutter"): PARTS,
    (translation, "cipher"): PARTS,
    (translation, "multi30k"): {"lines": 300, "pieces": 400},
}


def tiny(name, **options):
    """The experiment with a handful of examples and one epoch."""
    kind = TASKS[name]

    class Tiny(kind):
        def load(self, seed):
            task = super().load(seed)
            task.train = task.train[:: max(1, len(task.train) // 12)][:12]  # from all over: classes are in order
            task.val, task.test = task.val[:4], task.test[:8]
            return task

        @property
        def training(self):
            return replace(super().training, epochs=1, batch=6)

    return Tiny(small=True, **options)


def few(load, sizes):
    return lambda *given, **options: load(*given, **(options | sizes))


@pytest.mark.parametrize("name", TASKS)
def test_an_experiment_runs_from_its_data_to_its_table(name, tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    for (module, load), sizes in FEW.items():
        monkeypatch.setattr(module, load, few(getattr(module, load), sizes))
    if name not in (*PLANTED, *OWN) and not os.environ.get("REGARD_DATA"):
        pytest.skip("REGARD_DATA names no folder of data sets.")
    if name == "fixations":
        pytest.importorskip("PIL")
        some = photographs.photographs_of("scenes")[:16]
        monkeypatch.setattr(photographs, "photographs_of", lambda data: some)
    (tmp_path / "own.csv").write_text(OWN.get(name, ""))
    experiment = tiny(name, **({"data": str(tmp_path / "own.csv")} if name in OWN else {}))
    said = []
    found = compare(experiment, out=tmp_path / "out", on_step=lambda what, *_: said.append(what))
    assert said[0].endswith(f", seed 0, epoch 1 of {experiment.training.epochs}")
    assert len(found.rows) == 1 + len(experiment.beside)
    for row in [*found.rows, *found.baselines]:
        assert all(math.isfinite(value) for measure in experiment.measures for value in row.values(measure))
    assert all(row.values(experiment.main) for row in found.rows)
    assert found.verdict()
    made = comparison_tables(found)
    assert made[0].row_count == len(found.rows) + len(found.baselines)
    assert (tmp_path / "out" / "results.json").is_file()


def test_bins_of_lengths_hold_everything_once():
    lengths, values = [1, 2, 2, 3, 5, 8, 13, 21], [1.0, 0, 0, 1, 1, 0, 1, 1]
    found = by_length(lengths, values, bins=3)
    total = 0.0
    for name, value in found.items():
        low, high = map(int, name.split("-"))
        total += value * sum(low <= n <= high for n in lengths)
    assert total == pytest.approx(sum(values))
    assert by_length([4, 4, 4], [1.0, 0.0, 1.0])
