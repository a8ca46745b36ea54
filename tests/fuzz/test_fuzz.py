"""A fixed share of `make fuzz`, and what its driver says of a case that dies."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.fuzz.case import fuzzed
from tests.fuzz.checks import wrong_with
from tests.fuzz.interpreted import kernels_in_the_interpreter

from regard import SoftCap

DRIVER = Path(__file__).parent


@pytest.mark.parametrize("name", [f"cpu-{number}.0" for number in range(10000, 10018)])
def test_a_plan_that_nobody_listed(name):
    case = fuzzed(name)
    assert wrong_with(case)[0] == [], case


@pytest.mark.skipif(
    find_spec("triton") is None, reason="Triton's interpreter comes with triton, which is not installed."
)
@pytest.mark.parametrize("name", ["triton-10001.0", "triton-10002.0", "triton-10011.0"])
def test_a_plan_in_interpreted_kernels(name):
    case = fuzzed(name)
    with kernels_in_the_interpreter():
        wrong, ran = wrong_with(case)
    assert wrong == [] and ran, case


def test_a_fault_is_told_of_its_case_and_takes_no_other_along(tmp_path):
    asked = [sys.executable, str(DRIVER), "--workers", "1", "--case", "fault", "cpu-10001.0"]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=tmp_path)
    assert "python tests/fuzz --case fault " in done.stdout and "signal 11" in done.stdout
    assert "cpu-10001.0: " in done.stdout and "right by" in done.stdout
    assert done.returncode == 1 and "1 wrong." in done.stdout


def test_a_wrong_gradient_is_found(monkeypatch):
    """A case with a soft cap, whose slope chunked then leaves out."""
    monkeypatch.setattr(SoftCap, "vjp", lambda self, s, tile, out, ds, grads: ds)
    wrong, _ = wrong_with(fuzzed("cpu-10070.0"))
    assert any("chunked: gradient of q" in sentence for sentence in wrong), wrong


def test_a_name_is_a_case():
    assert str(fuzzed("cpu-10001.3")) == str(fuzzed("cpu-10001.3")) != str(fuzzed("cpu-10001.2"))
