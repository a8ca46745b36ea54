"""Maps as arrays of numpy, and as what one goes through item by item."""

import sys

import numpy as np
import pytest
import torch
from tests.core.mechanisms import inputs

from regard import Edges, Refused, attend
from regard.core.maps.stored import StoredMap

Q, K, V = inputs(n=3, m=5)


@pytest.mark.parametrize("align", ["softmax", "monotonic"])
def test_an_array_holds_the_weights(align: str) -> None:
    amap = attend(Q, K, V, align=align).map
    for one in (amap, amap[0], amap[1, 0], amap - amap):
        assert np.array_equal(np.asarray(one), one.weights().detach().numpy())
    assert np.asarray(amap, dtype=np.float32).dtype == np.float32
    assert np.array_equal(np.array(amap, copy=True), np.asarray(amap))
    assert np.asarray([amap, amap]).shape == (2, *amap.shape)


def test_a_copy_is_one_and_none_is_refused() -> None:
    stored = StoredMap((1,), torch.ones(1, 2, 2))
    made = np.array(stored, copy=True)
    made[:] = 0
    assert stored.weights().all()
    with pytest.raises(ValueError, match="copy=False"):
        np.asarray(stored, copy=False)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bits_become_fp32(dtype: torch.dtype) -> None:
    amap = attend(*(x.to(dtype) for x in (Q, K, V)), align="monotonic").map
    assert np.asarray(amap).dtype == np.float32
    assert np.array_equal(np.asarray(amap), amap.weights().detach().float().numpy())


def test_over_edges_one_says_which_array_is_meant() -> None:
    amap = attend(Q, K, V, over=Edges(torch.tensor([[0, 1], [1, 1]]))).map
    for one in (amap, amap[0, 0]):
        with pytest.raises(Refused, match=r"amap.edges\(\).*amap.weights\(\)"):
            np.asarray(one)
    assert np.asarray(amap.edges()).shape == (2, 2, 2)


def test_a_map_has_the_length_of_its_first_axis() -> None:
    amap = attend(Q, K, V).map
    assert len(amap) == 2 and [one.shape for one in amap] == [(2, 3, 5)] * 2
    assert [one.shape for one in amap[0]] == [(3, 5)] * 2
    assert amap and attend(Q[:0], K[:0], V[:0]).map  # that there is one, whatever its length
    for of_one in (len, list):
        with pytest.raises(TypeError, match=r"3 rows .* 5 columns"):
            of_one(amap[0, 0])


def test_stored_weights_have_no_edges_with_a_gradient_either() -> None:
    with pytest.raises(Refused, match="not over edges"):
        attend(Q, K, V, align="monotonic").map.edges(grad=True)


def test_a_tensor_is_made_of_a_map() -> None:
    for amap in (attend(Q, K, V).map, attend(Q, K, V).map[0], attend(Q, K, V).map[1, 0]):
        for made in (torch.as_tensor(amap), torch.tensor(amap), torch.from_dlpack(amap)):
            assert torch.equal(made, amap.weights())
    graph = attend(Q, Q, Q, over=Edges(torch.tensor([[0, 1], [1, 2]]))).map
    with pytest.raises(Refused, match=r"amap.edges\(\) for the weights on your edges"):
        torch.as_tensor(graph)


def test_a_table_has_a_row_for_each_query_and_a_column_for_each_key() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed: pip install pandas")
    amap = attend(Q, K, V).map
    table = amap.to_pandas()
    assert list(table.index.names) == ["item", "head", "query"] and list(table.columns) == [0, 1, 2, 3, 4]
    assert np.array_equal(table.loc[(1, 0, 2)].to_numpy(), amap[1, 0].row(2).numpy())
    one = amap[1, 0]
    one.rows, one.columns = ["a", "b", "c"], list("vwxyz")
    assert one.to_pandas().loc["b", "y"] == float(one.weights()[1, 3])


def test_a_table_of_a_graph_has_a_row_for_each_edge() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed: pip install pandas")
    index = torch.tensor([[0, 1, 2, 0], [1, 2, 2, 2]])
    amap = attend(Q[:1], Q[:1], Q[:1], over=Edges(index)).map
    table = amap.to_pandas()
    assert table["source"].tolist() == index[0].tolist() and table["target"].tolist() == index[1].tolist()
    assert np.array_equal(table.iloc[:, 2].to_numpy(), amap.edges().reshape(-1, 4)[0].numpy())


def test_without_pandas_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match="pip install pandas"):
        attend(Q, K, V).map.to_pandas()


def test_what_attend_returns_is_shown_in_a_line() -> None:
    text = repr(attend(Q, K, V))
    assert "\n" not in text and len(text) < 120 and f"map=LazyMap(shape={attend(Q, K, V).map.shape})" in text
