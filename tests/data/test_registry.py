"""Plugins: an installed package that is not ours adds data sets and tasks by name."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
PLUGIN, MODULE = re.findall(r"^```py\n# [^\n]*\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def install(folder, package, plugin, module=""):
    """A package as pip leaves it: modules and a dist-info with an entry point."""
    name = package.replace("-", "_")
    code, info = folder / name, folder / f"{name}-1.dist-info"
    code.mkdir()
    info.mkdir()
    (code / "__init__.py").write_text("")
    (code / "plugin.py").write_text(textwrap.dedent(plugin))
    (code / "task.py").write_text(module)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[regard.plugins]\n{name} = {name}.plugin\n")


def python(folder, *arguments):
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "100", "TERM": "dumb"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def mine(tmp_path):
    install(tmp_path, "my-package", PLUGIN, MODULE)
    return tmp_path


def test_a_data_set_of_another_package_is_an_attribute_of_regard_data(mine):
    ran = python(
        mine,
        "-c",
        "import regard.data; task = regard.data.mine(seed=0); print('mine' in dir(regard.data), task.name, 'sst' in "
        "regard.data.__all__)",
    )
    assert ran.stdout.split() == ["True", "mine", "True"], ran.stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a run of the plugin's task, and what its training said."""
    folder = tmp_path_factory.mktemp("trained")
    install(folder, "my-package", PLUGIN, MODULE)
    own = ("--small", "--seeds", "1", "--option", "keys=4", "--json", "--alone", "--out", "runs")
    return folder, python(folder, "-m", "regard", "train", "mine", *own)


def test_regard_train_lists_a_task_of_another_package(mine):
    listed = python(mine, "-m", "regard", "train", "--help")
    assert re.search(r"^mine +Task of the package my-package", listed.stdout, re.MULTILINE), listed.stderr


def test_regard_train_trains_a_task_of_another_package(trained):
    ran = trained[1]
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["rows"][0]["runs"][0]["accuracy"] > 0.9


def test_regard_judge_opens_the_run_of_a_task_of_another_package(trained):
    pytest.importorskip("jinja2")
    ran = python(trained[0], "-m", "regard", "judge", "runs", "--tests", "task,correlation", "--limit", "20", "--json")
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    assert report["about"]["model"] == "mine (additive, seed 0)" and report["about"]["classes"] == ["no", "yes"]
    assert not any(test["left_out"] for test in report["tests"]) and len(report["rows"]) == 20


def test_an_error_inside_a_task_is_not_taken_for_a_wrong_option(mine):
    code = (mine / "my_package" / "task.py").read_text()
    (mine / "my_package" / "task.py").write_text(code.replace("super().__init__(small, keys=keys)", "len(keys)"))
    ran = python(mine, "-m", "regard", "train", "mine", "--small", "--option", "keys=3")
    assert ran.returncode == 1 and "TypeError: object of type 'int' has no len()" in ran.stderr
    assert "Its options: keys" not in ran.stderr


def test_an_option_that_the_task_does_not_have_is_a_sentence(mine):
    ran = python(mine, "-m", "regard", "train", "mine", "--small", "--option", "colour=3")
    assert ran.returncode == 1 and "Traceback" not in ran.stderr
    assert "The task mine: got an unexpected keyword argument 'colour'. Its options: keys." in " ".join(
        ran.stderr.split()
    )
    ran = python(mine, "-m", "regard", "train", "mine", "--small", "--option", "colour")
    assert ran.returncode == 1 and "--option colour: expected name=value" in ran.stderr


def test_a_study_runs_a_task_of_another_package(mine):
    pytest.importorskip("sqlalchemy")
    (mine / "mine.toml").write_text(
        textwrap.dedent(
            """
            name = "mine"
            seeds = 2
            variants = ["dot", "uniform"]

            [[tasks]]
            task = "mine"
            small = true
            """
        )
    )
    ran = python(mine, "-m", "regard", "study", "run", "mine.toml", "--out", "ran", "--workers", "1", "--quiet")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "mine" in ran.stdout and "uniform" in ran.stdout


def test_a_name_that_two_packages_declare_is_refused_and_others_still_work(mine):
    install(mine, "their-package", 'DATA = {"mine": "their_package.task:mine", "theirs": "json:dumps"}')
    ran = python(mine, "-c", "import regard.data; print(regard.data.theirs([1])); regard.data.mine")
    assert ran.stdout == "[1]\n"
    assert (
        "Two installed packages declare 'mine' in DATA: my-package and their-package; uninstall one of them, or rename "
        "its entry." in ran.stderr
    )


def test_a_plugin_that_cannot_be_imported_is_named_and_breaks_no_other(mine):
    install(mine, "broken-package", "raise RuntimeError('no such lattice')")
    ran = python(mine, "-c", "import regard.data; print(regard.data.mine(seed=0).name)")
    assert ran.stdout == "mine\n", ran.stderr
    assert (
        "The plugin broken_package.plugin of the package broken-package cannot be imported and is skipped: "
        "RuntimeError: no such lattice" in ran.stderr
    )


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("json", "expected 'module:attribute'"),
        ("json:nothing", "json has no 'nothing'"),
    ],
)
def test_an_entry_that_leads_nowhere_names_its_package(tmp_path, place, sentence):
    install(tmp_path, "my-package", f'DATA = {{"mine": "{place}"}}')
    ran = python(tmp_path, "-c", "import regard.data; regard.data.mine")
    assert f"my-package declares 'mine' in DATA as '{place}': {sentence}." in ran.stderr


def test_the_page_shows_twenty_lines_or_so():
    code = [line for line in (PLUGIN + MODULE).splitlines() if line.strip()]
    assert len(code) <= 40
