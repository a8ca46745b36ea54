"""Mistakes name the argument, what was given and the next step."""

import pytest
import torch

import regard
from regard import Additive, Dot, Entmax, Rotary
from regard.nn import Attention, build_score

X = torch.zeros(2, 5, 8)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"dim": 8, "heads": 3}, r"dim=8, heads=3.*d_k=2, d_v=2"),
        ({"dim": 8, "heads": 3, "d_k": 4}, r"dim=8, heads=3"),
        ({"dim": 0, "heads": 1}, r"dim=0.*1 or more"),
        ({"dim": 8, "heads": 2, "d_v": -1}, r"d_v=-1.*1 or more"),
        ({"dim": 8, "heads": 2, "d_k": 2.5}, r"d_k=2\.5.*whole number"),
        ({"dim": 8, "heads": 4, "kv_heads": 3}, r"heads=4, kv_heads=3.*divides"),
        ({"dim": 8, "heads": 2, "dropout": 1.0}, r"dropout=1\.0.*0 <= dropout < 1"),
        (
            {"dim": 8, "heads": 2, "score": "scaled"},
            r"score='scaled' is unknown: did you mean 'scaled_dot'",
        ),
        ({"dim": 8, "heads": 2, "score": "location"}, r"Location\(4, length, heads=2\)"),
        ({"dim": 8, "heads": 2, "align": "top"}, r"align='top' is unknown"),
        ({"dim": 8, "heads": 2, "align": "topk"}, r"TopK\(k\)"),
        ({"dim": 8, "heads": 2, "score": Additive(3, heads=2)}, r"Additive.*d_k=4"),
        ({"dim": 8, "heads": 4, "score": Additive(2, heads=3)}, r"Additive.*heads=4"),
        ({"dim": 8, "heads": 4, "align": Entmax(1.5, learned=True, heads=3)}, r"Entmax.*heads=4"),
        ({"dim": 8, "heads": 2, "d_v": 3, "score": Dot(features=True)}, r"d_v=3.*features as d_v"),
        ({"dim": 8, "heads": 2, "rotary": Rotary(8)}, r"Rotary\(8\).*d_k=4"),
        ({"dim": 6, "heads": 2, "rotary": True}, r"expected an even d_k, got 3"),
        ({"dim": 8, "heads": 2, "rotary": 0.5}, r"rotary=0\.5.*10000"),
    ],
    ids=lambda value: "" if isinstance(value, str) else " ".join(f"{k}={v}" for k, v in value.items())[:60],
)
def test_construction(options, says):
    with pytest.raises(ValueError, match=rf"(?s){says}"):
        Attention(**options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"score": Dot}, r"score=\) got type"),
        ({"score": None}, r"score=\) got NoneType"),
        ({"align": torch.softmax}, r"align=\) got builtin"),
        ({"rotary": "yes"}, r"rotary=\) got str"),
    ],
)
def test_wrong_types(options, says):
    with pytest.raises(TypeError, match=says):
        Attention(8, 2, **options)


def test_widths_of_a_built_score():
    with pytest.raises(ValueError, match=r"d_q=3 and d_k=4.*general"):
        build_score("dot", 3, 4)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((X[..., :7],), r"query has shape \(2, 5, 7\).*Attention\(dim=8\)"),
        ((X[0, 0],), r"query has shape \(8,\), expected \(\.\.\., length, 8\)"),
        ((X, X[..., :6]), r"key has shape \(2, 5, 6\).*key_dim=8"),
        ((X, X, X[..., :6]), r"value has shape \(2, 5, 6\).*value_dim=8"),
        ((X, X, X[:, :4]), r"key has 5 rows and value has 4"),
        ((X, X[:1]), r"query \(2, 5, 8\), key \(1, 5, 8\).*batch axes"),
        ((X, X[0]), r"batch axes"),
        ((X, None, X), r"value= was given without key="),
    ],
)
def test_shapes(arguments, says):
    with pytest.raises(ValueError, match=says):
        Attention(8, 2)(*arguments)


def test_types_of_inputs():
    with pytest.raises(TypeError, match=r"query is torch\.float64, this layer is torch\.float32.*convert"):
        Attention(8, 2)(X.double())
    with pytest.raises(TypeError, match="query is a list"):
        Attention(8, 2)(X.tolist())
    with pytest.raises(TypeError, match=r"ambiguous.*Mask\(keep=tensor\)"):
        Attention(8, 2)(X, over=torch.ones(5, 5, dtype=torch.bool))


def test_a_name_that_no_backend_has():
    with pytest.raises(ValueError, match=r"backend='flash': torch chooses among its kernels: backend=\"sdpa\""):
        Attention(8, 2)(X, backend="flash")
    with pytest.raises(regard.Refused, match="factorise"):
        Attention(8, 2)(X, backend="linear")
