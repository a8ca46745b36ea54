"""regard people: a small data set and a small model give findings as JSON and as a table; no data is a sentence."""

import gzip
import json

import pytest
from typer.testing import CliRunner

pytest.importorskip("scipy")

from tests.small_models import saved

from regard.cli import app
from regard.judging.finding import from_json


@pytest.fixture
def data(tmp_path, monkeypatch):
    (tmp_path / "data" / "eye_tracking").mkdir(parents=True)
    rows = [{"sentence": "a cat sat .", "relative_fixation": [0.1, 0.5, 0.3, 0.1]},
            {"sentence": "cats sat", "relative_fixation": [0.7, 0.3]}]  # fmt: skip
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
    from regard.commands.people import _print
    from regard.judging.finding import Finding

    def made(name, value, beside):
        return Finding(name=name, value=value, interval=(value - 0.1, value + 0.1), n=30, says="So.", better="higher",
                       unit="NSS", baselines=beside)  # fmt: skip

    beside = {"chance": 0.0, "other photographs": 1.41}
    _print([made("NSS: taught attention", 1.67, beside),
            made("NSS: other photographs", 1.41, {"chance": 0.0}),
            made("gain", 0.25, {"chance": 0.0, "nothing": 0.125})], "scenes", json=False)  # fmt: skip
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("1.410") == 1 and said.count("chance") == 1 and "nothing 0.125" in said
    assert "scenes: NSS, higher is better" in said
