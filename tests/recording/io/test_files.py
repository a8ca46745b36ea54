"""A record comes back from its file as it was; a file that is not a whole record is refused in a sentence."""

import json
import os
import signal
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import regard
from regard import Causal, Mask, Padding, Window
from regard.core.structures import Full, Structure
from regard.recording.capture.calls import ScoredCall
from regard.recording.io.reading import BadRecord, RecordFile

transformers = pytest.importorskip("transformers")


class Plain(nn.Module):
    """Calls SDPA with what it is given."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, **options) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, **options)


def heads(n: int, m: int | None = None, b: int = 1, h: int = 2, d: int = 8, dtype=torch.float32) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(7)
    make = [torch.randn(b, h, size, d, generator=generator).to(dtype) for size in (n, m or n, m or n)]
    return tuple(make)


def recorded(*args, n: int = 6, m: int | None = None, b: int = 1, record=None, dtype=torch.float32, **options):
    with regard.record(**(record or {})) as rec:
        Plain()(*heads(n, m, b, dtype=dtype), **options)
    return rec


def saved(rec: regard.Record, folder: Path) -> regard.Record:
    return regard.load(rec.save(folder / "run.regard"))


def assert_same(rec: regard.Record, again: regard.Record) -> None:
    assert list(rec.maps) == list(again.maps)
    for name, amap in rec.maps.items():
        assert torch.equal(amap.weights(), again.maps[name].weights()), name
        assert torch.equal(amap.strongest(2).key, again.maps[name].strongest(2).key)


def mask_of(n: int, m: int) -> Tensor:
    return torch.rand(n, m, generator=torch.Generator().manual_seed(1)) > 0.4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_weights_come_back_bit_for_bit_in_the_types_of_models(tmp_path, dtype):
    rec = recorded(dtype=dtype, is_causal=True)
    assert_same(rec, saved(rec, tmp_path))
    entries = RecordFile(tmp_path / "run.regard").entries
    names = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.float64: "F64"}
    assert entries["0.q"]["dtype"] == entries["0.k"]["dtype"] == names[dtype]


STRUCTURES: dict[str, Structure] = {
    "full": Full(),
    "causal, aligned at the end": Causal("end"),
    "causal, aligned at the start": Causal("start"),
    "window": Window(2, 1, align="end"),
    "dilated window": Window(1, 1, dilation=2, align="start"),
    "padding": Padding(torch.tensor([3, 9])),
    "mask": Mask(keep=mask_of(5, 9)),
    "mask of keys": Mask(keep=torch.rand(2, 1, 1, 9) > 0.3),
    "several": Causal("end") & Window(3, 9, align="end") & Padding(torch.tensor([9, 7])),
    "segments": regard.Segments(torch.tensor([0, 0, 1, 1, 2]), torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2])),
}


def of(over: Structure, n: int = 5, m: int = 9, **more) -> regard.Record:
    """A record with one map over a structure, whatever model would make it."""
    q, k, v = heads(n, m, b=2)
    rec = regard.Record()
    amap = ScoredCall(q, k, v, 0.3, over, **more).map()
    amap.site = "site"
    rec.maps._by_site["site"] = amap
    return rec


@pytest.mark.parametrize("over", STRUCTURES.values(), ids=STRUCTURES)
def test_structures_come_back_in_closed_form(tmp_path, over):
    rec = of(over)
    again = saved(rec, tmp_path)
    assert_same(rec, again)
    every = slice(0, 5), slice(0, 9)
    assert torch.equal(rec.maps["site"].allowed(*every), again.maps["site"].allowed(*every))
    dense = [e for e in RecordFile(tmp_path / "run.regard").entries.values() if e["shape"][-2:] == [5, 9]]
    assert not dense, "an n x m tensor was written"


def test_an_image_window_comes_back(tmp_path):
    rec = of(Window(1, 1, grid=(2, 4)), n=8, m=8)
    assert_same(rec, saved(rec, tmp_path))


def test_soft_caps_sinks_and_biases_come_back(tmp_path):
    rec = of(Causal("end"), cap=2.0, sink=torch.tensor([0.5, -1.0]), bias=torch.randn(2, 1, 5, 9))
    assert_same(rec, saved(rec, tmp_path))


def test_rows_without_a_key_stay_empty(tmp_path):
    keep = mask_of(5, 9)
    keep[2] = False
    again = saved(of(Mask(keep=keep)), tmp_path)
    assert float(again.maps["site"].row(2).abs().max()) == 0.0


def toeplitz(n: int, m: int, h: int = 2) -> Tensor:
    line = torch.randn(h, n + m - 1, generator=torch.Generator().manual_seed(3))
    return torch.stack([line[:, n - 1 - i : n - 1 - i + m] for i in range(n)], 1)[None]


@pytest.mark.parametrize("size", [(5, 9), (9, 5), (6, 6)])
def test_a_bias_by_distance_is_kept_as_one_number_a_diagonal(tmp_path, size):
    n, m = size
    rec = of(Full(), n, m, bias=toeplitz(n, m))
    again = saved(rec, tmp_path)
    assert_same(rec, again)
    file = RecordFile(tmp_path / "run.regard")
    assert file.shape(file.about["maps"][0]["bias"]["diagonals"]) == (2, n + m - 1)
    assert_same(again, saved(again, tmp_path))


def test_a_bias_by_distance_that_also_closes_padding_is_split(tmp_path):
    bias = toeplitz(6, 6).repeat(2, 1, 1, 1)
    bias[1, :, :, 4:] = torch.finfo(torch.float32).min
    bias = bias.masked_fill(torch.ones(6, 6).triu(1).bool(), torch.finfo(torch.float32).min)
    rec = of(Full(), 6, 6, bias=bias)
    again = saved(rec, tmp_path)
    form = RecordFile(tmp_path / "run.regard").about["maps"][0]
    assert {"causal": 0} in form["over"] and set(form["bias"]) == {"diagonals"}
    torch.testing.assert_close(again.maps["site"].weights(), rec.maps["site"].weights(), atol=1e-7, rtol=0)


def test_a_bias_that_differs_along_one_diagonal_is_kept_whole(tmp_path):
    bias = toeplitz(6, 6)
    bias[0, 0, 3, 3] += 1e-6
    rec = of(Full(), 6, 6, bias=bias)
    assert_same(rec, saved(rec, tmp_path))
    assert set(RecordFile(tmp_path / "run.regard").about["maps"][0]["bias"]) == {"pairs"}


def test_a_bias_that_layers_share_stands_once(tmp_path):
    q, k, v = heads(6, b=2)
    bias = torch.randn(1, 2, 6, 6)
    rec = regard.Record()
    for name in ("a", "b", "c"):
        rec.maps._by_site[name] = ScoredCall(q, k, v, bias=bias).map()
        rec.maps[name].site = name
    assert_same(rec, saved(rec, tmp_path))
    assert sum(name.endswith(".bias") for name in RecordFile(tmp_path / "run.regard").entries) == 1


@pytest.mark.parametrize("keep", ["weights", "topk"])
def test_other_ways_to_keep_come_back(tmp_path, keep):
    rec = recorded(b=2, n=12, record={"keep": keep, "k": 3})
    assert_same(rec, saved(rec, tmp_path))


def test_statistics_come_back(tmp_path):
    rec = recorded(b=2, record={"keep": "stats"})
    again = saved(rec, tmp_path)
    (name,) = rec.stats
    for a, b in zip(rec.stats[name], again.stats[name], strict=True):
        for x, y in zip(a if isinstance(a, tuple) else (a,), b if isinstance(b, tuple) else (b,), strict=True):
            assert (x is None and y is None) or torch.equal(x, y)


def test_gradients_come_back(tmp_path):
    q, k, v = heads(6)
    with regard.record(grad=True) as rec:
        out = Plain()(q.requires_grad_(), k, v, is_causal=True)
    out.square().sum().backward()
    again = saved(rec, tmp_path)
    (name,) = rec.gradients
    assert torch.equal(rec.gradients[name].weights(), again.gradients[name].weights())
    assert float(again.gradients[name].weights()[0, 0].triu(1).abs().max()) == 0.0


def test_gradients_of_a_layer_of_ours_come_back(tmp_path):
    torch.manual_seed(0)
    layer = regard.nn.Attention(8, heads=2)
    with regard.record(layer, grad=True) as rec:
        out = layer(torch.randn(2, 5, 8), over=Causal()).out
    out.square().sum().backward()
    again = saved(rec, tmp_path)
    (name,) = rec.gradients
    for copy in (again, saved(again, tmp_path)):
        assert torch.equal(rec.gradients[name].weights(), copy.gradients[name].weights())
        assert float(copy.gradients[name].weights()[0, 0].triu(1).abs().max()) == 0.0


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_the_largest_weights_of_each_feature_come_back(tmp_path, dtype):
    q, k, v = heads(6)
    with regard.record(keep="topk", k=2, dtype=dtype) as rec:
        regard.attend(q, k, v, score=regard.scores.Dot(features=True))
    assert rec.maps["function"].features == 8
    assert_same(rec, saved(rec, tmp_path))
    assert dtype is None or 0.0 < rec.casting.largest < 0.01


def test_weights_that_a_model_wrote_out_come_back(tmp_path):
    q, k, v = heads(6)
    with regard.record() as rec:
        torch.softmax(q @ k.transpose(-1, -2), -1) @ v
    assert_same(rec, saved(rec, tmp_path))


def test_maps_over_edges_come_back(tmp_path):
    torch_geometric = pytest.importorskip("torch_geometric.nn")
    index = torch.tensor([[0, 1, 2, 2, 3, 3], [1, 0, 0, 2, 1, 2]])
    layer = torch_geometric.GATConv(4, 3, heads=2)
    with regard.record(layer) as rec:
        layer(torch.randn(4, 4), index)
    again = saved(rec, tmp_path)
    ((name, amap),) = rec.maps.items()
    assert torch.equal(amap.edges(), again.maps[name].edges())
    assert torch.equal(amap.loops, again.maps[name].loops)
    assert torch.equal(amap.weights(), again.maps[name].weights())


def test_a_layer_of_ours_over_edges_comes_back(tmp_path):
    index = torch.tensor([[0, 1, 2, 3, 3], [1, 0, 0, 1, 2]])
    layer = regard.nn.GATConv(4, 3, heads=2)
    with regard.record(layer) as rec:
        layer(torch.randn(4, 4), index)
    again = saved(rec, tmp_path)
    ((name, amap),) = rec.maps.items()
    torch.testing.assert_close(amap.edges(), again.maps[name].edges())
    torch.testing.assert_close(amap.weights(), again.maps[name].weights())


def test_a_function_of_the_user_is_kept_by_what_it_does(tmp_path):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v = heads(128, d=16)
    mask = create_block_mask(lambda b, h, i, j: (i - j).abs() % 3 == 0, None, None, 128, 128, device="cpu")
    with regard.record() as rec:
        flex_attention(q, k, v, block_mask=mask)
        flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i == j) * 2.0)
    assert_same(rec, saved(rec, tmp_path))
    first, second = RecordFile(tmp_path / "run.regard").about["maps"]
    assert first["kind"] == "scored" and "mask" in first["over"][0]
    assert second["kind"] == "weights"


def llama(**more):
    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=64,
        max_position_embeddings=128,
        **more,
    )
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).eval()


def test_the_keys_of_a_cache_stand_once_for_all_steps(tmp_path):
    model = llama()
    with regard.record(model) as rec, torch.no_grad():
        model.generate(torch.arange(5)[None] + 3, max_new_tokens=9, do_sample=False, pad_token_id=0)
    assert len(rec.maps) == 2 * 9
    assert_same(rec, saved(rec, tmp_path))
    keys = [
        entry["shape"] for name, entry in RecordFile(tmp_path / "run.regard").entries.items() if name.endswith(".k")
    ]
    assert keys == [[1, 2, 13, 8]] * 2


def test_t5_keeps_its_relative_bias_as_diagonals(tmp_path):
    config = transformers.T5Config(d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, vocab_size=64)
    model = transformers.T5Model(config).eval()
    mask = torch.tensor([[1] * 12, [1] * 7 + [0] * 5])
    with regard.record(model) as rec, torch.no_grad():
        model(
            input_ids=torch.arange(24).reshape(2, 12) + 3,
            attention_mask=mask,
            decoder_input_ids=torch.arange(12).reshape(2, 6) + 3,
        )
    again = saved(rec, tmp_path)
    for name, amap in rec.maps.items():
        torch.testing.assert_close(amap.weights(), again.maps[name].weights(), atol=1e-6, rtol=0)
    forms = RecordFile(tmp_path / "run.regard").about["maps"]
    assert [
        form["bias"] for form in forms if form["site"].startswith("encoder") and "diagonals" not in form["bias"]
    ] == []


def test_the_size_follows_from_queries_keys_and_row_states(tmp_path):
    """12 layers x 12 heads of 64 at 4,096 tokens, 16 bits: 12 * 12 * 4096 * (2 * 64 * 2 + 4) = 153.4 MB."""
    layers, h, d, n = 3, 12, 64, 128
    with regard.record() as rec:
        for layer in range(layers):
            q, k, v = heads(n, h=h, d=d, dtype=torch.bfloat16)
            Plain()(q, k + layer, v, is_causal=True)
    size = rec.save(tmp_path / "run.regard").stat().st_size
    exact = layers * h * n * (2 * d * 2 + 4)
    assert 0 <= size - exact < 4096
    assert 12 * 12 * 4096 * (2 * 64 * 2 + 4) + 4 * 4096 < 160e6


def test_down_casting_is_measured_and_kept(tmp_path):
    q, k, v = heads(40)
    with regard.record(dtype=torch.float16) as rec:
        Plain()(q, k, v)
    exact = torch.softmax(q.double() @ k.double().transpose(-1, -2) / 8**0.5, -1)
    sampled = torch.linspace(0, 39, 16).round().long()
    (amap,) = rec.maps.values()
    found = (amap.weights().double() - exact)[:, :, sampled].abs().max()
    again = saved(rec, tmp_path)
    assert float(found) > 0 and again.casting.largest == pytest.approx(float(found), rel=0.05)
    assert again.casting.rows == 16 and again.casting.dtype == "float16"


def test_down_casting_of_the_largest_weights_counts_those_alone():
    rec = recorded(n=40, record={"keep": "topk", "k": 2, "dtype": torch.bfloat16})
    assert 0 < rec.casting.largest < 2**-9, "half a step of bfloat16 below 1"


def test_a_model_runs_on_with_the_weights_of_a_file(tmp_path):
    model, ids = llama(), torch.arange(9)[None]
    with regard.record(model) as rec, torch.no_grad():
        plain = model(ids).logits
    again = saved(rec, tmp_path)
    with regard.intervene(model, {"*": regard.interventions.Freeze(again)}), torch.no_grad():
        frozen = model(ids).logits
    torch.testing.assert_close(frozen, plain, atol=1e-5, rtol=0)


def test_a_record_says_what_it_was_made_with(tmp_path):
    model = llama()
    with regard.record(model) as rec, torch.no_grad():
        model(torch.arange(5)[None])
        torch.sigmoid(torch.randn(4, 4)) @ torch.randn(4, 4)
    rec.missed["x: y"] += 2
    again = saved(rec, tmp_path)
    assert again.about["class"] == "LlamaForCausalLM" and again.about["parameters"] > 0
    assert again.made["torch"] == torch.__version__ and "transformers" in again.made
    assert again.missed == rec.missed


def test_loading_reads_nothing_before_it_is_looked_at(tmp_path):
    rec = saved(recorded(), tmp_path)
    assert dict.__getitem__(rec.maps._by_site, next(iter(rec.maps))) is None
    (amap,) = rec.maps.values()
    assert amap.site == next(iter(rec.maps))


def test_what_is_read_can_be_changed_without_changing_the_file(tmp_path):
    rec = saved(recorded(), tmp_path)
    before = (tmp_path / "run.regard").read_bytes()
    (amap,) = rec.maps.values()
    amap._source.q.mul_(0)
    assert (tmp_path / "run.regard").read_bytes() == before


def test_safetensors_opens_it(tmp_path):
    from safetensors import safe_open

    rec = recorded()
    rec.save(tmp_path / "run.regard")
    (amap,) = rec.maps.values()
    with safe_open(tmp_path / "run.regard", "pt") as file:
        assert torch.equal(file.get_tensor("0.q"), amap._source.q)


# written whole or not at all


def test_saving_over_a_record_that_is_open_leaves_its_maps_alone(tmp_path):
    first = saved(recorded(n=6), tmp_path)
    expected = next(iter(recorded(n=6).maps.values())).weights()
    recorded(n=50).save(tmp_path / "run.regard")
    (amap,) = first.maps.values()
    assert torch.equal(amap.weights(), expected)


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    rec = recorded()
    path = rec.save(tmp_path / "run.regard")
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        recorded(n=9).save(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["run.regard"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="This system has no kill -9.")
def test_kill_while_writing_leaves_the_old_file(tmp_path):
    path = recorded().save(tmp_path / "run.regard")
    before = path.read_bytes()
    code = """
        import os, signal, sys, torch
        from regard.recording.io.writing import Table
        table = Table()
        table.add("x", torch.zeros(1000))
        os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
        table.write(sys.argv[1], {"format": "regard record"})
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert path.read_bytes() == before
    assert len(regard.load(path).maps) == 1


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        recorded().save(tmp_path / "nowhere" / "run.regard")
    with pytest.raises(IsADirectoryError, match="name a file"):
        recorded().save(tmp_path)
    with pytest.raises(FileNotFoundError, match="no such file"):
        regard.load(tmp_path / "missing.regard")


