"""A report: the same bits for the same seed, gone on with after a stop, read back, and what is left out is named."""

import html
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.judging.built_models import built
from tests.judging.test_suite import marked

import regard
from regard.judging import Finding, PairedDifference, Report
from regard.judging.report import beside, compared, standing, verdicts
from regard.judging.suite import Judged

pytest.importorskip("scipy")
pytest.importorskip("markupsafe")
pytest.importorskip("sklearn")

from regard.views.report import row

SOME = "task,correlation,rationales"


def finding(value, differences, better="higher", **rest):
    """A finding with its differences by name: (difference, p), or None where it is undefined."""
    compared = {
        name: PairedDifference(*((None,) if one is None else (one[0], None, one[1])))
        for name, one in differences.items()
    }
    beside = {name: None if one is None or value is None else value - one[0] for name, one in differences.items()}
    return Finding("a", value, "It is so.", better, 5, baselines=beside, differences=compared, **rest)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_report_bit_for_bit_and_another_seed_another():
    one, two, other = (regard.judge(marked(count=6), tests=SOME, seed=seed) for seed in (4, 4, 5))
    assert one.json() == two.json() and one.jsonl() == two.jsonl()
    assert one.json() != other.json()


def test_a_report_comes_back_from_json():
    report = regard.judge(marked(count=6), tests=SOME)
    again = Report.from_json(report.json())
    assert again == report
    assert again.json() == report.json()
    with pytest.raises(ValueError, match="no report of version 1"):
        Report.from_json('{"version": 0}')


def test_what_has_no_meaning_is_left_out_by_name_and_the_rest_is_judged():
    model, texts, _ = built("bottleneck")
    report = regard.judge(model, [replace(one, label=None) for one in texts[:6]], tests=SOME)
    assert set(report.left_out) == {"task", "rationales"}
    assert "label" in report.left_out["task"] and "rationale" in report.left_out["rationales"]
    assert report["correlation"].findings
    with pytest.raises(KeyError, match="'adversary': this report has task, correlation, rationales"):
        report["adversary"]


def test_a_model_without_data_and_an_adapter_with_data_are_refused():
    model, texts, _ = built("bottleneck")
    with pytest.raises(ValueError, match="needs data"):
        regard.judge(model)
    with pytest.raises(ValueError, match="has its data"):
        regard.judge(marked(count=2), texts)


