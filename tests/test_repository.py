"""What strangers rely on beside the code: workflows, versions, licences, documents."""

import re
import subprocess
import sys
from datetime import date
from email.message import Message
from importlib.metadata import Distribution
from pathlib import Path

import pytest
import yaml
from tests import release_check

ROOT = Path(__file__).parents[1]
if not (ROOT / ".github").is_dir():
    pytest.skip("a source archive has no .github", allow_module_level=True)
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_commands_that_exist(path):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)) | {".venv/.test"}
    flow = yaml.safe_load(path.read_text())
    assert flow["permissions"] == {"contents": "read"}, "a workflow starts with no right to write"
    for job in flow["jobs"].values():
        assert "timeout-minutes" in job
        for step in job["steps"]:
            command = step.get("run", "")
            if command == "make ${{ matrix.target }}":
                assert set(job["strategy"]["matrix"]["target"]) <= targets
            elif command.startswith("make "):
                assert command.split()[1] in targets, command
            elif command.startswith("."):
                assert command.startswith(".venv/bin/regard ") or (ROOT / command).is_file(), command


def test_continuous_integration_covers_the_pythons_that_are_declared():
    declared = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    flow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    assert flow["jobs"]["test"]["strategy"]["matrix"]["python"] == declared


def test_forms_of_issues_have_what_the_site_asks_for():
    for name in ("bug", "mechanism"):
        form = yaml.safe_load((ROOT / f".github/ISSUE_TEMPLATE/{name}.yml").read_text())
        assert {"name", "description", "body"} <= set(form)
        assert all(part["attributes"].get("label") for part in form["body"])


def test_one_version_in_every_place():
    assert list(release_check.problems_of_version(None)) == []


def test_a_tag_wants_its_version_and_a_closed_changelog(tmp_path, monkeypatch):
    monkeypatch.setattr(release_check, "ROOT", tmp_path)
    (tmp_path / "src/regard").mkdir(parents=True)
    (tmp_path / "src/regard/__init__.py").write_text('__version__ = "1.2.0"\n')
    (tmp_path / "CITATION.cff").write_text("version: 1.2.0\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-01-31\n\n- new\n")
    assert list(release_check.problems_of_version("v1.2.0")) == []
    assert len(list(release_check.problems_of_version("v1.3.0"))) == 3  # two files and the heading
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n\n- more\n\n## [1.2.0] - 2026-01-31\n")
    assert "Unreleased" in "".join(release_check.problems_of_version("v1.2.0"))
    (tmp_path / "CITATION.cff").write_text("version: 1.1.0\n")
    assert "versions differ" in "".join(release_check.problems_of_version(None))


class Package(Distribution):
    """An installed package of these licences."""

    def __init__(self, **said: str):
        self.said = Message()
        for name, value in {"Name": "thing", **said}.items():
            self.said[name.replace("_", "-")] = value

    metadata = property(lambda self: self.said)
    files = None

    def read_text(self, filename):
        return None

    def locate_file(self, path):
        return path


@pytest.mark.parametrize("held", ["## [1.2.0] - 2026-01-01\n\n### Fixed\n\n- c\n\n### Added\n\n- b\n\n", ""])
def test_what_is_not_released_is_moved_under_a_version(held):
    begins = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- a\n\n### Fixed\n\n- d\n\n"
    made = release_check.folded(begins + held + "## [1.1.0]\n\n- old\n", "1.2.0", date(2026, 2, 3))
    _, unreleased, version, old = made.split("\n## ")
    assert unreleased.split() == ["[Unreleased]"] and old == "[1.1.0]\n\n- old\n"
    entries = version.partition("\n\n")[2].split("\n\n")
    assert version.startswith("[1.2.0] - 2026-02-03\n\n")
    assert entries == (
        ["### Added", "- a\n- b", "### Fixed", "- d\n- c\n"] if held else ["### Added", "- a", "### Fixed", "- d\n"]
    )


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"License_Expression": "MIT"}, None),
        ({"License": "Apache License 2.0\n\nlong text"}, None),
        ({"Classifier": "License :: OSI Approved :: BSD License"}, None),
        ({"Classifier": "License :: OSI Approved :: GNU General Public License v3 (GPLv3)"}, "is under"),
        ({"License": "Proprietary"}, "is under"),
        ({}, "names no licence"),
    ],
)
def test_licences_that_may_not_stand_beside_are_named(said, problem, monkeypatch):
    monkeypatch.setattr(release_check, "distributions", lambda: [Package(**said)])
    found = list(release_check.problems_of_licences())
    assert len(found) == (problem is not None) and all(problem in each for each in found)


def test_licences_of_what_is_installed():
    command = [sys.executable, str(ROOT / "tests/release_check.py"), "--licences"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"])
def test_documents_link_to_files_that_exist(name):
    text = (ROOT / name).read_text()
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
        assert (ROOT / target).exists(), target