# truncated and hostile files


@pytest.fixture
def good(tmp_path) -> tuple[dict, dict, bytes, Path]:
    """Header, description, data, and where to write the bad one."""
    path = recorded(is_causal=True).save(tmp_path / "good.regard")
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + size])
    return header, json.loads(header["__metadata__"]["regard"]), raw[8 + size :], tmp_path / "bad.regard"


def refused(path: Path, header, about, data: bytes, says: str) -> None:
    if isinstance(header, dict):
        text = about if isinstance(about, str) else json.dumps(about)
        header = json.dumps({**header, "__metadata__": {"regard": text}})
    header = header if isinstance(header, bytes) else header.encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)
    with pytest.raises(BadRecord, match=says) as told:
        rec = regard.load(path)
        for amap in rec.maps.values():
            amap.weights()
    assert str(path) in str(told.value)


@pytest.mark.parametrize("length", [0, 5, 8, 100, 1000, -1, -100])
def test_a_file_that_was_cut_off_is_refused(tmp_path, length):
    path = recorded().save(tmp_path / "run.regard")
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(BadRecord, match=r"cut off|does not fit|not readable"):
        regard.load(path)


def test_bytes_after_the_end_are_refused(good):
    header, about, data, path = good
    refused(path, header, about, data + b"more", "after its last tensor")


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"PK\x03\x04" + bytes(64), "zip archive"),
        (struct.pack("<Q", 2**63), "header claims"),
        (struct.pack("<Q", 4) + b"\xff\xfe\xfd\xfc", "not readable JSON"),
        (struct.pack("<Q", 2) + b"[]", "not a JSON object"),
        (struct.pack("<Q", 2) + b"{}", "without a record"),
        (struct.pack("<Q", 100_000) + b"[" * 100_000, "not a JSON object"),
        (struct.pack("<Q", 4006) + b'{"a":' + b"[" * 2000 + b"]" * 2000 + b"}", "not readable JSON|nests deeper"),
        (struct.pack("<Q", 5000) + b"9" * 5000, "not a JSON object"),
    ],
)
def test_what_is_no_record_is_refused(tmp_path, raw, says):
    path = tmp_path / "bad.regard"
    path.write_bytes(raw)
    with pytest.raises(BadRecord, match=says):
        regard.load(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"dtype": "F128"}, "has the type"),
        ({"dtype": ["F32"]}, "has the type"),
        ({"shape": [1, 2, 6, 10**15]}, "an axis is too long"),
        ({"shape": [-1, 2, 6, 8]}, "whole numbers"),
        ({"shape": [1.0, 2, 6, 8]}, "whole numbers"),
        ({"shape": [True, 2, 6, 8]}, "whole numbers"),
        ({"shape": [1] * 9}, "up to 8"),
        ({"shape": [10**9, 0]}, "an axis is too long"),
        ({"shape": [1, 2, 6, 7]}, "does not fit"),
        ({"data_offsets": [0, 10**12]}, "cut off"),
        ({"data_offsets": [8, 4]}, "cut off"),
        ({"data_offsets": [-8, 376]}, "a start and an end"),
        ({"data_offsets": [4, 388]}, "overlap or leave holes"),
        ({"path": "../../etc/passwd"}, "dtype, shape and data_offsets alone"),
    ],
)
def test_tensors_that_lie_about_themselves_are_refused(good, change, says):
    header, about, data, path = good
    header["0.q"] = header["0.q"] | change
    refused(path, header, about, data, says)


