"""The page of a record carries what it says it carries."""

import base64
import json
import re

import numpy as np
import pytest
import torch

import regard
from regard.views import look


def maps_of(n: int = 20, heads: int = 2, layers: int = 2) -> regard.Record:
    torch.manual_seed(0)
    with regard.record() as rec:
        for _ in range(layers):
            q = 2 * torch.randn(1, heads, n, 4)
            torch.nn.functional.scaled_dot_product_attention(q, q, q)
    return rec


def data_of(page: str) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def array(text: str, dtype: str, *shape: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype).reshape(shape)


def test_a_small_page_carries_every_weight_as_it_is():
    rec = maps_of()
    sites = data_of(look.page(rec.maps, "title"))["sites"]
    for site, amap in zip(sites, rec.maps.values(), strict=True):
        assert (array(site["weights"], "<f4", 2, 20, 20) == amap.weights()[0].numpy()).all()


def test_a_large_page_is_exact_for_the_largest_and_says_so(monkeypatch):
    monkeypatch.setattr(look, "EXACT", 100)
    rec = maps_of()
    page = look.page(rec.maps, "title")
    assert "8 largest weights of each row are exact" in page
    (site, _), amap = data_of(page)["sites"], next(iter(rec.maps.values()))
    weights = amap.weights()[0].numpy()
    best, keys = array(site["best"], "<f4", 2, 20, 8), array(site["keys"], "<i4", 2, 20, 8)
    assert (np.take_along_axis(weights, keys.astype(int), -1) == best).all()
    coarse = (array(site["coarse"], "u1", 2, 20, 20) / 255) ** 2
    assert abs(coarse - weights).max() < 2 / 255


def test_a_page_that_would_be_too_large_says_what_to_do(monkeypatch):
    monkeypatch.setattr(look, "LIMIT", 1000)
    with pytest.raises(ValueError, match="Take fewer sites"):
        look.page(maps_of().maps, "title")


def test_steps_of_a_generation_are_one_map():
    torch.manual_seed(0)
    k = torch.randn(1, 2, 7, 4)
    with regard.record() as rec:
        torch.nn.functional.scaled_dot_product_attention(k[:, :, :4], k[:, :, :4], k[:, :, :4], is_causal=True)
        for m in (5, 6, 7):
            torch.nn.functional.scaled_dot_product_attention(k[:, :, m - 1 : m], k[:, :, :m], k[:, :, :m])
    (site,) = data_of(look.page(rec.maps, "title"))["sites"]
    whole = torch.softmax((k @ k.transpose(-1, -2) / 2).masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf), -1)
    np.testing.assert_allclose(array(site["weights"], "<f4", 2, 7, 7), whole[0].numpy(), atol=1e-6)


def test_text_of_the_user_stays_text():
    evil = "</script><img src=x onerror=alert(1)>%%data%%"
    rec = maps_of(n=2, layers=1).label(tokens=[evil, "b"])
    page = look.page(rec.maps, evil, evil, evil)
    assert "<img" not in page and page.count("</script>") == 2
    assert data_of(page)["sites"][0]["rows"] == [evil, "b"]


def test_a_record_without_maps_is_refused():
    with pytest.raises(ValueError, match="no maps to look at"):
        look.page({}, "title")
