"""The four claims: measures at their extremes, and each claim from end to end in its smallest form."""

import importlib
import json
import math
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from pytest import approx
from typer.testing import CliRunner

pytest.importorskip("sklearn")

from tests.judging.progress_recorder import ProgressRecorder
from tests.lab.claims.test_figures import CLAIM

from regard.cli.app import app
from regard.data import csbm
from regard.lab.claims import CLAIMS
from regard.lab.claims.adaptive import lookup, tells_apart
from regard.lab.claims.claim import Claim, apart, over_seeds
from regard.lab.claims.hetero import agreement, related
from regard.lab.claims.networks import trained
from regard.models import Training
from regard.models.deep_gnn import DeepGNN
from regard.models.training.node_training import Recipe

SHORT = Recipe(epochs=2, patience=2, rate=0.01, dropout=0.0)


def test_weights_tell_edges_apart_where_features_do_and_not_where_they_cannot():
    found = []
    for signal in (0.0, 5.0):
        task = csbm(150, signal=signal, seed=0)
        model, fitted = trained("gatv2", task, 0, Recipe(epochs=60, rate=0.01, dropout=0.0), heads=4)
        found.append((tells_apart(model, task.x, task.edge_index, task.y), fitted.test))
    (blind, _), (sees, right) = found
    assert abs(blind - 0.5) < 0.1 and sees > 0.75 and right > 0.95


def test_uniform_weights_tell_nothing_apart():
    task = csbm(60, signal=5.0, degree=6, seed=0)
    assert tells_apart(DeepGNN(8, 8, 2, "mean"), task.x, task.edge_index, task.y) == approx(0.5, abs=1e-9)


def test_gat_cannot_look_up_what_gatv2_can():
    (seen, _, weight), (other, _, _) = lookup("gatv2", 3, 0), lookup("gat", 3, 0)
    assert seen == 1 and other < 0.8 and 0 <= weight <= 1


def test_a_relation_that_tells_is_found_by_those_that_see_it():
    typed, plain = related("simple_hgn", 1.0, 0), related("gat", 1.0, 0)
    assert typed[0] > plain[0] and typed[1] > 0.8 and plain[1] == approx(0.5, abs=0.05)
    assert typed[2] < typed[0] and plain[2] == plain[0]  # shuffled relations matter to those alone who see them


def test_agreement_is_the_share_of_edges_within_a_class():
    assert agreement(csbm(60, same=1.0, degree=5)) == 1 and agreement(csbm(60, same=0.0, degree=5)) == 0


def test_seeds_that_differ_by_less_than_their_spread_are_not_told_apart():
    high, low = np.linspace(0.9, 0.95, 6), np.full(6, 0.8)
    assert apart(high, low) == "above" and apart(low, high) == "below"
    assert apart(high[:5], low[:5]) == "not significantly different from"  # p is never below 2 / 2^5
    assert apart([0.9, 0.7, 0.8], [0.8, 0.8, 0.8]) == "not significantly different from"
    found = over_seeds("x", [0.5, 0.7], test="t")
    assert (found.value, found.interval, found.n) == (approx(0.6), (0.0, 1.0), 1)
    assert over_seeds("x", [math.nan, math.nan], test="t").value is None
    crossed = over_seeds("x", np.array([[0.0, 1.0], [0.0, 1.0]]), test="t")
    assert crossed.value == 0.5 and crossed.interval == (0.0, 1.0)  # two instances that every seed shares


@pytest.fixture
def short(monkeypatch):
    """Every claim with next to no training, and without data."""
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.setattr(importlib.import_module("regard.lab.claims.claim"), "RESAMPLES", 20)
    parts = {
        name: importlib.import_module(f"regard.lab.claims.{name}") for name in ("adaptive", "long_range", "hetero")
    }
    for name, recipes in (
        ("adaptive", ["RECIPE"]),
        ("long_range", ["RECIPE", "DEEP"]),
        ("hetero", ["RECIPE", "PLANTED"]),
    ):
        for recipe in recipes:
            monkeypatch.setattr(parts[name], recipe, SHORT)
    monkeypatch.setattr(parts["adaptive"], "STEPS", 2)
    monkeypatch.setattr(parts["long_range"], "CHAINS", 8)
    monkeypatch.setattr(parts["long_range"], "DEPTHS", (1, 2))
    interpret = importlib.import_module("regard.lab.claims.interpretability")
    monkeypatch.setattr(interpret, "TRAINING", {"motifs": Training(epochs=1), "benzene": Training(epochs=1)})
    monkeypatch.setattr(interpret, "SHARES", (0.3,))
    monkeypatch.setattr(interpret, "GRAPHS", {True: 8})
    monkeypatch.setattr(interpret, "MOTIFS", {True: 40})


@pytest.mark.parametrize("name", CLAIMS)
def test_each_claim_prints_tables_and_leaves_a_figure_and_findings(name, short, tmp_path, monkeypatch):
    progress = ProgressRecorder()
    monkeypatch.setattr("regard.cli.claims.progress_bar", lambda: nullcontext(progress))
    ran = CliRunner().invoke(app, ["claims", name, "--small", "--seeds", "2", "--json", "-o", str(tmp_path / "out")])
    assert ran.exit_code == 0, ran.output
    (found,) = json.loads(ran.stdout)
    assert found == json.loads((tmp_path / "out" / f"{name}.json").read_text())
    assert (tmp_path / "out" / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    assert found["seeds"] == 2 and found["answer"] and all(panel["curves"] for panel in found["panels"])
    assert "2 seeds" in found["caution"] and not replace(Claim.from_dict(found), seeds=6).caution
    missing = {"hetero": 4, "interpret": 1}.get(name, 0)  # three graphs and ACM; benzene
    assert len(found["left_out"]) == missing and all("REGARD_DATA" in x or "ACM" in x for x in found["left_out"])
    (stages,) = {of for _, _, of in progress}
    begun = [done for _, done, _ in progress]
    assert begun[0] == 0 and begun[-1] < stages and begun == sorted(set(begun))
    for panel in found["panels"]:
        assert all(len(curve) == len(panel["x"]) for curve in panel["curves"].values())


def test_a_claim_is_written_before_the_next_begins_and_where_is_told(tmp_path, monkeypatch):
    def stopped(*_):
        raise ValueError("The second claim was stopped.")

    monkeypatch.setattr("regard.lab.claims.CLAIMS", {"range": lambda *_: CLAIM, "hetero": stopped})
    ran = CliRunner().invoke(app, ["claims", "range", "-o", str(tmp_path / "one")])
    assert ran.exit_code == 0 and "By depth · accuracy" in ran.output and "- It does not." in ran.output
    assert f"Written to {tmp_path / 'one'}: range.json, .md, .png." in ran.output
    ran = CliRunner().invoke(app, ["claims", "-o", str(tmp_path / "all")])
    assert ran.exit_code == 1 and "was stopped" in ran.output
    assert sorted(made.name for made in (tmp_path / "all").iterdir()) == ["range.json", "range.md", "range.png"]


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    ran = CliRunner().invoke(app, ["claims", "adaptive", "-o", str(tmp_path / "file")])
    assert ran.exit_code == 1 and "name a folder" in ran.output