def test_names_are_keys_and_never_paths(good):
    header, about, data, path = good
    header["../../outside"] = header.pop("0.q")
    about["maps"][0]["q"] = "../../outside"
    text = json.dumps({**header, "__metadata__": {"regard": json.dumps(about)}}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    before = sorted(path.parent.parent.rglob("*"))
    (amap,) = regard.load(path).maps.values()
    assert torch.isfinite(amap.weights()).all()
    assert sorted(path.parent.parent.rglob("*")) == before


def test_a_name_that_stands_twice_is_refused(good):
    header, about, data, path = good
    text = json.dumps({**header, "__metadata__": {"regard": json.dumps(about)}})
    twice = text[:-1] + ', "0.q": ' + json.dumps(header["0.q"]) + "}"
    refused(path, twice, about, data, "stands twice")
    about["maps"] *= 2
    refused(path, header, about, data, "stands twice")


@pytest.mark.parametrize(
    ("where", "value", "says"),
    [
        (("version",), 2, "pip install -U regard"),
        (("version",), "1", "its version is"),
        (("format",), "other", "not that of a record"),
        (("maps",), {}, "a list is expected"),
        (("maps", 0, "kind"), "pickle", "of the kind"),
        (("maps", 0, "q"), "nothing", "no tensor"),
        (("maps", 0, "q"), ["0.q"], "no tensor"),
        (("maps", 0, "tau"), "0.q", "expected F32"),
        (("maps", 0, "m"), 7, "keys of"),
        (("maps", 0, "m"), -1, "keys of"),
        (("maps", 0, "scale"), "2", "a number is expected"),
        (("maps", 0, "over"), [{"causal": 3}], "shifted by"),
        (("maps", 0, "over"), [{"causal": 0}] * 40, "up to 16"),
        (("maps", 0, "over"), [{"eval": "1"}], "none that is known"),
        (("maps", 0, "over"), [{"mask": "0.q", "shape": [1, 2, 6, 6]}], "expected U8"),
        (("maps", 0, "over"), [{"mask": "0.q", "shape": [9, 9, 9, 9]}], "does not fit a map"),
        (("maps", 0, "over"), [{"window": [-1, 2], "dilation": 1, "shift": 0}], "whole numbers"),
        (("maps", 0, "over"), [{"window": [1, 2], "dilation": 1, "grid": [10**9, 10**9]}], "does not fit together"),
        (("maps", 0, "over"), [{"lengths": "0.tau"}], "expected I64"),
        (("maps", 0, "bias"), {"diagonals": "0.tau"}, "expected"),
        (("maps", 0, "bias"), {"pairs": "0.q"}, "does not fit a map"),
        (("maps", 0, "site"), 3, "the site"),
        (("labels",), {"runs": [{"source": [{"names": [1]}]}]}, "labels are not names"),
        (("labels",), {"runs": [{"source": [{"names": ["a"], "text": "a", "spans": [[0, 9]]}]}]}, "labels are not"),
        (("gradients",), [{"site": "x", "pull": "0.tau"}], "expected"),
        (("stats",), [{"site": "x", "entropy": "0.q", "mass": "0.q", "weight": "0.q", "key": "0.q"}], "expected I32"),
    ],
)
def test_a_description_that_does_not_fit_its_tensors_is_refused(good, where, value, says):
    header, about, data, path = good
    inner = about
    for step in where[:-1]:
        inner = inner[step]
    inner[where[-1]] = value
    refused(path, header, about, data, says)


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({"kind": "top", "lead": [1, 2], "m": 2**40, "weight": "w", "key": "k"}, "an axis has the length"),
        ({"kind": "top", "lead": [1, 2], "m": 3, "weight": "w", "key": "k"}, "keys go from"),
        ({"kind": "top", "lead": [10**9, 10**9], "m": 9, "weight": "w", "key": "k"}, "expected"),
        ({"kind": "edges", "lead": [2], "n": 10**12, "m": 1, "edge_index": "e"}, "an axis has the length"),
    ],
)
def test_lengths_that_no_tensor_bounds_are_bounded(tmp_path, form, says):
    from regard.recording.io.writing import Table

    table = Table()
    table.add("w", torch.zeros(2, 3, 1))
    table.add("k", torch.full((2, 3, 1), 5, dtype=torch.int32))
    table.add("e", torch.zeros(2, 3, dtype=torch.int64))
    about = {
        "format": "regard record",
        "version": 1,
        "made": {},
        "model": {},
        "keep": "topk",
        "missed": {},
        "casting": None,
        "labels": {"runs": []},
        "stats": [],
        "gradients": [],
        "maps": [{"site": "x"} | form],
    }
    path = table.write(tmp_path / "bad.regard", about)
    with pytest.raises(BadRecord, match=says):
        regard.load(path).maps["x"].weights()


