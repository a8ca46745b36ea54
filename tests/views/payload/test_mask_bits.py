"""Pairs that may not meet: carried in every form, and drawn otherwise than a weight of 0."""

import numpy as np
import pytest
import torch
from tests.views.driving import MAP, choice, drawn, eventually, says, spot, until

import regard
from regard.core.maps.stored import StoredMap
from regard.views.payload import site_payload
from regard.views.payload.arrays import Blobs
from regard.views.payload.mask_bits import allowed_pairs, pack_bits


def pair(n=6, m=6):
    return 2 * torch.randn(1, 2, n, 8), 2 * torch.randn(1, 2, m, 8)


def test_open_pairs_are_those_that_the_structure_allows():
    q, k = pair()
    assert allowed_pairs([regard.attend(q, k, k).map[0]]) is None
    found = allowed_pairs([regard.attend(q, k, k, over=regard.Causal()).map[0]])
    assert torch.equal(found, torch.ones(6, 6).tril().bool()[None])
    keep = torch.rand(2, 6, 6) > 0.4
    assert torch.equal(allowed_pairs([StoredMap((2,), keep.float(), keep=keep)]), keep)
    assert np.array_equal(np.unpackbits(pack_bits(keep), axis=1)[:, :36].reshape(2, 6, 6), keep.numpy())


def test_steps_of_a_generation_are_open_as_far_as_their_keys():
    q, k = pair()
    maps = [regard.attend(q[:, :, :4], k[:, :, :4], k[:, :, :4], over=regard.Causal()).map[0]]
    maps += [regard.attend(q[:, :, i : i + 1], k[:, :, : i + 1], k[:, :, : i + 1]).map[0] for i in (4, 5)]
    assert torch.equal(allowed_pairs(maps), torch.ones(6, 6).tril().bool()[None])


@pytest.mark.parametrize("form", ["weights", "qk", "codes", "cells"])
def test_what_may_not_meet_is_hatched_and_told_in_every_form(opened, monkeypatch, form):
    if form == "codes":
        monkeypatch.setattr(site_payload, "EXACT_BYTES", 0)
    if form == "cells":
        monkeypatch.setattr(site_payload, "MAX_DENSE", 10)
    n = {"qk": 40, "cells": 40}.get(form, 9)
    q, k = pair(n, n)
    amap = regard.attend(q, k, k, over=regard.Causal()).map
    assert site_payload.site_payloads({"map": [amap[0]]}, Blobs())[0]["form"] == form
    page = opened(amap)
    if form == "cells":
        until(page, "head?.pairs")
    says(page.locator("regard-map .bar"), "masked")
    page.mouse.move(*spot(page, 2, n - 2))
    says(page.locator("regard-map .readout"), "masked pair")
    page.mouse.move(*spot(page, n - 2, 2))
    eventually(page, lambda: (choice(page)["row"], choice(page)["column"]), (n - 2, 2))
    eventually(page, page.locator("regard-map .readout").inner_text, lambda said: "masked" not in said)
    read = f"""() => {{ const c = {MAP}.picture, copy = document.createElement('canvas');
        copy.width = c.width; copy.height = c.height;
        const g = copy.getContext('2d', {{ willReadFrequently: true }});
        g.drawImage(c, 0, 0);
        const {{ data }} = g.getImageData(0, 0, c.width, c.height);
        const at = (i, j) => data[4 * (Math.floor((i + .5) / {n} * c.height) * c.width
          + Math.floor((j + .5) / {n} * c.width)) + 3];
        return Array.from({{ length: {n * n} }}, (_, x) => at(Math.floor(x / {n}), x % {n}) > 0); }}"""
    eventually(page, lambda: page.evaluate(read), torch.ones(n, n).tril().bool().flatten().tolist())


def test_a_map_without_a_structure_has_no_hatching(opened):
    page = opened(StoredMap((1,), torch.eye(5)[None]))
    drawn(page)
    assert "masked" not in page.locator("regard-map .bar").inner_text()
