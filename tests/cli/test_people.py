"""regard people: a small data set and a small model give findings as JSON and as a table; no data is a sentence."""

import gzip
import json

import pytest
import torch
from typer.testing import CliRunner

pytest.importorskip("scipy")

from tests.small_models import saved

from regard.cli.app import app
from regard.cli.output.findings import print_findings
from regard.cli.people import _tables
from regard.judging.finding import Finding, from_json


@pytest.fixture
def data(tmp_path, monkeypatch):
    (tmp_path / "data" / "eye_tracking").mkdir(parents=True)
    rows = [
        {"sentence": "a cat sat .", "relative_fixation": [0.1, 0.5, 0.3, 0.1]},
        {"sentence": "cats sat", "relative_fixation": [0.7, 0.3]},
    ]
    text = "\n".join(json.dumps(row) for row in rows)
    (tmp_path / "data" / "eye_tracking" / "geco_average.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    return tmp_path


def test_findings_are_printed_as_json_and_as_a_table(data):
    model = str(saved(data / "model"))
    printed = CliRunner().invoke(app, ["people", "reading", "--model", model, "--json"])
    assert printed.exit_code == 0, printed.output
    found = {one.name: one for one in from_json(printed.stdout)}
    assert found["layer 2"].n == 2 and -1 <= found["layer 2"].value <= 1
    assert found["layer 2"].baselines["word length"] == pytest.approx((4 / (2 * 4.5**0.5) + 1) / 2)
    table = CliRunner().invoke(app, ["people", "reading", "--model", model, "--sentences", "1"])
    assert table.exit_code == 0 and "rollout" in table.stdout and "1 sentences" in table.stdout
    assert "…" not in table.stdout  # nothing is cut in a terminal of 80 columns
    assert table.stdout.count("word rarity") == 1  # the same beside all: a row, not a column


@pytest.mark.parametrize("command", ["reading", "scenes", "movies", "sst"])
def test_missing_data_is_a_sentence(command, tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    said = CliRunner().invoke(app, ["people", command])
    assert said.exit_code == 1
    assert "There is no" in said.output and "name the folder" in said.output


def test_a_baseline_stands_once_as_a_row_of_its_own_or_as_the_finding_that_it_is(capsys):
    def made(name, value, beside):
        return Finding(
            name=name,
            value=value,
            interval=(value - 0.1, value + 0.1),
            n=30,
            says="So.",
            better="higher",
            unit="NSS",
            baselines=beside,
        )

    beside = {"chance": 0.0, "other photographs": 1.41}
    found = [
        made("NSS: taught attention", 1.67, beside),
        made("NSS: other photographs", 1.41, {"chance": 0.0}),
        made("gain", 0.25, {"chance": 0.0, "nothing": 0.125}),
    ]
    print_findings(found, _tables(found, "scenes"), json=False, out=None)
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("1.410") == 1 and said.count("chance") == 1 and "nothing 0.125" in said
    assert "scenes: NSS, higher is better" in said


def of_unit(unit, value=0.5, n=4):
    return Finding(name=f"{unit}, not taught", value=value, says="So.", better="higher", n=n, unit=unit)


@pytest.fixture
def judged(monkeypatch):
    """`regard people movies` without its data and its minutes: what it finds can be changed."""
    found = [of_unit("accuracy", n=200), of_unit("AUPRC", n=199), of_unit("comprehensiveness", n=100)]
    monkeypatch.setattr("regard.lab.data.movies.reviews", lambda: {"test": range(200)})
    monkeypatch.setattr("regard.recording.pretrained.load_model", lambda name: (torch.nn.Identity(), None))
    monkeypatch.setattr("regard.lab.human_agreement.word_encoder.Encoder", lambda *_: None)
    monkeypatch.setattr("regard.lab.human_agreement.reviews.judge_reviews", lambda *_, **__: found)
    return found


def test_findings_are_kept_beside_what_they_took_and_where_is_told(judged, tmp_path):
    out = tmp_path / "movies"
    printed = CliRunner().invoke(app, ["people", "movies", "--out", str(out), "--json"])
    assert printed.exit_code == 0 and from_json(printed.stdout) == judged
    assert (out / "findings.json").read_text() + "\n" == printed.stdout
    judged[0] = of_unit("accuracy", 0.75)
    again = CliRunner().invoke(app, ["people", "movies", "--out", str(out)])
    assert f"Written to {out / 'findings.json'}." in again.stdout and "Written" not in printed.stdout
    assert from_json((out / "findings.json").read_text()) == judged  # of the last run
    (tmp_path / "file").touch()
    refused = CliRunner().invoke(app, ["people", "movies", "--out", str(tmp_path / "file")])
    assert refused.exit_code == 1 and "is a file; name a folder" in refused.output


def test_a_table_tells_of_how_many_seeds_and_reviews_it_is(judged):
    said = CliRunner().invoke(app, ["people", "movies", "--seeds", "3"], env={"COLUMNS": "120"}).stdout
    for title in ("200 reviews, 3 seeds: accuracy", "200 reviews, 3 seeds: AUPRC", "100 reviews, 1 seed: comprehens"):
        assert title in said