def test_numbers_that_json_does_not_have_are_refused(good):
    header, about, data, path = good
    about["maps"][0]["scale"] = float("nan")
    refused(path, header, json.dumps(about), data, "NaN is no number")


def test_random_damage_is_refused_or_harmless(good):
    """A byte changed in the header gives a record or a BadRecord, never another error."""
    header, about, data, path = good
    text = json.dumps({**header, "__metadata__": {"regard": json.dumps(about)}}).encode()
    raw = bytearray(struct.pack("<Q", len(text)) + text + data)
    draw = np.random.default_rng(0)
    for _ in range(300):
        bad = bytearray(raw)
        for _ in range(3):
            bad[draw.integers(8, 8 + len(text))] = draw.integers(32, 127)
        path.write_bytes(bad)
        try:
            for amap in regard.load(path).maps.values():
                amap.weights()
        except BadRecord:
            continue


def test_any_value_anywhere_in_a_description_is_refused_or_harmless(tmp_path):
    """Each node of a rich description is replaced in turn by things of other kinds."""
    rec = of(Causal("end") & Mask(keep=mask_of(5, 9)), cap=2.0, sink=torch.zeros(2), bias=torch.randn(2, 1, 5, 9))
    for keep in ("topk", "weights", "stats"):
        more = recorded(record={"keep": keep})
        rec.stats.update(more.stats)
        for amap in more.maps.values():
            rec.maps._by_site[keep] = amap
    q, k, v = heads(6)
    with regard.record(grad=True) as more:
        Plain()(q.requires_grad_(), k, v).sum().backward()
    rec.gradients.update(more.gradients)
    path = rec.label(tokens=list("abcde")).save(tmp_path / "run.regard")
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + size])
    text = header["__metadata__"]["regard"]

    def nodes(x, way=()):
        for key in x if isinstance(x, dict) else range(len(x)) if isinstance(x, list) else ():
            yield (*way, key)
            yield from nodes(x[key], (*way, key))

    values = [None, -1, 2**63, 10**40, 0.5, "x", "0.q", [], {}, [[0, 1]], True]
    for place, way in enumerate(nodes(json.loads(text))):
        about = inner = json.loads(text)
        for step in way[:-1]:
            inner = inner[step]
        inner[way[-1]] = values[place % len(values)]
        header["__metadata__"]["regard"] = json.dumps(about)
        made = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(made)) + made + raw[8 + size :])
        try:
            again = regard.load(path)
            for amap in (*again.maps.values(), *again.gradients.values()):
                amap.weights()
        except BadRecord:
            continue


