"""Maps of a record by site, by pattern and by their place."""

import pytest
import torch
from torch import nn

import regard


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(*(nn.TransformerEncoderLayer(8, 2, 8, batch_first=True) for _ in range(3)))


def test_a_record_is_read_by_site_by_pattern_and_by_place(model):
    with regard.record(model) as rec:
        model(torch.randn(1, 4, 8))
    assert rec["1.self_attn"] is rec.maps["1.self_attn"] is rec["1.*"] is rec[1] is rec.maps[-2]
    assert list(rec) == list(rec.maps) and "1.self_attn" in rec and "other" not in rec
    with pytest.raises(IndexError, match="there are 3 maps"):
        rec.maps[3]
    with pytest.raises(KeyError, match=r"recorded: 0\.self_attn"):
        rec["nowhere"]
    assert repr(rec) == "Record(3 maps, 0 missed)" and repr(rec.maps) == "Maps('0.self_attn' ... '2.self_attn')"
    assert rec


def test_statistics_are_read_by_site_too(model):
    with regard.record(model, keep="stats") as rec:
        model(torch.randn(1, 4, 8))
    assert rec["1.self_attn"].entropy.shape == (1, 2, 4) and list(rec)[1] == "1.self_attn"


def test_a_record_without_maps_is_one_too():
    assert list(regard.record()) == [] and bool(regard.record())
