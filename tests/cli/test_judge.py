"""regard judge, as someone types it: on a folder of transformers, and on what regard train left."""

import gzip
import json
import re
import shlex
import warnings

import pytest
from tests.small_models import saved
from typer.testing import CliRunner

from regard.cli.app import app
from regard.data.registry import TASKS
from regard.models import open_run
from regard.models.training import run_checkpoint as saved_runs

pytest.importorskip("sklearn")
pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")


def call(*arguments: str):
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model").mkdir()
    return saved(tmp_path / "model", "BertForSequenceClassification")


@pytest.fixture
def data(tmp_path):
    """Words that the tokenizer cuts: cats is cat and ##s."""
    rows = [
        {"text": "A cats sat .", "label": 0, "rationale": [[1, 2]], "id": "first"},
        {"text": "a script > a cat .", "label": 1, "rationale": [[1, 3]]},
        {"text": "cat sat a script", "label": 1},
        {"text": "sat </script> cats " + 9 * "a ", "label": 0, "rationale": [[0, 1], [2, 3]]},
    ]
    path = tmp_path / "texts.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_a_page_asked_for_by_name_is_told_where_it_will_be(folder, data, tmp_path):
    said = call("judge", folder, "--data", data, "-o", tmp_path / "mine.html")
    assert said.exit_code == 1 and "name a folder" in said.output and "report.html is one file" in said.output
    assert not (tmp_path / "mine.html").exists()


def test_a_folder_of_transformers_is_judged_into_a_page_json_and_jsonl(folder, data, tmp_path):
    out = tmp_path / "report"
    said = call("judge", folder, "--data", data, "--tests", "rationales,task", "-o", out)
    assert said.exit_code == 0, said.output
    assert said.stdout.strip().endswith(str(out / "report.html"))
    report = json.loads((out / "report.json").read_text())
    assert [test["name"] for test in report["tests"]] == ["task", "rationales"]
    assert report["about"]["model"] == "model" and report["about"]["data"] == "texts.jsonl"
    assert report["about"]["removal"] == "mask"
    rows = [json.loads(line) for line in (out / "eraser.jsonl").read_text().splitlines()]
    assert [row["annotation_id"] for row in rows] == ["first", "1", "2", "3"]
    # words, not pieces: cats is one; of a text that was cut every word has a weight, the unread ones none
    soft = [row["rationales"][0]["soft_rationale_predictions"] for row in rows]
    assert [len(some) for some in soft] == [4, 6, 4, 12]
    assert soft[3][-1] == 0.0
    assert "&lt;" in (out / "report.html").read_text()
    again = call("judge", folder, "--data", data, "--tests", "rationales,task", "-o", out, "--json")
    assert json.loads(again.stdout) == report  # what was kept, and nothing else on stdout


def test_what_is_left_out_is_said(folder, tmp_path):
    path = tmp_path / "bare.csv"
    path.write_text("text\na cat sat\na script .\n")
    said = call("judge", folder, "--data", path, "--tests", "task,rationales", "-o", tmp_path / "r", "--row", "mean")
    assert said.exit_code == 0, said.output
    told = " ".join(said.stdout.split())
    assert "task: Not every instance has a label" in told
    assert "rationales: No instance has a rationale" in told


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--tests", "everything"], "'everything' is no test; expected 'all' or some of task"),
        (["--layer", "last"], "expected a whole number, 'mean' or 'rollout'"),
        (["--layer", "7"], "2 sites fit"),
        (["--data", "imdb"], "expected sst, movies, agnews"),
    ],
    ids=["tests", "word", "layer", "data"],
)
def test_what_a_user_can_put_right_is_a_sentence(folder, data, tmp_path, arguments, sentence):
    said = call("judge", folder, "--data", data, "-o", tmp_path / "r", *arguments)
    assert said.exit_code == 1
    assert sentence in " ".join(said.output.split())


