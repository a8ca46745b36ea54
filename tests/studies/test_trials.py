"""Trials that train: the numbers of `regard train`, the same budget for all, and the same bits after every mishap."""

import subprocess
import sys
from dataclasses import replace

import pytest

from regard.data.registry import TASKS
from regard.lab import plugin
from regard.models.training.run_variant import run_variant as run_once
from regard.models.training.trainer import Trainer
from regard.studies import Study, tasks
from regard.studies.training import epochs_for
from regard.studies.trial import TRIVIAL, find, run


@pytest.fixture(autouse=True)
def few_examples(monkeypatch):
    """A tenth of the small setting is enough here."""
    load = TASKS["retrieval"].load

    def less(self, seed):
        task = load(self, seed)
        task.train, task.val, task.test = task.train[:200], task.val[:50], task.test[:60]
        return task

    monkeypatch.setattr(TASKS["retrieval"], "load", less)
    tasks._load.cache_clear()
    yield
    tasks._load.cache_clear()


def job(folder=None, variant="additive", epochs=2, seed=1, **options):
    study = Study(
        name="a",
        tasks=["retrieval"],
        small=True,
        variants=[variant],
        seeds=[seed],
        budget={"epochs": epochs},
        **options,
    )
    return study.jobs()[0] | {"folder": None if folder is None else str(folder)}


def numbers(outcome):
    assert "error" not in outcome, outcome
    return outcome["numbers"], outcome["scores"]


def test_a_trial_gives_the_numbers_of_regard_train():
    experiment = TASKS["retrieval"](True)
    how = replace(experiment.training, epochs=2, patience=2)
    once = run_once(experiment, experiment.load(1), "additive", 1, Trainer(how))
    found = run(job())
    assert numbers(found) == (once.result.numbers, once.result.scores)
    assert found["parameters"] == sum(p.numel() for p in once.model.parameters())
    assert found["seconds"] > 0 and found["peak"]["process"] > 1e6
    assert found["versions"]["torch"] and found["hardware"]["threads"] == 1


def test_a_trial_goes_on_from_its_checkpoint_to_the_same_bits(tmp_path):
    whole = run(job(tmp_path / "whole"))
    run(job(tmp_path / "parts", epochs=1))
    assert numbers(run(job(tmp_path / "parts"))) == numbers(whole)
    assert numbers(run(job())) == numbers(whole)


@pytest.mark.parametrize("place", [3, 5000, -3])
def test_a_damaged_checkpoint_is_put_aside_and_the_trial_begins_anew(tmp_path, place):
    run(job(tmp_path, epochs=1))
    file = tmp_path / "last.safetensors"
    damaged = bytearray(file.read_bytes())
    damaged[place] ^= 16
    file.write_bytes(damaged)
    found = run(job(tmp_path))
    assert "damaged" in found["notes"][0]
    assert numbers(found) == numbers(run(job()))
    assert (tmp_path / "last.damaged").is_file()


def test_every_variant_spends_the_same_steps_and_is_never_stopped_early(tmp_path):
    for variant in ("additive", "uniform"):
        run(job(tmp_path / variant, variant, epochs=3))
        rows = (tmp_path / variant / "history.csv").read_text().splitlines()
        assert len(rows) == 1 + 3
    assert epochs_for({"steps": 9}, examples=200, batch=64, default=5) == 3  # 4 steps an epoch
    assert epochs_for({}, 200, 64, 5) == 5


def test_frozen_parameters_are_not_counted_as_trained():
    learned, frozen = (run(job(variant=name, epochs=1))["parameters"] for name in ("additive", "additive frozen"))
    assert frozen < learned


def test_trivial_baselines_are_a_trial_of_their_own():
    study = Study(name="a", tasks=["retrieval"], small=True, variants=["dot"], seeds=1)
    beside = next(job for job in study.jobs() if job["variant"] == TRIVIAL)
    found = run(beside | {"folder": None})
    experiment = TASKS["retrieval"](True)
    assert found["trivial"] == experiment.baselines(experiment.load(0))
    assert found["numbers"] == {}


