"""A trial, and what is written of many."""

import json

import pytest
from tests.lab.drug_response.results import LEVELS, results

from regard.lab.drug_response.evaluation.metrics import MEASURES
from regard.lab.drug_response.evaluation.report import SplitReport
from regard.lab.drug_response.models.candidates import draws
from regard.lab.drug_response.protocol import trial
from regard.lab.drug_response.protocol.settings import SMALL
from regard.lab.drug_response.run_comparison import answer_text, foretold, write_answer
from regard.lab.drug_response.study_task import Response
from regard.studies.trial import Setting, normalised


@pytest.fixture
def on_small_panel(small_panel, monkeypatch):
    trial.fold_of.cache_clear()
    monkeypatch.setattr(trial, "panel", lambda: small_panel)
    yield
    trial.fold_of.cache_clear()


@pytest.mark.parametrize("variant", ["means", "ridge", "mlp"])
def test_a_trial_fits_the_setting_that_is_best_inside_the_training_part(on_small_panel, variant):
    shares = []
    setting = Setting(
        options={"held_out": "drugs", "trials": 2, "small": True}, report=lambda share, note: shares.append(share)
    )
    found = normalised(trial.run_response(variant, 1, setting))
    note = json.loads(found["notes"][0])
    assert found["numbers"]["rmse"] > 0 and set(found["numbers"]) <= set(MEASURES)
    if variant == "means":
        assert note == {"setting": {}, "inner_rmse": []}
    else:
        errors, tried = note["inner_rmse"], draws(variant, 2, 1, True)
        assert len(errors) == 2 and note["setting"] == json.loads(json.dumps(tried[errors.index(min(errors))]))
        assert shares == sorted(shares) and max(shares) <= 1


def test_what_is_written_says_the_verdict_and_draws_what_was_measured(tmp_path):
    pytest.importorskip("matplotlib")
    found = SplitReport.of("cells", results(LEVELS))
    names = {path.name for path in write_answer([found], [], tmp_path)}
    assert names == {f"{figure}.{end}" for figure in ("explained", "ablations") for end in ("svg", "pdf")} | {
        "results.json",
        "answer.md",
    }
    assert found.says() in answer_text([found], [])
    plain = json.loads((tmp_path / "results.json").read_text())
    assert plain["splits"][0]["models"]["gat"]["rmse"] == found.folds("gat")


def test_what_a_split_can_show_is_foretold_with_its_ablations():
    assert len(foretold(SMALL, ["cells", "drugs"])) == 3


def test_the_task_of_a_study_is_answered_by_what_exists():
    part = {"task": "response", "options": {"held_out": "drugs"}, "small": True}
    assert Response(part).canonical("cross/frozen") == "cross/frozen"
    with pytest.raises(ValueError, match="response has no variant 'bert'; it has means, drug-mean"):
        Response(part).canonical("bert")
    with pytest.raises(ValueError, match="response has no option 'lines'"):
        Response({"task": "response", "options": {"lines": 3}})