def test_a_model_without_classes_and_classes_that_the_model_does_not_have_are_refused(folder, tmp_path):
    (tmp_path / "bare").mkdir()
    saved(tmp_path / "bare")
    path = tmp_path / "three.csv"
    path.write_text("text,label\na cat,2\n")
    for model, sentence in (
        (tmp_path / "bare", "not a model for sequence classification"),
        (folder, "expected numbers from 0 to 1"),
    ):
        said = call("judge", model, "--data", path, "-o", tmp_path / "r")
        assert said.exit_code == 1 and sentence in " ".join(said.output.split())


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run of regard train on eight sentences."""
    (tmp_path / "data" / "text").mkdir(parents=True)
    words = [(1, "dull"), (3, "fine"), (0, "awful"), (4, "great")]
    lines = [
        f"({label} (2 a) ({label} ({label} {word}) (2 film{place})))" for place in range(2) for label, word in words
    ]
    for part in ("train", "dev", "test"):
        with gzip.open(tmp_path / "data" / "text" / f"sst_{part}.txt.gz", "wt") as file:
            file.write("\n".join(lines) + "\n")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    said = call("train", "sst", "--small", "--seeds", "1", "--alone", "--out", tmp_path / "runs")
    assert said.exit_code == 0, said.output
    return tmp_path / "runs"


def test_a_trained_run_is_opened_again_and_is_as_good_as_it_was(run, tmp_path):
    said = call("judge", run, "--data", "sst", "--tests", "task", "-o", tmp_path / "r", "--json")
    assert said.exit_code == 0, said.output
    report = json.loads(said.stdout)
    accuracy = next(one for one in report["tests"][0]["findings"] if one["name"] == "accuracy")
    trained = json.loads((run / "results.json").read_text())
    assert accuracy["value"] == trained["rows"][0]["runs"][0]["accuracy"]
    bag = next(row for row in trained["baselines"] if "TF-IDF" in row["says"])
    assert accuracy["baselines"]["bag of words"] == pytest.approx(bag["runs"][0]["accuracy"])
    assert report["about"]["classes"] == ["negative", "positive"] and report["about"]["removal"] == "delete"


def test_a_trained_run_judges_other_texts_by_its_own_words(run, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("text,label\nA GREAT film0,positive\nunheard of,negative\n")
    said = call("judge", run / "additive-0", "--data", path, "--tests", "correlation", "-o", tmp_path / "r", "--json")
    assert said.exit_code == 0, said.output
    assert [row["annotation_id"] for row in json.loads(said.stdout)["rows"]] == ["0", "1"]


def test_a_run_whose_description_is_broken_or_whose_weights_do_not_fit_is_refused(run, tmp_path):
    about = json.loads((run / "additive-0" / "run.json").read_text())
    for changed, sentence in (
        (about | {"experiment": "os.system"}, "describes no run"),
        (about | {"options": {"order": 3}, "small": False}, "its weights do not fit"),
        ([], "expected an object"),
    ):
        (run / "additive-0" / "run.json").write_text(json.dumps(changed))
        said = call("judge", run, "--data", "sst", "-o", tmp_path / "r")
        assert said.exit_code == 1 and sentence in " ".join(said.output.split())


def interrupted(monkeypatch, out, epoch, name):
    """`regard train` with a Ctrl-C in an epoch; its command goes on where `monkeypatch` is undone."""
    from regard.lab.tasks import compare as comparing

    fit = comparing.Trainer.fit

    def stopped(trainer, *given):
        on_step = trainer.on_step

        def counted(at, step, steps, numbers):
            on_step(at, step, steps, numbers)
            if at == epoch:
                raise KeyboardInterrupt

        trainer.on_step = counted
        return fit(trainer, *given)

    with monkeypatch.context() as patch:
        patch.setattr(comparing.Trainer, "fit", stopped)
        assert call("train", name, "--small", "--seeds", "1", "--alone", "--out", out).exit_code == 130


def test_a_half_trained_run_is_judged_with_that_said_and_the_command_that_is_said_ends_its_training(
    run, tmp_path, monkeypatch
):
    out = tmp_path / "half"
    interrupted(monkeypatch, out, 3, "sst")
    said = call("judge", out, "--tests", "task", "-o", tmp_path / "r")
    assert said.exit_code == 0, said.output
    sentence = re.search(
        r"Training was interrupted after 2 of \d+ epochs: these are the weights of epoch [12]\.", said.stderr
    )
    assert sentence and "Half-trained." in said.stderr
    report = json.loads((tmp_path / "r" / "report.json").read_text())
    assert report["about"]["caution"] == sentence[0]
    page = (tmp_path / "r" / "report.html").read_text()
    assert page.index("Half-trained.") < page.index("<main") and sentence[0] in page
    assert str(out) not in (tmp_path / "r" / "report.json").read_text()  # a report names no places
    with pytest.warns(UserWarning, match="was interrupted after 2 of"):
        open_run(out)
    command = re.search(r"`regard (train .*?)` resumes it", said.stderr)[1]
    assert call(*shlex.split(command)).exit_code == 0
    whole = call("judge", out, "--tests", "task", "-o", tmp_path / "r")
    assert "Half-trained" not in whole.output and "caution" not in (tmp_path / "r" / "report.json").read_text()
    kept = [json.loads((folder / "results.json").read_text())["rows"][0]["runs"] for folder in (out, run)]
    assert kept[0] == kept[1]


def test_a_run_stopped_in_its_first_epoch_is_refused_with_what_to_type(run, tmp_path, monkeypatch):
    interrupted(monkeypatch, tmp_path / "half", 1, "sst")
    for folder in ("half", "half/additive-0"):
        said = call("judge", tmp_path / folder, "-o", tmp_path / "r")
        assert said.exit_code == 1 and "interrupted before the end of the first epoch" in said.output
        assert f"--out {tmp_path / 'half'}` resumes it" in said.output.replace("\n", "")


def test_a_run_that_stopped_by_itself_is_not_half_trained(run, tmp_path):
    """It waited in vain for as long as its patience has it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_run(run).unfinished == ""


OWN = {
    "classification": "text,label\na,x\nb,y\nc,x\n",
    "translation": "a ||| b\nb ||| c\nc ||| a\n",
}  # tasks without data


@pytest.mark.parametrize("name", TASKS)
def test_the_command_that_goes_on_with_a_run_asks_for_the_same_run(name, tmp_path, monkeypatch):
    from regard.lab.tasks import compare as comparing

    asked = []

    def compare(experiment, attention, seeds, *rest):
        asked.append((experiment.name, experiment.small, experiment.options, attention, seeds, rest[3], rest[4]))
        raise KeyboardInterrupt

    monkeypatch.setattr(comparing, "compare", compare)
    (tmp_path / "own data.csv").write_text(OWN.get(name, ""))
    own = ["--data", tmp_path / "own data.csv"] if name in OWN else []
    assert call("train", name, "--small", *own).exit_code == 130
    options = asked.pop()[2]
    experiment = TASKS[name](True, **options)
    about = {"experiment": name, "small": True, "options": options, "attention": experiment.usual, "seed": 2}
    command = shlex.split(saved_runs._command(about, tmp_path / "my runs" / f"{experiment.usual}-2"))
    assert call(*command[1:]).exit_code == 130
    assert asked == [(name, True, options, [experiment.usual], 3, tmp_path / "my runs", True)]