def test_a_record_of_the_trained_model_is_left_beside_its_checkpoint(tmp_path):
    import regard

    run(job(tmp_path, epochs=1, records=2))
    kept = regard.load(tmp_path / "test.regard")
    assert len(kept.maps) == 1


def test_an_error_is_an_outcome_with_its_sentence():
    found = run(job(variant="dot frozen", epochs=1))
    assert "nothing to freeze" in found["error"] and "Traceback" in found["trace"] and not found["full"]


def test_judges_are_run_on_the_trained_model_and_what_they_cannot_judge_is_told():
    found = run(job(epochs=1, judges=["ablation"]))["findings"]
    assert found[0]["name"] == "ablation" and "no units to judge" in found[0]["left_out"]


def test_judges_find_on_a_trained_text_classifier_what_they_find_by_hand(tmp_path):
    import torch

    from regard.data import Example, Task
    from regard.judging import Adapter
    from regard.judging.tests.ablation import ablation
    from regard.models.builders import text_classifier
    from regard.models.training.experiment import Result
    from regard.models.training.run_variant import VariantRun
    from regard.models.training.trainer import Trained
    from regard.studies.training import judge_trial
    from regard.studies.trial import Setting

    words = [Example(torch.randint(1, 9, (n,)), torch.tensor(n % 2)) for n in range(3, 9)]
    task, model = Task("made", words, words, words, classes=2), text_classifier(9, 2, dim=8, width=8).eval()
    found = judge_trial(VariantRun(model, Trained(), Result({})), task, Setting(judges=("ablation",)), 3)
    assert found[0]["findings"] == [one.as_dict() for one in ablation(Adapter(model, words), seed=3)]


def test_no_two_trials_share_a_folder_and_none_leaves_the_studys(tmp_path):
    names = ["a b", "a_b", "a/b", "../../b", "a" * 300, "a" * 301, "é", "e"]
    jobs = [{"task": task, "variant": name, "seed": 1} for task in ("m:f", "m.f") for name in names]
    folders = [tasks.folder_of(tmp_path, one).resolve() for one in jobs]
    assert len(set(folders)) == len(jobs)
    assert all(one.is_relative_to(tmp_path.resolve() / "trials") and len(one.name) < 100 for one in folders)


def test_gpus_are_shared_out_so_that_no_two_workers_have_one(monkeypatch):
    from regard.studies import local_engine as local

    monkeypatch.setattr(local, "gpu_count", lambda: 4)
    seen = []
    monkeypatch.setattr(local, "_Worker", lambda environment, log: seen.append(environment["CUDA_VISIBLE_DEVICES"]))
    for devices, visible, wanted in ((1, "", ["0", "1", "2", "3"]), (2, "7,5,3,1", ["7,5", "3,1"])):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        engine = local.LocalEngine(device="cuda", devices=devices)
        assert engine.slots == len(wanted)
        for slot in range(engine.slots):
            with pytest.raises(AttributeError):  # there is no process behind it
                engine._start(slot)
        assert [seen.pop(0) for _ in wanted] == wanted
        engine.workers.clear()
        engine.close()
    with pytest.raises(ValueError, match="this machine has 4 GPUs"):
        local.LocalEngine(device="cuda", devices=5)


def test_a_board_is_written_where_it_is_asked_for(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed.")
    numbers(run(job(tmp_path, epochs=1, board=True)))
    assert list(tmp_path.glob("events.out.tfevents.*"))


def test_a_node_that_only_computes_needs_neither_pydantic_nor_a_store():
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('pydantic', 'sqlalchemy', 'typer', 'rich')));"
        "from regard.studies import tasks, local_engine; from regard.studies.trial import run;"
        "out = run({'call': 'regard.studies.trial:trivial', 'variant': 'a', 'seed': 1, 'options': {}, 'threads': 1,"
        "'device': 'cpu', 'folder': None, 'budget': {}, 'judges': [], 'records': 0}, lambda *said: None);"
        "print(out['numbers'])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert "score" in said.stdout


@pytest.mark.parametrize("former", plugin.MOVED)
def test_a_stored_study_finds_its_function_where_it_is_now(former):
    assert find(former) is find(plugin.MOVED[former])
