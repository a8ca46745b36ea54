"""Packed sequences, jagged or by cu_seqlens, are attended as each would be alone, on every backend."""

import random
from itertools import pairwise

import pytest
import torch
from torch.testing import assert_close

import regard
from regard import Causal, Full, Refused, ScaledDot, Segments, Window, attend, attend_packed
from regard.core.registry import backends


def sequences(seed, widths=(4, 4, 5), heads=(4, 2, 2), dtype=torch.float64, cross=False):
    """Random q, k, v of each sequence, (H, n, d); some are empty."""
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(rng.randint(1, 5)):
        n = rng.choice([0, 1, 2, 5, 9])
        m = rng.choice([1, 3, 7, 9]) if cross else n
        sizes = zip(heads, (n, m, m), widths, strict=True)
        made.append([torch.randn(h, rows, d, generator=generator, dtype=dtype) for h, rows, d in sizes])
    return made


def starts(parts):
    return torch.tensor([0] + [part.shape[-2] for part in parts]).cumsum(0)


def packed(made, grad=False):
    """(T, H, d) of q, k, v, and their cu_seqlens."""
    lists = list(zip(*made, strict=True))
    rows = [torch.cat([x.transpose(0, 1) for x in parts]).requires_grad_(grad) for parts in lists]
    return rows, starts(lists[0]), starts(lists[1])


OVER = {
    "full": (None, None),
    "causal": (Causal(), Causal("end")),
    "window": (Window(2, 1), Window(2, 1, align="end")),
    "both": (Causal() & Window(2, 0), Causal("start") & Window(2, 0, align="start")),
}


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("name", OVER)
@pytest.mark.parametrize("align", ["softmax", "entmax15", "sigmoid"])
@pytest.mark.parametrize("seed", range(3))
def test_packed_sequences_are_attended_one_by_one(seed, align, name, cross):
    made = sequences(seed, cross=cross)
    over = OVER[name][cross]
    rows, queries, keys = packed(made, grad=True)
    expected = torch.cat([attend(*one, align=align, over=over).out.transpose(0, 1) for one in made])
    ends = (queries, keys) if cross else (queries,)
    alone = [x.detach().clone().requires_grad_() for x in rows]
    split = [x.split(s.diff().tolist()) for x, s in zip(alone, (queries, keys, keys), strict=True)]
    each = [[x.transpose(0, 1) for x in one] for one in zip(*split, strict=True)]
    by_itself = torch.cat([attend(*one, align=align, over=over).out.transpose(0, 1) for one in each])
    wanted = torch.autograd.grad(by_itself.square().sum(), alone)
    ran = 0
    for backend in ["auto", *(backend.name for backend in backends())]:
        try:
            found = attend_packed(*rows, *ends, align=align, over=over, backend=backend)
        except Refused:
            continue
        ran += 1
        assert_close(found.out, expected, msg=lambda e, backend=backend: f"{backend}: {e}")
        grads = torch.autograd.grad(found.out.square().sum(), rows)
        for ours, theirs in zip(grads, wanted, strict=True):
            assert_close(ours, theirs, msg=lambda e, backend=backend: f"{backend}: {e}")
    assert ran >= 3  # auto, the reference and chunked


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("name", OVER)
def test_jagged_tensors_come_back_jagged(name, cross):
    made = [one for one in sequences(4, cross=cross, dtype=torch.float32) if one[0].shape[1]]
    over = OVER[name][cross]
    leaves, queries, keys = packed(made, grad=True)
    offsets = [queries, keys, keys] if cross else [queries, queries, queries]
    nested = [torch.nested.nested_tensor_from_jagged(x, o) for x, o in zip(leaves, offsets, strict=True)]
    found = attend(*(x.transpose(1, 2) for x in nested), over=over)
    assert found.out.is_nested and found.out.shape[:2] == (len(made), 4)
    for out, one in zip(found.out.unbind(), made, strict=True):
        assert_close(out, attend(*one, over=over).out)
    found.out.values().square().sum().backward()
    wanted = [x.clone().requires_grad_() for x in made[0]]
    attend(*wanted, over=over).out.square().sum().backward()
    for x, one in zip(leaves, wanted, strict=True):
        assert_close(x.grad[: one.shape[1]].transpose(0, 1), one.grad)
    leaf = torch.nested.nested_tensor(
        [torch.randn(3, 2, 4), torch.randn(2, 2, 4)], layout=torch.jagged
    ).requires_grad_()
    attend(*[leaf.transpose(1, 2)] * 3).out.values().sum().backward()
    assert leaf.grad.is_nested and leaf.grad.values().abs().sum() > 0


def test_segments_of_cu_seqlens_are_those_of_ids():
    q = torch.randn(2, 9, 4)
    cu = torch.tensor([0, 3, 3, 7, 9], dtype=torch.int32)
    assert_close(
        attend(q, q, q, over=Segments.packed(cu)).out,
        attend(q, q, q, over=Segments(torch.tensor([0, 0, 0, 2, 2, 2, 2, 3, 3]))).out,
    )
    key = torch.tensor([0, 1, 2, 4, 9])
    assert attend(q, q, q, over=Segments.packed(cu, key)).out.shape == q.shape


def test_a_layer_over_jagged_sequences_is_the_layer_over_each():
    torch.manual_seed(0)
    layer = regard.nn.Attention(8, 4, kv_heads=2, rotary=True)
    parts, others = ([torch.randn(n, 8) for n in sizes] for sizes in ((5, 2, 7), (4, 6, 1)))
    nested = torch.nested.nested_tensor(parts, layout=torch.jagged)
    memory = torch.nested.nested_tensor(others, layout=torch.jagged)
    out = layer(nested, over=Causal()).out
    assert out.is_nested
    for found, one in zip(out.unbind(), parts, strict=True):
        assert_close(found, layer(one, over=Causal()).out, atol=2e-6, rtol=1e-4)
    for found, one, other in zip(layer(nested, memory).out.unbind(), parts, others, strict=True):
        assert_close(found, layer(one, other).out, atol=2e-6, rtol=1e-4)
    assert_close((nested + out).values(), nested.values() + out.values())  # the same jagged axis: a residual adds up


