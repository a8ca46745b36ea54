"""Ids outside a graph are an error in every backend, eager and compiled; on a GPU they are clamped and told later."""

import random
from weakref import ref

import pytest
import torch
from torch.testing import assert_close

from regard import Edges, attend
from regard.backends.numba_edges.backend import HAS_NUMBA
from regard.core.arguments import id_bounds as ids

OUTSIDE = (60, -1, 2**40, 10**7)  # the first three computed with foreign memory once, the last ended the process
NEEDS_NUMBA = pytest.mark.skipif(not HAS_NUMBA, reason="numba is not installed: pip install 'regard[graph]'.")
BACKENDS = ["reference", "chunked", pytest.param("edges-cpu", marks=NEEDS_NUMBA)]


def graph(seed, self_loops=False):
    """(edge_index, targets, sources), which differ in number unless each has a loop."""
    draw = torch.Generator().manual_seed(seed)
    n, m, edges = torch.randint(1, 50, (3,), generator=draw).tolist()
    m = n if self_loops else m
    ends = [torch.randint(0, size, (edges,), generator=draw) for size in (m, n)]
    return torch.stack(ends), n, m


def broken(index, n, m, seed):
    """One id of the graph outside, the row and the column of it, and the words that an error has for it."""
    chance = random.Random(seed)
    row, column = chance.randrange(2), chance.randrange(index.shape[1])
    size, end = ((m, "source"), (n, "target"))[row]
    number = chance.choice(
        [size, size + chance.randrange(100), -1, -chance.randrange(1, 2**62), 2**31 + 1, 2**32, 2**40]
    )
    index = index.clone()
    index[row, column] = number
    return index, rf"names {end} {number} \(edge {column}\), but there are {size} {end}s, 0 to {size - 1}\."


def along(index, n, m, backend="auto", **options):
    q, k, v = torch.randn(2, n, 4, requires_grad=True), torch.randn(2, m, 4), torch.randn(2, m, 3)
    return attend(q, k, v, "gatv2", over=Edges(index, **options), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("self_loops", [False, True])
def test_a_random_id_outside_a_random_graph_is_named(backend, self_loops):
    for seed in range(25):
        index, n, m = graph(seed, self_loops)
        along(index, n, m, backend, self_loops=self_loops)
        wrong, says = broken(index, n, m, seed)
        with pytest.raises(ValueError, match=r"Edges\(edge_index\) " + says):
            along(wrong, n, m, backend, self_loops=self_loops)


def test_an_id_that_is_written_into_edges_already_seen_is_named():
    index, n, m = graph(1)
    over = Edges(index)
    attend(torch.randn(n, 4), *torch.randn(2, m, 4), over=over)
    index[0, 0] = m
    for again in (over, Edges(index)):
        with pytest.raises(ValueError, match=f"names source {m}"):
            attend(torch.randn(n, 4), *torch.randn(2, m, 4), over=again)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.uint32, torch.uint64])
def test_ids_of_every_integer_type_are_held(dtype):
    index = torch.tensor([[0, 1, 2], [1, 2, 0]])
    assert_close(along(index.to(dtype), 3, 3).out.shape, along(index, 3, 3).out.shape)
    index[1, 2] = 100
    with pytest.raises(ValueError, match=r"names target 100 \(edge 2\)"):
        along(index.to(dtype), 3, 3)


def test_edges_where_there_are_no_nodes_name_none():
    with pytest.raises(ValueError, match="names targets, but there are none"):
        along(torch.zeros(2, 1, dtype=torch.long), 0, 3)
    assert along(torch.zeros(2, 0, dtype=torch.long), 0, 3).out.shape == (2, 0, 3)


@pytest.fixture
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.covered
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiled_function_names_them_as_eager_does(backend, dynamic):
    def run(q, x, index):
        return attend(q, x, x, "gatv2", over=Edges(index), backend=backend).out

    compiled = torch.compile(run, backend="aot_eager", fullgraph=backend != "reference", dynamic=dynamic)
    for seed in range(4):
        index, n, m = (torch.randint(0, 50, (2, 200)), 50, 50) if not dynamic else graph(seed)
        q, x = torch.randn(n, 4, requires_grad=True), torch.randn(m, 4, requires_grad=True)
        grads = [torch.autograd.grad(f(q, x, index).square().sum(), (q, x)) for f in (run, compiled)]
        assert_close(*grads)
        wrong, says = broken(index, n, m, seed)
        for f in (run, compiled):
            with pytest.raises(ValueError, match=r"Edges\(edge_index\) " + says):
                f(q, x, wrong).sum().backward()


@pytest.mark.usefixtures("fresh_compiler")
@torch._inductor.config.patch(compile_threads=1)
def test_inductor_reads_no_memory_by_them():
    compiled = torch.compile(lambda x, e: attend(x, x, x, over=Edges(e)).out)
    x, index = torch.randn(1, 1, 50, 8), torch.randint(0, 50, (2, 200))
    assert_close(compiled(x, index), attend(x, x, x, over=Edges(index)).out)
    for number in OUTSIDE:
        for row, end in enumerate(("source", "target")):
            wrong = index.clone()
            wrong[row, 5] = number
            with pytest.raises(ValueError, match=rf"names {end} {number} \(edge 5\), but there are 50 {end}s"):
                compiled(x, wrong)


