"""What a page carries of a map gives its weights back."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.views.reading import array
from torch.testing import assert_close

import regard
from regard.views.payload import site_payload
from regard.views.payload.site_payload import Blobs


def carried(amap: regard.AttentionMap) -> tuple[dict, Blobs]:
    blobs = Blobs()
    (site,) = site_payload.site_payloads({"map": [amap]}, blobs)
    return site, blobs


def pair(heads=2, n=12, m=12, d=4, dtype=torch.float32):
    torch.manual_seed(1)
    return torch.randn(heads, n, d, dtype=dtype), torch.randn(heads, m, d, dtype=dtype)


def test_few_weights_are_carried_as_they_are():
    q, k = pair()
    amap = regard.attend(q, k, k, align="sparsemax").map
    site, blobs = carried(amap)
    assert site["form"] == "weights"
    assert torch.equal(array(blobs.texts, site["weights"]), amap.weights().float())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("over", [None, regard.Causal(), regard.Padding(lengths=torch.tensor([9]))])
def test_queries_and_keys_come_back_bit_for_bit_and_give_every_weight(dtype, over):
    q, k = (x[None] for x in pair(n=40, m=40, dtype=dtype))
    amap = regard.attend(q, k, k, **({} if over is None else {"over": over})).map[0]
    site, blobs = carried(amap)
    assert site["form"] == "qk"
    seen = site.get("length", 40)  # keys that nobody may see are not kept
    assert torch.equal(array(blobs.texts, site["q"]), q[0])
    assert torch.equal(array(blobs.texts, site["k"])[:, :seen], k[0, :, :seen])
    known = site_payload.dot_product_form(amap)
    assert_close(known.weights(slice(0, 40), 40).float(), amap.weights(), rtol=1e-5, atol=1e-7)


def test_a_row_whose_tau_is_too_large_to_be_exact_is_not_carried_by_its_tau():
    q, k = (x[None] for x in pair(n=5, m=5))
    q[:, :, 1] *= 1e7  # not one of the rows on which the formula is tried
    amap = regard.attend(q, k, k).map[0]
    assert amap.apart is not None and site_payload.dot_product_form(amap) is None
    site, blobs = carried(amap)
    assert torch.equal(array(blobs.texts, site["weights"]), amap.weights())


def test_keys_that_heads_share_are_carried_once():
    q, k = pair(heads=4, n=40, m=40)
    amap = regard.attend(q, k[:1].expand(4, -1, -1), k[:1].expand(4, -1, -1)).map
    site, _ = carried(amap)
    assert site["k"]["shape"][0] == 1


def test_past_the_bound_weights_have_8_bits_and_the_largest_of_each_row_are_exact(monkeypatch):
    monkeypatch.setattr(site_payload, "EXACT_BYTES", 0)
    amap = regard.attend(*pair(), pair()[1]).map
    site, blobs = carried(amap)
    w = amap.weights()
    assert site["form"] == "codes"
    top = torch.tensor(site["top"])[:, None, None]
    near = top * (array(blobs.texts, site["codes"]).float() / 255) ** 2
    assert ((near / top).sqrt() - (w / top).sqrt()).abs().max() <= 0.5001 / 255
    assert torch.equal(array(blobs.texts, site["best"]), w.gather(-1, array(blobs.texts, site["keys"])))
    assert_close(array(blobs.texts, site["best"]), w.topk(site_payload.EXACT_TOP_K, -1).values)


def test_a_large_map_is_cells_with_queries_and_keys(monkeypatch):
    monkeypatch.setattr(site_payload, "MAX_DENSE", 100)
    q, k = pair(n=50, m=70)
    amap = regard.attend(q, k, k, over=regard.Causal(align="start")).map
    site, blobs = carried(amap)
    first = amap.pyramid()[0]
    assert site["form"] == "cells" and site["cell"] == first.size == 8
    assert torch.equal(array(blobs.texts, site["q"]), q)
    assert torch.equal(array(blobs.texts, site["count"]), first.count[:1])
    code = array(blobs.texts, site["peak"]).double()
    peak = torch.where(code > 0, 2.0 ** (48 * (code / 65535 - 1)), 0.0)
    assert_close(peak, first.peak.double(), rtol=3e-4, atol=0.0)


def test_what_the_page_cannot_compute_is_written_out():
    q, k = pair(n=40, m=40)
    for amap in (regard.attend(q, k, k, score="additive").map, regard.attend(q, k, k, align="entmax15").map):
        assert carried(amap)[0]["form"] == "weights"


def test_the_numbers_of_a_head_are_those_of_its_map():
    q, k = pair()
    amap = regard.attend(q, k, k).map
    site, _ = carried(amap)
    w = amap.weights()
    for head, said in enumerate(site["numbers"]):
        assert said["entropy"] == pytest.approx(float(amap.entropy()[head].mean()) / np.log(2), rel=1e-5)
        assert said["sink"] == pytest.approx(float(w[head, :, 0].mean()), rel=1e-5)


def test_the_front_end_is_tested_with_our_numbers():
    text = (Path(__file__).parents[3] / "web/test/made_by_python.ts").read_text()
    made = json.loads(re.search(r"made = (.*);", text, re.DOTALL)[1])
    blobs = Blobs()
    blobs.add(torch.tensor(made["array"]["values"]))
    assert blobs.texts[0] == made["array"]["text"]
    q, k = (torch.tensor(made["pairs"][x]).reshape(1, 5, 3) for x in "qk")
    amap = regard.attend(q, k, k, over=regard.Causal()).map
    assert_close(amap.weights().flatten(), torch.tensor(made["weights"]))
    assert site_payload.logarithmic(torch.tensor(made["cells"]["values"]).double()).tolist() == made["cells"]["codes"]
