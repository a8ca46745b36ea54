"""What a page reads of a record over the wire, decoded here as the page decodes it."""

import gzip
import json
import struct

import numpy as np
import pytest
import torch
from tests.views.server.conftest import WORDS, recorded

import regard
from regard.views.payload import site_payload
from regard.views.server.jobs import Job
from regard.views.server.wire_format import View

TYPES = {"f32": "<f4", "u8": "u1", "u16": "<u2", "u32": "<u4"}


def opened(raw: bytes):
    """The JSON of a cut, and its arrays by number."""
    (length,) = struct.unpack("<I", raw[:4])
    about, at = json.loads(raw[4 : 4 + length]), 4 + length
    packed = []
    for size in about["sizes"]:
        packed.append(raw[at : at + size])
        at += size
    assert at == len(raw)

    def array(code):
        planes = np.frombuffer(gzip.decompress(packed[code["blob"]]), np.uint8)
        kind = np.dtype(TYPES[code["type"]])
        return planes.reshape(kind.itemsize, -1).T.copy().view(kind).reshape(code["shape"])

    return about, array


def weights(form, array, head: int) -> np.ndarray:
    """A head as the page computes it, by the formula of its form."""
    if form["form"] == "weights":
        return array(form["weights"])[head]
    assert form["form"] in ("qk", "cells") and form.get("causal") is None
    q, k, tau = (array(form[name]).astype(float) for name in ("q", "k", "tau"))
    return np.exp(form["scale"] * q[head] @ k[head].T - tau[head][:, None])


def assert_same(found: np.ndarray, expected: torch.Tensor) -> None:
    """To the rounding of a float32 score of about 30, which e is raised to."""
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def job() -> Job:
    return Job("lane", ("x",), "Looking", lambda _: None)


def test_a_cut_has_every_weight_of_its_site():
    rec = recorded(words=WORDS)
    view = View(rec, "run")
    assert [site["rows"] for site in view.about()["sites"]] == [WORDS, WORDS]
    for site, amap in enumerate(rec.maps.values()):
        about, array = opened(view.head_payload(site, 0))
        for head in range(2):
            assert_same(weights(about, array, head), amap.weights()[0, head])


def test_a_large_site_is_cut_head_by_head(monkeypatch):
    monkeypatch.setattr(site_payload, "MAX_DENSE", 1000)
    rec = recorded(70, heads=3, layers=1)
    view = View(rec, "run")
    assert view.large == [True] and view.about()["sites"][0]["large"] is True
    (amap,) = rec.maps.values()
    for head in range(3):
        about, array = opened(view.head_payload(0, head))
        assert about["form"] == "cells" and array(about["q"]).shape[0] == 1
        assert_same(weights(about, array, 0), amap.weights()[0, head])


@pytest.mark.parametrize("whole", [1 << 20, 1000])
def test_a_glance_is_what_the_page_in_one_file_carries(monkeypatch, whole):
    monkeypatch.setattr(site_payload, "MAX_DENSE", whole)
    rec = recorded(70, heads=3, layers=1)
    about, array = opened(View(rec, "run").overview(0, job()))
    blobs = site_payload.Blobs()
    (site,) = site_payload.site_payloads(site_payload.join_steps({"site": next(iter(rec.maps.values()))[0]}), blobs)
    own = np.frombuffer(gzip.decompress(blobs.packed[site["thumbs"]["blob"]]), np.uint8)
    np.testing.assert_array_equal(array(about["thumbs"]), own.reshape(site["thumbs"]["shape"]))
    for here, there in zip(about["numbers"], site["numbers"], strict=True):
        assert here == pytest.approx(there)


def test_looking_at_many_heads_can_be_stopped_between_two(monkeypatch):
    monkeypatch.setattr(site_payload, "MAX_DENSE", 1000)
    view = View(recorded(70, heads=3, layers=1), "run")
    stopped = Job("lane", ("x",), "Looking", lambda j: view.overview(0, j))
    stopped.step = lambda done, of: (stopped.stop() if done == 1 else None, stopped.check())
    stopped.run()
    assert stopped.state == "stopped"


