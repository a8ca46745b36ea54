"""A model that writes: its links against gold, what it writes, and which tests have no meaning for it."""

import json

import pytest
import torch
from typer.testing import CliRunner

import regard
from regard.cli.app import app
from regard.data import cipher
from regard.data.registry import TASKS
from regard.judging.alignment.error_rate import judge_alignment
from regard.judging.alignment.forced_decoding import forced_weights
from regard.judging.alignment.word_links import argmax_links
from regard.judging.artifacts import Grid
from regard.judging.suite import all_tests, run
from regard.judging.tests.translation import Translator
from regard.models.builders import translator
from regard.models.training import checkpoint
from regard.models.training.run_checkpoint import describe

for name in ("sacrebleu", "nltk", "scipy"):
    pytest.importorskip(name)


@pytest.fixture(scope="module")
def writer():
    task = cipher(words=20, shortest=3, longest=7, train=2, val=2, test=12)
    torch.manual_seed(0)
    model = translator(len(task.words), len(task.target_words), dim=8, width=8).eval()
    return Translator(model, task.test, words=task.words, target_words=task.target_words)


def by_name(name):
    return next(test for test in all_tests() if test.name == name)


def test_links_are_judged_against_gold_and_a_typical_pair_is_shown(writer):
    judged = run(by_name("alignment"), writer, seed=1)
    weights, gold = forced_weights(writer.model, writer.examples)
    assert judged.findings[:3] == judge_alignment([argmax_links(one) for one in weights], gold, seed=1)
    grid = next(one for one in judged.evidence if isinstance(one, Grid))
    place = next(i for i, one in enumerate(writer.instances) if one.name == grid.title.rpartition(" ")[2])
    assert torch.tensor(grid.values) == pytest.approx(weights[place].double(), abs=1e-6)
    assert list(grid.columns) == writer.words.decode(writer.examples[place].inputs)


def test_a_model_that_writes_is_left_out_of_tests_of_classes_and_the_other_way_round(writer):
    report = regard.judge(writer, tests="all")
    assert {test.name for test in report.tests if not test.left_out} == {"translation", "alignment"}
    assert all("gives text" in why for why in report.left_out.values())
    assert report.rows == []
    from tests.judging.test_suite import marked

    assert "gives classes" in run(by_name("alignment"), marked(count=2)).left_out


def test_without_gold_links_that_test_alone_is_left_out(writer):
    bare = [type(one)(one.inputs, one.target, id=one.id) for one in writer.examples[:4]]
    some = Translator(writer.model, bare, words=writer.words, target_words=writer.target_words)
    assert "gold" in run(by_name("alignment"), some).left_out
    found = run(by_name("translation"), some).findings
    assert [one.name for one in found] == ["BLEU", "METEOR"] and "the source itself" in found[0].baselines


def test_other_gold_is_other_data(writer):
    from regard.judging.result_cache import data_hash

    turned = [type(one)(one.inputs, one.target, gold=one.gold.flip(0), id=one.id) for one in writer.examples]
    other = Translator(writer.model, turned, words=writer.words, target_words=writer.target_words)
    assert data_hash(other) != data_hash(writer)


def test_the_command_judges_a_run_of_the_cipher(tmp_path):
    experiment = TASKS["cipher"](True, order="parallel", supervise=0.0)
    task = experiment.load(0)
    model = experiment.model(task, "additive")
    describe(tmp_path / "additive-0", experiment, "additive", 0)
    optimiser = torch.optim.AdamW(model.parameters())
    weights = model.state_dict()
    checkpoint.save(tmp_path / "additive-0" / "last.safetensors", model, optimiser, weights, {})
    said = CliRunner().invoke(
        app,
        [
            "judge",
            str(tmp_path),
            "--data",
            "cipher",
            "--limit",
            "10",
            "--tests",
            "alignment",
            "-o",
            str(tmp_path / "r"),
            "--json",
        ],
    )
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)["tests"][0]["findings"]
    assert found[0]["name"] == "alignment error rate" and set(found[0]["baselines"]) == {"diagonal", "random"}
