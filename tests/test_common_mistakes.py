"""The twenty commonest mistakes: each is answered by a sentence that says what was given and what to type."""

import pytest
import torch

import regard
from regard import attend, nn

Q = torch.randn(1, 2, 5, 8)
X, EDGES = torch.randn(3, 16), torch.tensor([[0, 1], [1, 2]])


@pytest.fixture
def place(tmp_path):
    """A whole record, half of one, and a page."""
    with regard.record() as rec:
        torch.nn.functional.scaled_dot_product_attention(Q, Q, Q)
    whole = rec.save(tmp_path / "run.regard").read_bytes()
    (tmp_path / "half.regard").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "look.html").write_text("<!doctype html><title>A page</title>" + " " * 500)
    (tmp_path / "empty.regard").write_bytes(b"")
    return tmp_path


MISTAKES = {
    "a page as a record": (
        lambda at: regard.load(at / "look.html"),
        r"look\.html cannot be read as a record: it is a page",
    ),
    "a half-written record": (lambda at: regard.load(at / "half.regard"), "cut off|end at byte|bytes"),
    "an empty record": (lambda at: regard.load(at / "empty.regard"), "it is empty or was cut off"),
    "a record that is not there": (lambda at: regard.load(at / "none.regard"), r"none\.regard.*no such file"),
    "another width": (lambda at: nn.Attention(64, heads=8)(torch.randn(2, 5, 32)), r"\(2, 5, 32\), expected .*64"),
    "heads that do not divide": (lambda at: nn.Attention(64, heads=7), "heads do not divide dim"),
    "kv_heads that do not divide": (lambda at: nn.Attention(64, heads=8, kv_heads=3), "kv_heads=3.*divides heads"),
    "cache=True": (
        lambda at: nn.Attention(64, heads=8)(torch.randn(2, 5, 64), cache=True),
        r"expected a Cache: cache = Cache\(\)",
    ),
    "key_padding_mask=": (
        lambda at: attend(Q, Q, Q, key_padding_mask=torch.zeros(1, 5).bool()),
        r"no argument key_padding_mask: write over=Padding\(lengths\)",
    ),
    "an argument of nobody": (lambda at: attend(Q, Q, Q, heads=8), "no argument heads: heads are an axis of q"),
    "a bare mask": (lambda at: attend(Q, Q, Q, over=torch.ones(5, 5, dtype=torch.bool)), r"Use Mask\(keep=tensor\)"),
    "a score that is misspelt": (
        lambda at: attend(Q, Q, Q, score="aditive"),
        "'aditive' is unknown: did you mean 'additive'",
    ),
    "an alignment that is misspelt": (
        lambda at: attend(Q, Q, Q, align="sparse"),
        "'sparse' is unknown: did you mean 'sparsemax'",
    ),
    "a GPU's backend without a GPU": (
        lambda at: attend(Q, Q, Q, backend="triton-dense"),
        'It runs on a CUDA device. backend="auto"',
    ),
    "two types of numbers": (lambda at: attend(Q, Q.double(), Q), r"convert with \.float\(\)"),
    "causal with more keys than queries": (
        lambda at: attend(Q, torch.randn(1, 2, 7, 8), torch.randn(1, 2, 7, 8), over=regard.Causal()),
        r'Causal\(align="end"\)',
    ),
    "values of another length": (lambda at: attend(Q[0], Q[0], Q[0, :, :4]), "each key needs one value"),
    "GATConv(data)": (lambda at: nn.GATConv(16, 8)(X), "edge_index"),
    "pairs of nodes in rows": (
        lambda at: nn.GATConv(16, 8)(X, EDGES.T.repeat(3, 1)),
        r"Pairs \(E, 2\) become edge_index\.T",
    ),
    "a node that is not there": (lambda at: nn.GATConv(16, 8)(X, EDGES + 5), "there are 3 sources, 0 to 2"),
    "a name instead of a model": (lambda at: regard.record("bert"), "expected a torch.nn.Module"),
    "a site that is not there": (
        lambda at: regard.load(at / "run.regard").maps["layer.0"],
        "no site 'layer.0'; recorded: ",
    ),
    "a judge without data": (lambda at: regard.judge(torch.nn.Linear(2, 2), []), "at least one"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_common_mistake_is_answered_by_a_sentence(name, place):
    wrong, says = MISTAKES[name]
    if "GPU" in name and torch.cuda.is_available():
        pytest.skip("There is a GPU here.")
    with pytest.raises((ValueError, TypeError, KeyError, OSError, regard.Refused), match=says) as caught:
        wrong(place)
    assert len(str(caught.value).split()) >= 6
    assert caught.value.__class__ is not AssertionError


def test_a_pyg_data_object_instead_of_tensors_is_answered_with_what_to_write():
    data = pytest.importorskip("torch_geometric.data").Data(x=X, edge_index=EDGES)
    with pytest.raises(TypeError, match=r"conv\(data\.x, data\.edge_index\)"):
        nn.GATConv(16, 8)(data)
