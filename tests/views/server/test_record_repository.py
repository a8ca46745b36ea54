"""Records that can be opened, and everything else that cannot."""

import os
import struct
import threading
from pathlib import Path

import pytest
from tests.views.server.conftest import TOKEN, Caller, recorded

import regard
from regard.recording.io import loading
from regard.views.server import record_repository
from regard.views.server.app import application
from regard.views.server.app_state import AppState
from regard.views.server.record_repository import RecordRepository
from regard.views.server.security_middleware import SecurityMiddleware
from regard.views.server.wire_format import View

BAD_NAMES = [
    "../secret.regard",
    "inner/../../secret.regard",
    "..%2fsecret.regard",
    "%2e%2e/secret.regard",
    "..\\secret.regard",
    "/etc/passwd",
    "/etc/passwd.regard",
    "{outside}",
    "link.regard",
    "linked/secret.regard",
    "inner",
    "run.regard\0",
    "",
    ".",
    "..",
    "./run.regard",
    "inner//small.regard",
    "run.regard/",
    "a/b/c/d/e.regard",
    "C:\\run.regard",
    "nothing.regard",
    "loop/loop/run.regard",
    "notes.txt",
    "pipe.regard",
]


@pytest.fixture
def traps(folder):
    """A folder with links that lead out of it."""
    (folder / "link.regard").symlink_to(folder.parent / "secret.regard")
    (folder / "linked").symlink_to(folder.parent)
    (folder / "loop").symlink_to(folder)
    (folder / "notes.txt").write_text("mine")
    os.mkfifo(folder / "pipe.regard")
    return folder


@pytest.mark.parametrize("name", BAD_NAMES)
def test_no_name_leads_out_of_the_folder(traps, call, name):
    name = name.format(outside=traps.parent / "secret.regard")
    job = call.ended(call("POST", "/api/open", json={"from": "folder", "name": name}))
    assert job["state"] == "failed" and "There is no record" in job["error"]
    assert str(traps) not in job["error"]


@pytest.mark.parametrize("origin", ["argument", "upload"])
def test_names_of_other_origins_are_not_paths(traps, call, origin):
    for name in (*BAD_NAMES, "run.regard"):
        name = name.format(outside=traps.parent / "secret.regard")
        assert call.ended(call("POST", "/api/open", json={"from": origin, "name": name}))["state"] == "failed"


def test_the_list_has_the_folders_records_and_no_links(traps, tmp_path):
    assert [one["name"] for one in RecordRepository(traps, [], tmp_path).listing()] == [
        "pipe.regard",
        "run.regard",
        "inner/small.regard",
    ]


def test_records_of_the_folder_open(call, folder):
    for name in ("run.regard", "inner/small.regard"):
        seen = call.done("POST", "/api/open", json={"from": "folder", "name": name})
        rec = regard.load(folder / name)
        assert [site["site"] for site in seen["about"]["sites"]] == list(rec.maps)
        assert seen["about"]["sites"][0]["n"] == rec.maps[next(iter(rec.maps))].n


def test_a_record_named_on_the_command_line_may_lie_anywhere(folder, tmp_path):
    made = RecordRepository(folder, [folder.parent / "secret.regard"], tmp_path)
    assert made.listing()[0] | {"changed": 0, "bytes": 0} == {
        "from": "argument",
        "name": "secret.regard",
        "bytes": 0,
        "changed": 0,
    }
    assert made.find("argument", "secret.regard") == (folder.parent / "secret.regard").resolve()


def test_what_is_no_record_is_refused_before_serving(folder, tmp_path):
    (tmp_path / "bad.regard").write_bytes(b"PK\x03\x04" + bytes(60))
    with pytest.raises(ValueError, match="zip archive"):
        RecordRepository(folder, [tmp_path / "bad.regard"], tmp_path)
    with pytest.raises(NotADirectoryError, match="no such folder"):
        RecordRepository(tmp_path / "nowhere", [], tmp_path)