def test_structures_by_name_hold_within_each_sequence():
    torch.manual_seed(0)
    layer = regard.nn.Attention(8, 2)
    nested = torch.nested.nested_tensor([torch.randn(5, 8), torch.randn(3, 8)], layout=torch.jagged)
    q = nested.unflatten(-1, (2, 4)).transpose(1, 2)
    for name, over in (("causal", Causal()), ("full", Full())):
        assert_close(attend(q, q, q, over=name).out.values(), attend(q, q, q, over=over).out.values())
        assert_close(layer(nested, over=name).out.values(), layer(nested, over=over).out.values())
        rows, cu = q.values().transpose(0, 1), torch.tensor([0, 5, 8])
        assert_close(attend_packed(*[rows] * 3, cu, over=name).out, attend_packed(*[rows] * 3, cu, over=over).out)
    assert_close(attend(q, q, q, is_causal=True).out.values(), attend(q, q, q, over=Causal()).out.values())
    assert_close(layer(nested, is_causal=True).out.values(), layer(nested, over=Causal()).out.values())
    with pytest.raises(ValueError, match="did you mean 'causal'"):
        attend(q, q, q, over="casual")


def test_the_map_of_packed_sequences_has_their_weights():
    made = sequences(7, dtype=torch.float32)
    rows, cu, _ = packed(made)
    amap = attend_packed(*rows, cu).map
    for (start, stop), one in zip(pairwise(cu), made, strict=True):
        if stop > start:
            weights = amap.tile(slice(int(start), int(stop)), slice(int(start), int(stop)))
            assert_close(weights, attend(*one).map.weights())


def test_wrong_packings_say_what_to_type():
    q = torch.randn(6, 2, 4)
    jagged = torch.nested.nested_tensor([torch.randn(3, 2, 4), torch.randn(2, 2, 4)], layout=torch.jagged)
    nested = jagged.transpose(1, 2)
    for call, words in (
        (lambda: attend_packed(q, q, q, torch.tensor([0, 3])), "6 last"),
        (lambda: attend_packed(q, q, q, torch.tensor([0, 4, 2, 6])), "no decrease"),
        (lambda: attend_packed(q, q, q, torch.tensor([0.0, 6.0])), "expected integers"),
        (lambda: attend_packed(q, q[:4], q[:4], torch.tensor([0, 6])), "key_cu_seqlens"),
        (lambda: attend_packed(q[0], q, q, torch.tensor([0, 6])), "rows of all sequences, heads, width"),
        (lambda: attend_packed(q, q[:4], q[:4], torch.tensor([0, 6]), torch.tensor([0, 4]), over=Causal()), "align="),
        (lambda: attend_packed(q, q, q, torch.tensor([0, 6]), over=regard.Mask(keep=torch.ones(6, 6).bool())), "over="),
        (lambda: attend(nested, torch.zeros(2, 2, 3, 4), nested), "k is not nested"),
        (lambda: attend(jagged, jagged, jagged), "jagged in axis 1 of 4"),
        (lambda: attend(torch.nested.nested_tensor([torch.zeros(2, 3)]), nested, nested), "strided NestedTensor"),
    ):
        with pytest.raises((ValueError, TypeError, Refused), match=words):
            call()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "runs on CUDA"),
        ({"align": "entmax15"}, "softmax of"),
        ({"over": Window(-1, 3)}, "aligned at the end"),
        ({"dropout": 0.5}, "no dropout"),
    ],
)
def test_the_varlen_kernel_is_refused_in_a_sentence(change, words):
    q = torch.randn(6, 2, 4)
    with pytest.raises(Refused, match=words):
        attend_packed(q, q, q, torch.tensor([0, 2, 6]), backend="varlen", **change)


def test_the_varlen_kernel_is_called_as_torch_declares_it():
    """By its shape function, on the meta device: the kernel itself needs a CUDA device."""
    q = torch.empty(6, 4, 64, device="meta", dtype=torch.bfloat16)
    k = torch.empty(6, 2, 64, device="meta", dtype=torch.bfloat16)
    cu = torch.empty(3, device="meta", dtype=torch.int32)
    for over in (None, Full(), Causal(), Window(4, 0)):
        out = attend_packed(q, k, k, cu, over=over, backend="varlen").out
        assert out.shape == q.shape and out.dtype == q.dtype


def test_a_call_of_a_varlen_kernel_runs_with_its_words():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 9, 2, 8)
    starts = torch.tensor([0, 4, 9], dtype=torch.int32)
    found = attend_packed(
        q, k, v, starts, starts, max_seqlen_q=5, max_seqlen_k=5, dropout_p=0.0, softmax_scale=0.3, causal=True
    )
    expected = attend_packed(q, k, v, starts, score=ScaledDot(scale=0.3), over=Causal())
    assert torch.equal(found.out, expected.out)
    for given, says in (
        ({"cu_seqlens_k": starts}, "write key_cu_seqlens="),
        ({"window_size": (4, 0)}, "write over=Window"),
        ({"attn_mask": torch.ones(9, 9)}, "over=Mask"),
        ({"bakend": "auto"}, "did you mean backend"),
    ):
        with pytest.raises(TypeError, match=says):
            attend_packed(q, k, v, starts, **given)
