"""What the two commands install is compared with the hashes of published builds."""

import json
import re
from pathlib import Path

import pytest
from tests import check_hashes

ROOT = Path(__file__).parents[1]
GOOD, BAD = "a" * 64, "b" * 64


def report(*packages: tuple[str, str, str]) -> dict:
    archives = [
        {
            "metadata": {"name": name, "version": version},
            "download_info": {"url": f"https://host/{name}.whl", "archive_info": {"hashes": {"sha256": found}}},
        }
        for name, version, found in packages
    ]
    project = {"metadata": {"name": "regard", "version": "1"}, "download_info": {"url": "file:///", "dir_info": {}}}
    return {"install": [*archives, project]}


def test_each_pin_has_the_hash_of_a_build():
    pins = re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    listed = check_hashes.listed()
    lacking = [name for name, version in pins if not listed.get(f"{check_hashes.normalised(name)}=={version}")]
    assert not lacking, "python tests/check_hashes.py --write"
    assert all(re.fullmatch("[0-9a-f]{64}", one) for hashes in listed.values() for one in hashes)


def test_a_build_of_another_platform_is_a_build_and_a_local_version_is_its_version():
    listed = {"some-thing==1.0": {GOOD, BAD}}
    found = report(("Some_Thing", "1.0+cpu", BAD))
    assert check_hashes.differing(found, listed) == []


def test_another_hash_and_an_unlisted_package_are_named():
    found, listed = report(("one", "1.0", BAD), ("two", "2.0", GOOD)), {"one==1.0": {GOOD}}
    (other,) = check_hashes.differing(found, listed)
    assert "one==1.0 has another hash" in other and BAD in other
    (unknown,) = check_hashes.unlisted(found, listed)
    assert "two==2.0 is not listed" in unknown


@pytest.mark.parametrize(
    ("own_index", "how", "status"),
    [(False, "", 1), (True, "", 0), (True, "strict", 1), (False, "off", 0)],
)
def test_another_hash_stops_where_pip_asks_the_public_index_alone(
    own_index, how, status, tmp_path, monkeypatch, capsys
):
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report(("numpy", "0.0.1", BAD))))
    monkeypatch.setattr(check_hashes, "listed", lambda: {"numpy==0.0.1": {GOOD}})
    monkeypatch.setattr(check_hashes, "has_own_index", lambda: own_index)
    monkeypatch.setenv("HASHES", how)
    assert check_hashes.compare(path) == status
    assert how == "off" or "numpy==0.0.1" in capsys.readouterr().out


@pytest.mark.parametrize(("how", "status"), [("", 0), ("strict", 1)])
def test_a_package_that_another_system_needs_is_said_and_stops_only_who_asks(
    how, status, tmp_path, monkeypatch, capsys
):
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report(("pywin32", "1", GOOD))))
    monkeypatch.setattr(check_hashes, "has_own_index", lambda: False)
    monkeypatch.setenv("HASHES", how)
    assert check_hashes.compare(path) == status
    assert "pywin32==1 is not listed" in capsys.readouterr().out