def test_a_record_that_is_sent_is_checked_and_opens(call, state, folder):
    raw = (folder / "run.regard").read_bytes()
    sent = call.done("POST", "/api/upload?name=..%2F..%2Fmine.regard", content=raw)
    assert sent["name"] == "mine.regard" and sent["about"]["sites"][0]["n"] == 7
    assert call.done("POST", "/api/upload?name=mine.regard", content=raw)["name"] == "mine (2).regard"
    assert all(path.parent == state.work_dir for path in state.records.uploads.values())
    assert {"run.regard", "inner"} == {path.name for path in folder.iterdir()}, "nothing is written to the folder"


def bomb() -> bytes:
    """A tensor of 10^15 bytes in a file of few."""
    claim = b'{"dtype":"F32","shape":[1000000,250000000],"data_offsets":[0,1000000000000000]}'
    header = b'{"__metadata__":{"regard":"{}"},"0.q":' + claim + b"}"
    return struct.pack("<Q", len(header)) + header


HOSTILE = {
    "nothing at all": b"",
    "a few letters": b"hello",
    "a zip": b"PK\x03\x04" + bytes(1000),
    "a pickle": b"\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
    "a header of 8 EB": struct.pack("<Q", 2**63 - 1) + b"{}",
    "a header of the largest size": struct.pack("<Q", 2**64 - 1),
    "a header larger than the file": struct.pack("<Q", 90_000_000) + b"{}",
    "deep lists": struct.pack("<Q", 100_000) + b"[" * 100_000,
    "a tensor of a petabyte": bomb(),
    "safetensors without a record": struct.pack("<Q", 2) + b"{}",
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_are_refused_with_the_loaders_sentence(call, state, raw):
    job = call.ended(call("POST", "/api/upload?name=bad.regard", content=raw))
    assert job["state"] == "failed" and "bad.regard cannot be read as a record" in job["error"]
    assert str(state.work_dir) not in job["error"] and list(state.work_dir.iterdir()) == []
    assert call("GET", "/api/state").status_code == 200


@pytest.mark.parametrize("share", [0.01, 0.5, 0.999])
def test_a_record_that_was_cut_off_is_refused(call, state, folder, share):
    raw = (folder / "run.regard").read_bytes()
    job = call.ended(call("POST", "/api/upload", content=raw[: int(share * len(raw))]))
    assert job["state"] == "failed" and "cannot be read as a record" in job["error"]


def test_a_name_that_is_a_script_is_only_a_name(call, folder):
    raw = (folder / "run.regard").read_bytes()
    sent = call.done("POST", "/api/upload?name=<img src=x onerror=alert(1)>%00%1b[31m.regard", content=raw)
    assert not set("<>=\0\x1b") & set(sent["name"])


def test_the_oldest_that_were_sent_make_room(call, state, folder, monkeypatch):
    raw = (folder / "run.regard").read_bytes()
    monkeypatch.setattr(record_repository, "UPLOAD_QUOTA", int(2.5 * len(raw)))
    for name in ("a", "b", "c"):
        call.done("POST", f"/api/upload?name={name}", content=raw)
    assert list(state.records.uploads) == ["b.regard", "c.regard"]
    assert sum(path.stat().st_size for path in state.work_dir.iterdir()) <= 2.5 * len(raw)


def test_a_record_of_statistics_alone_says_why_it_cannot_be_shown(call, folder):
    import torch

    with regard.record(keep="stats") as rec:
        torch.nn.functional.scaled_dot_product_attention(*(torch.randn(1, 2, 5, 4) for _ in range(3)))
    rec.save(folder / "stats.regard")
    job = call.ended(call("POST", "/api/open", json={"from": "folder", "name": "stats.regard"}))
    assert job["state"] == "failed" and "keep='qk'" in job["error"]


def test_labels_of_a_record_reach_the_page_as_data(call, folder):
    recorded(3, words=["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&lt;"]).save(
        folder / "x.regard"
    )
    answer = call("POST", "/api/open", json={"from": "folder", "name": "x.regard"})
    assert answer.headers["content-type"] == "application/json"
    rows = call.ended(answer)["result"]["about"]["sites"][0]["rows"]
    assert rows == ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&lt;"]


@pytest.fixture
def odd(folder):
    """A record whose file name is no UTF-8."""
    path = os.fsencode(folder) + b"/a\xff\x1b.regard"
    try:
        os.rename(os.fsencode(folder / "run.regard"), path)
    except OSError:
        pytest.skip("This file system takes names of UTF-8 alone.")
    return path


def test_a_file_name_that_is_no_utf8_is_listed_and_opens(call, folder, odd):
    state = call("GET", "/api/state")
    assert state.status_code == 200
    (name,) = (one["name"] for one in state.json()["records"] if one["name"] != "inner/small.regard")
    assert name == "a\\xff\x1b.regard"
    seen = call.done("POST", "/api/open", json={"from": "folder", "name": name})
    made = call.done("POST", "/api/export", json={"view": seen["view"], "kind": "record"})
    assert call("GET", f"/api/exports/{made['job']}").content == Path(os.fsdecode(odd)).read_bytes()


def test_a_name_with_escapes_leads_nowhere_else(call, state, folder, odd):
    call("GET", "/api/state")
    for name in ("..\\xff.regard", "a\\xfe.regard", "\\x2e\\x2e/secret.regard"):
        with pytest.raises(FileNotFoundError):
            state.records.find("folder", name)


def test_a_folder_and_a_given_record_may_be_named_in_other_bytes(tmp_path, folder, odd):
    place = tmp_path / os.fsdecode(b"f\xfe")
    place.mkdir()
    state = AppState(place, [Path(os.fsdecode(odd))])
    try:
        call = Caller(SecurityMiddleware(application(state), TOKEN))
        summary = call("GET", "/api/state").json()
        assert summary["folder"] == "f\\xfe" and summary["records"][0]["name"] == "a\\xff\x1b.regard"
        assert call.done("POST", "/api/open", json={"from": "argument", "name": summary["records"][0]["name"]})["view"]
    finally:
        state.close()


def test_labels_with_halves_of_surrogate_pairs_are_served_and_written(call, state, folder, tmp_path):
    rec = recorded(3, words=["a", "\ud800", "\udfffb"])
    rec.save(folder / "half.regard")
    seen = call.done("POST", "/api/open", json={"from": "folder", "name": "half.regard"})
    assert seen["about"]["sites"][0]["rows"] == ["a", "\ufffd", "\ufffdb"]
    made = call.done("POST", "/api/export", json={"view": seen["view"], "kind": "page"})
    assert call("GET", f"/api/exports/{made['job']}").status_code == 200
    number = state._open_view(View(rec, "a model's own"))["view"]  # not from a file: as a model was heard
    assert call("GET", f"/api/views/{number}/sites/0").status_code == 200
    assert Path(rec.save_html(tmp_path / "x.html")).stat().st_size


def test_a_record_that_is_being_opened_stops_when_it_is_told_to(call, state, folder, monkeypatch):
    reached, go = threading.Event(), threading.Event()
    own = loading.check_map

    def slow(*args):
        reached.set()
        assert go.wait(60)
        return own(*args)

    monkeypatch.setattr(loading, "check_map", slow)
    job = call("POST", "/api/open", json={"from": "folder", "name": "run.regard"}).json()
    assert reached.wait(60)
    call("DELETE", f"/api/jobs/{job['job']}")
    go.set()
    assert call.ended(call("GET", f"/api/jobs/{job['job']}"))["state"] == "stopped"
    assert call.done("POST", "/api/open", json={"from": "folder", "name": "inner/small.regard"})["view"]