@pytest.mark.parametrize("whole", [1 << 20, 10])
def test_two_records_are_cut_with_their_difference(monkeypatch, whole):
    monkeypatch.setattr(site_payload, "MAX_DENSE", whole)
    before = recorded(words=WORDS)
    torch.manual_seed(9)
    with regard.record() as after:
        for _ in range(2):
            q = 2 * torch.randn(1, 2, len(WORDS), 8)
            torch.nn.functional.scaled_dot_product_attention(q, q, q)
    after.label(tokens=WORDS)
    view = View(after, "run", beside=before)
    about = view.about()
    assert about["beside"]["names"] == ("after", "before") and about["sites"][0]["beside"]["rows"] == "=" * 7
    large = view.large[0]
    assert large is (whole == 10)
    form, array = opened(view.head_payload(0, 1))
    place = 0 if large else 1
    (name, *_) = after.maps
    for own, rec in ((form, after), (form["beside"]["other"], before)):
        assert_same(weights(own, array, place), rec.maps[name].weights()[0, 1])
    small, array = opened(view.overview(0, job()))
    moved = (after.maps[name].weights() - before.maps[name].weights())[0].numpy()
    code = array(small["beside"]["difference"]["thumbs"]).astype(float) - 128
    top = max(float((after.maps[x].weights() - before.maps[x].weights()).abs().max()) for x in after.maps)
    if large:  # one cell, which shows the weight that moved farthest
        cell = moved.reshape(2, -1)
        moved_in_small = np.take_along_axis(cell, np.abs(cell).argmax(-1)[:, None], 1)[..., None]
    else:
        moved_in_small = moved
    expected = 127 * np.sign(moved_in_small) * np.sqrt(np.abs(moved_in_small) / top)
    np.testing.assert_allclose(code, expected, atol=0.51)
    assert small["numbers"][1]["change"] == pytest.approx(float(np.abs(moved[1]).sum(-1).mean() / 2), rel=1e-4)


def test_sites_and_heads_that_are_not_there_are_refused(call):
    seen = call.done("POST", "/api/open", json={"from": "folder", "name": "run.regard"})
    at = f"/api/views/{seen['view']}/sites"
    assert call("GET", f"{at}/1/heads/1").status_code == 200
    none = ("/api/views/none/sites/0", "/api/jobs/none", "/api/exports/none")
    for path in (f"{at}/2", f"{at}/-1", f"{at}/0/heads/2", f"{at}/0/heads/-1", f"{at}/9/heads/0", f"{at}/x", *none):
        answer = call("GET", path)
        assert answer.status_code in (400, 404, 422) and answer.json()["error"], path
    call("DELETE", f"/api/views/{seen['view']}")
    assert call("GET", f"{at}/0").status_code == 404


def test_a_graph_comes_whole_as_the_page_in_one_file_carries_it(call, folder):
    edges = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
    conv = regard.nn.GATConv(5, 4, heads=2)
    with torch.no_grad(), regard.record(conv) as rec:
        conv(torch.randn(4, 5), edges)
    rec.label(nodes=["a", "b", "c", "<d>"]).save(folder / "graph.regard")
    seen = call.done("POST", "/api/open", json={"from": "folder", "name": "graph.regard"})
    assert seen["about"]["drawn"] is True
    about, array = opened(call("GET", f"/api/views/{seen['view']}/whole").content)
    (site,) = about["sites"]
    (amap,) = rec.maps.values()
    assert site["form"] == "edges" and site["rows"] == ["a", "b", "c", "<d>"]
    assert array(about["graphs"][0]["places"]).shape == (4, 2)
    start, source, w = (array(site[name]) for name in ("start", "source", "weights"))
    dense = np.zeros((2, 4, 4))
    for i in range(4):
        dense[:, i, source[start[i] : start[i + 1]]] = w[:, start[i] : start[i + 1]]
    np.testing.assert_allclose(dense, amap.weights(), atol=1e-6)
