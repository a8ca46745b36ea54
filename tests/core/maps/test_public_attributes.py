"""What `dir` offers of a map, a record and a result is documented; the rest is for backends and views."""

import inspect
import re

import pytest
import torch

import regard
from regard import Edges, attend

QKV = torch.randn(3, 1, 2, 6, 8)
EDGES = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])


def recorded():
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    with regard.record(layer) as rec:
        layer(torch.randn(1, 6, 16))
    return rec


@pytest.mark.parametrize(
    "make",
    [
        lambda: attend(*QKV),
        lambda: attend(*QKV).map,
        lambda: attend(*QKV, over=Edges(EDGES)).map,
        lambda: attend(*QKV, align="monotonic").map,
        lambda: attend(*QKV).map - attend(*QKV, align="sparsemax").map,
        lambda: attend(*QKV).map.group([(0, 3), (3, 6)]),
        recorded,
    ],
    ids=["result", "map", "edges", "stored", "difference", "grouped", "record"],
)
def test_every_attribute_that_is_offered_is_documented(make):
    given = make()
    text = "\n".join(cls.__doc__ or "" for cls in type(given).__mro__[:-1])
    for name in dir(given):
        if name.startswith("_"):
            continue
        member = inspect.getattr_static(type(given), name, None)
        own = inspect.getdoc(member) if callable(member) or hasattr(member, "__get__") else None
        assert own or name in re.findall(r"\w+", text), name


def test_what_is_not_offered_is_there_for_those_who_know_it():
    amap = attend(*QKV).map
    assert "band" not in dir(amap) and amap.band(slice(0, 1), slice(0, 6)).shape == (2, 1, 6)