# without torch


def test_the_recipe_of_the_documentation_reads_a_record_without_torch(tmp_path):
    page = Path(__file__).parents[3] / "docs" / "recording" / "record_file.md"
    recipe = page.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    keep = mask_of(7, 7) | torch.eye(7).bool()
    q, k, v = heads(7, h=4, dtype=torch.bfloat16)
    expected = {}
    rec = regard.Record()
    for name, call in {
        "causal": ScoredCall(q, k, v, over=Causal("end")),
        "window": ScoredCall(q, k, v, over=Window(2, 1)),
        "mask": ScoredCall(q, k[:, :2], v[:, :2], over=Mask(keep=keep)),
        "bias": ScoredCall(q, k, v, 0.2, cap=3.0, bias=toeplitz(7, 7, h=4)),
        "pairs": ScoredCall(q, k, v, 0.2, bias=torch.randn(1, 1, 7, 7)),
        "padding": ScoredCall(q, k, v, over=Padding(torch.tensor([4]))),
    }.items():
        rec.maps._by_site[name] = call.map()
        rec.maps[name].site = name
        expected[name] = rec.maps[name].weights()[0, 3].numpy()
    path = rec.save(tmp_path / "run.regard")
    np.savez(tmp_path / "expected.npz", **expected)
    code = (
        "import sys\nsys.modules['torch'] = sys.modules['regard'] = None\n"
        + recipe.replace("run.regard", path.as_posix())
        + "\nwant = np.load(sys.argv[1])\n"
        "for name in want:\n"
        "    got = weights(name, 0, 3, slice(1, 6), slice(2, 7))\n"
        "    assert abs(got - want[name][1:6, 2:7]).max() < 1e-6, name\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "expected.npz")], check=True)


def test_the_reader_needs_numpy_alone(tmp_path):
    path = recorded(dtype=torch.bfloat16).save(tmp_path / "run.regard")
    reader = Path(regard.__file__).parent / "recording" / "io" / "reading.py"
    code = (
        "import sys; sys.modules['torch'] = sys.modules['regard'] = None\n"
        f"exec(open({str(reader)!r}).read())\n"
        f"file = RecordFile({str(path)!r})\n"
        "assert file.array('0.q').dtype == np.float32 and file.about['maps'][0]['kind'] == 'scored'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