def test_an_exported_program_names_them():
    class Layer(torch.nn.Module):
        def forward(self, x, index):
            return attend(x, x, x, over=Edges(index)).out

    x, index = torch.randn(1, 50, 8), torch.randint(0, 50, (2, 200))
    program = torch.export.export(Layer(), (x, index)).module()
    assert_close(program(x, index), Layer()(x, index))
    index[0, 5] = 60
    with pytest.raises(ValueError, match="names source 60"):
        program(x, index)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_the_operator_keeps_what_it_promises(dtype):
    index = torch.randint(0, 5, (7, 2)).to(dtype).t()
    names = ["edge_index", "edge", "Look again.", "source", "target"]
    torch.library.opcheck(torch.ops.regard.ids_within.default, (index, [5, 6], names))
    torch.library.opcheck(torch.ops.regard.ids_within.default, (index[0], [5], names[:4]))


def test_what_was_held_does_not_keep_a_graph_alive():
    index, n, m = graph(3)
    along(index, n, m)
    alive = ref(index)
    del index
    assert alive() is None


@pytest.fixture
def later(monkeypatch):
    """A CPU whose values are read no sooner than those of a GPU."""
    monkeypatch.setattr(ids, "READ_AT_ONCE", set())
    monkeypatch.setattr(ids, "_flags", {})


def by_kernels(q, k, v, over):
    pytest.importorskip("triton")
    from tests.backends.triton.edges.test_backend import attend as attend_by

    return attend_by("kernels", q, k, v, "gatv2", "softmax", over)


@pytest.mark.covered
@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("number", OUTSIDE)
@pytest.mark.parametrize("row, end", [(0, "source"), (1, "target")])
def test_a_gpu_computes_with_the_nearest_node_and_says_so_when_a_map_is_read(row, end, number):
    index, size = torch.randint(0, 50, (2, 60)), 50
    clamped = index.clone()
    index[row, 5], clamped[row, 5] = number, min(max(number, 0), size - 1)
    x = torch.randn(2, size, 4, requires_grad=True)
    ran, expected = (by_kernels(x, x, x, Edges(e)) for e in (index, clamped))
    assert_close(ran.out, expected.out, rtol=0, atol=0)
    assert_close(*(torch.autograd.grad(y.out.square().sum(), x)[0] for y in (ran, expected)), rtol=0, atol=0)
    says = rf"names {end} {number} \(edge 5\), but there are 50 {end}s, 0 to 49\."
    with pytest.raises(ValueError, match=says):
        ran.map.edges()
    by_kernels(x, x, x, Edges(index))  # the same tensor again: it is looked at again
    with pytest.raises(ValueError, match=says):
        expected.map.edges()
    expected.map.edges()  # said once


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("backend", ["reference", "chunked"])
def test_backends_that_wait_for_a_gpu_say_so_in_the_call_itself(backend):
    for seed in range(10):
        index, n, m = graph(seed)
        wrong, says = broken(index, n, m, seed)
        with pytest.raises(ValueError, match=says):
            along(wrong, n, m, backend)


@pytest.mark.usefixtures("later")
def test_with_regard_check_a_gpu_says_so_at_once(monkeypatch):
    monkeypatch.setenv("REGARD_CHECK", "1")
    for seed in range(10):
        index, n, m = graph(seed)
        wrong, says = broken(index, n, m, seed)
        x = torch.randn(2, n, 4)
        with pytest.raises(ValueError, match=says):
            by_kernels(x, *torch.randn(2, 2, m, 4), Edges(wrong))


@pytest.mark.usefixtures("later")
def test_the_first_of_many_outside_is_told_and_none_is_read():
    index = torch.tensor([[0, 1, 2, 9], [3, 0, -4, 2]])
    assert ids.ids_within(index, (3, 3), ids.EDGES).tolist() == [[0, 1, 2, 2], [2, 0, 0, 2]]
    assert ids.ids_within(index[0] + 9, (4,), ids.EDGES._replace(rows=("source",))).tolist() == [3, 3, 3, 3]
    with pytest.raises(ValueError, match=r"names source 9 \(edge 3\), but there are 3 sources"):
        ids.raise_flagged(index.device)
    ids.raise_flagged(index.device)


@pytest.mark.usefixtures("later")
def test_a_flag_is_there_before_a_compiled_function_runs():
    with torch._subclasses.FakeTensorMode() as mode:
        index = mode.from_tensor(torch.zeros(2, 3, dtype=torch.long))
        torch.ops.regard.ids_within(index, [3, 3], ["edge_index", "edge", "", "source", "target"])
    assert type(ids._flags[torch.device("cpu")]) is torch.Tensor


@pytest.mark.usefixtures("later", "fresh_compiler")
def test_compiled_for_a_gpu_ids_are_clamped_and_told_too(monkeypatch):
    index = torch.tensor([[0, 1, 7], [1, 2, 0]], dtype=torch.int32)
    compiled = torch.compile(lambda e: ids.ids_within(e, (3, 3), ids.EDGES) + 0, backend="aot_eager", fullgraph=True)
    assert compiled(index).tolist() == [[0, 1, 2], [1, 2, 0]]
    with pytest.raises(ValueError, match="names source 7"):
        ids.raise_flagged(index.device)
    monkeypatch.setenv("REGARD_CHECK", "1")
    with pytest.raises(ValueError, match="names source 7"):
        compiled(index)
