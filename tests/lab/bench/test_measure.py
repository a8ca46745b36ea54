"""What a benchmark reports follows from what ran; timings themselves decide nothing here."""

import json
import time

import torch

from regard.lab.bench import measure
from regard.lab.bench.measure import BenchResult, by_turns, measure_memory, memory_text, peak_memory, show


def test_by_turns_calls_both_sides_equally_often_and_drops_the_warm_up():
    calls = []
    by_turns(lambda: calls.append("ours"), lambda: calls.append("peer"), repeats=3, calls=2)
    assert calls == ["ours", "ours", "peer", "peer"] * 4


def test_peak_memory_sees_a_tensor_that_lives_only_while_the_callable_runs(monkeypatch):
    samples, resident = [], measure._resident
    monkeypatch.setattr(measure, "_resident", lambda: samples.append(resident()) or samples[-1])

    def run() -> None:
        held = torch.ones(32 * 2**20)  # 128 MiB
        before = len(samples)
        while len(samples) < before + 2:  # one of them began while it was there
            time.sleep(0.001)
        del held

    _, extra = peak_memory(run)
    assert extra > 100 * 2**20


def test_the_ratio_is_ours_over_the_peers():
    assert BenchResult("x", "s", 1.0, 4.0, "peer", "").ratio == 0.25
    assert BenchResult("x", "s", 1.0, None, "none", "").ratio is None


def test_json_carries_the_ratio_and_the_machine(capsys):
    show("core", [BenchResult("x", "s", 1.0, 2.0, "peer", "faster", True)], as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert printed["results"][0]["ratio"] == 0.5 and printed["machine"]["torch"] == torch.__version__


def test_a_table_has_the_memory_of_both_sides(capsys, monkeypatch):
    monkeypatch.setattr(measure, "peak_memory", lambda run: (0.0, run()))
    result = measure_memory(BenchResult("x", "s", 1.0, 2.0, "peer", ""), lambda: 12e6, lambda: 3.4e9)
    show("core", [result, BenchResult("y", "s", 1.0, None, "", "")], as_json=False)
    printed = capsys.readouterr().out
    assert "memory" in printed and "12 MB; 3.4 GB" in printed


def test_memory_is_told_in_one_unit_whatever_measured_it():
    assert memory_text({"peak_gb": 1.5, "pyg_eager_peak_gb": 10.0}) == "1.5 GB; 10 GB"
    assert memory_text({"extra_mib": 100}) == "105 MB"
    assert memory_text({"peak_gb": None}) == memory_text({}) == "-"