STOPPED = """
import os, signal, sys, types
tests = types.ModuleType("tests"); tests.__path__ = [sys.argv[2]]; sys.modules["tests"] = tests
import regard
from tests.judging.test_suite import marked

def on_progress(done, of, name):
    if name == "rationales":
        os.kill(os.getpid(), signal.SIGKILL)

regard.judge(marked(count=6), tests="task,correlation,rationales", folder=sys.argv[1], on_progress=on_progress)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="This system has no kill -9.")
def test_a_report_that_was_killed_goes_on_and_loses_only_the_test_under_way(tmp_path: Path):
    here = Path(__file__).parents[1]
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, str(tmp_path), str(here)],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "tests").iterdir()}
    assert set(kept) == {"task.json", "correlation.json"}
    progress = []
    report = regard.judge(marked(count=6), tests=SOME, folder=tmp_path, on_progress=lambda *said: progress.append(said))
    assert {name: (tmp_path / "tests" / name).stat().st_mtime_ns for name in kept} == kept  # read, not made again
    assert report == regard.judge(marked(count=6), tests=SOME)
    assert progress == [(0, 4, "task"), (1, 4, "correlation"), (2, 4, "rationales"), (3, 4, "instances")]
    with pytest.warns(FutureWarning, match="on_progress"):
        regard.judge(marked(count=6), tests=SOME, folder=tmp_path, hear=lambda *said: progress.append(said))
    assert progress[:4] == progress[4:]


def kept_files(folder):
    return {path.name: path.read_bytes() for path in (folder / "tests").iterdir()}


def test_what_was_kept_under_another_configuration_or_is_broken_is_judged_anew(tmp_path: Path):
    regard.judge(marked(count=6), tests="task", folder=tmp_path)
    first = kept_files(tmp_path)
    adapter = marked(count=6)
    with torch.no_grad():
        adapter.model.vectors.weight[3] += 1.0
    other = regard.judge(adapter, tests="task", folder=tmp_path)
    changed = kept_files(tmp_path)
    assert json.loads(first["task.json"])["key"] != json.loads(changed["task.json"])["key"]
    (tmp_path / "tests" / "task.json").write_text("{half")
    assert regard.judge(adapter, tests="task", folder=tmp_path) == other
    assert kept_files(tmp_path) == changed


def test_random_decides_before_others_and_what_is_only_shown_does_not():
    one = finding(0.5, {"gradient": (-0.4, 0.001), "random": (0.4, 0.001)})
    assert standing(one) == ("random", "better") and compared(one, "gradient") == "worse than gradient"
    two = finding(0.5, {"no gain": (0.05, 0.4), "gradient": (0.4, 0.001)})
    assert standing(two) == ("no gain", "not significantly different")
    assert compared(two, "no gain") == "not significantly different from no gain"
    distance = Finding("a", 0.5, "It moves.", "higher", 5, interval=(0.4, 0.6), baselines={"no change": 0.0})
    assert standing(distance) == ("no change", "undefined") and beside(distance) == "beside no change"
    assert standing(finding(0.5, {})) == (None, "undefined")
    assert compared(finding(None, {"random": None}), "random") == "random"


def test_the_headlines_of_a_report_are_one_family():
    """Four tests with one headline each, p = .02: together none of them holds, and alone each would."""
    alone = finding(0.5, {"random": (0.2, 0.02)})
    tests = [Judged(f"test {place}", "Is it so?", [alone, alone]) for place in range(4)]
    report = Report({"seed": 0}, tests)
    assert [one.standing[1] for _, one in report.headlines()] == ["not significantly different"] * 4
    assert {one.family for _, one in report.headlines()} == {4}
    assert standing(report.tests[0].findings[1]) == ("random", "better")  # no headline: it stands alone
    assert Report.from_json(report.json()) == report


def test_a_report_saved_before_differences_were_tested_opens_without_verdicts():
    old = {"name": "a", "value": 0.5, "says": "So.", "better": "higher", "n": 9, "test": "", "unit": ""}
    old |= {"interval": [0.4, 0.6], "level": 0.95, "baselines": {"random": 0.1}, "undefined": 0}
    test = {"name": "task", "asks": "How well?", "left_out": "", "first": 1, "findings": [old], "evidence": []}
    report = Report.from_json(json.dumps({"version": 1, "about": {}, "tests": [test], "rows": []}))
    (one,) = report.findings
    assert one.standing == ("random", "undefined") and one.why == "what stands beside it is shown, not tested"


def test_counts_are_of_the_headlines_alone():
    report = regard.judge(marked(count=6), tests="task,correlation")
    headlines = [one for test in report.tests for one in test.findings[: test.first]]
    assert sum(report.counts().values()) == len(headlines) < len(report.findings)
    assert report.counts()["better"] == sum(standing(one)[1] == "better" for one in headlines)


def test_a_report_is_saved_by_the_ending_of_its_name_or_whole_into_a_folder(tmp_path: Path):
    report = regard.judge(marked(count=6), tests="task")
    assert report.save(tmp_path / "r.json").read_text() == report.json()
    assert report.save(tmp_path / "r.jsonl").read_text() == report.jsonl()
    for name in ("r.pdf", "none/r.json"):
        with pytest.raises((ValueError, FileNotFoundError)):
            report.save(tmp_path / name)


def test_a_graph_network_has_a_report_too():
    from regard.judging.adapters.graph_adapter import on_graph
    from regard.models import GAT

    edges = torch.tensor([[0, 1, 2, 3, 4, 0, 2], [1, 2, 0, 0, 0, 3, 3]])
    adapter = on_graph(GAT(4, 3, 2, nheads=2).eval(), torch.randn(5, 4), edges, labels=torch.tensor([0, 1, 0, 1, 0]))
    report = regard.judge(adapter, tests="task,ablation,alignment,rationales")
    assert set(report.left_out) == {"alignment", "rationales"}
    assert report["ablation"].findings and report.rows == []
    assert Report.from_json(report.json()) == report


NUMBERS = st.floats(allow_nan=False)  # infinity is a value: an interval may have one end alone


@st.composite
def findings(draw):
    """Differences that are tested, without a p, undefined, and baselines that are only shown."""
    names = draw(
        st.lists(st.sampled_from(["no change", "random", "degree", "last words", "gradient", "chance"]), unique=True)
    )
    value = draw(st.none() | NUMBERS)
    tested = {
        name: PairedDifference(draw(st.none() | NUMBERS), None, draw(st.none() | st.floats(0, 1)), 5, "few")
        for name in draw(st.lists(st.sampled_from(names), unique=True) if names else st.just([]))
    }
    better = draw(st.sampled_from(["higher", "lower", "neither"]))
    baselines = {name: draw(st.none() | NUMBERS) for name in names}
    return Finding(
        "a", value, "It is so.", better, 5, baselines=baselines, differences=tested, correction=draw(st.floats(1, 5))
    )


@given(findings())
def test_the_first_page_the_table_and_the_terminal_say_the_same_of_a_finding(one):
    main, how = standing(one)
    shown = row(one)
    assert shown["how"] == how and (shown["main"] is None) == (main is None)
    below = {x["name"]: x["how"].replace("-", " ") for x in shown["beside"]}
    assert below == verdicts(one)
    if how == "undefined":
        assert set(below.values()) <= {"undefined"}
        assert all(x["says"] == x["name"] for x in shown["beside"])
    else:
        assert below[main] == how and beside(one) == shown["main"]["says"]
        assert all(below[name] == one.against(name) for name in below)
        assert next(x["says"] for x in shown["beside"] if x["name"] == main) == beside(one)
    # second computation, from the numbers alone
    if how in ("better", "worse"):
        far = one.differences[main]
        assert far.p * one.correction <= 0.05 and ((far.value > 0) == (one.better == "higher")) == (how == "better")


def test_a_number_that_is_none_is_refused_where_it_is_found():
    for wrong in ({"value": float("nan")}, {"interval": (0.1, float("nan"))}, {"baselines": {"random": float("nan")}}):
        with pytest.raises(ValueError, match="an undefined number is None"):
            Finding(**{"name": "a", "value": 0.5, "says": "So.", "better": "higher", "n": 5} | wrong)


def test_a_real_report_says_of_no_finding_one_thing_above_and_another_below():
    from regard.views.report import report_page

    report = regard.judge(marked(count=8), tests="task,ablation,correlation,permutation,faithfulness,rationales")
    page = report_page(report)
    above = {}
    for kind, group in re.findall(r'<section class="verdicts ([\w-]+)"(.*?)</section>', page, re.DOTALL):
        for name in re.findall(r'<span class="what">(.*?)</span>', group):
            above[html.unescape(name)] = kind.replace("-", " ")
    assert above == {one.name: standing(one)[1] for _, one in report.headlines()}
    assert {"better", "undefined"} <= set(above.values())
    below = {}
    for part in page.split('<div class="finding">')[1:]:
        name = html.unescape(re.search(r'<span class="what">(.*?)</span>', part)[1])
        beside = re.search(r'<ul class="beside">(.*?)</ul>', part, re.DOTALL)
        below[name] = re.findall(r'<li class="([\w-]+)">', beside[1]) if beside else []
    assert below.keys() == {one.name for one in report.findings}
    for name, how in above.items():
        assert how.replace(" ", "-") in below[name] or not below[name]
        assert how != "undefined" or set(below[name]) <= {"undefined"}, (name, below[name])
