"""A recording that fails is an entry in `missed`: the run goes on, with the same outputs, and nothing runs twice."""

import copy
import inspect
import io
import sys
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Thread
from types import FunctionType

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from regard import attend, intervene, record
from regard.interventions import KnockOut, Uniform
from regard.recording.capture import calls, function_mode, key_buffer
from regard.recording.capture.edges import edge_maps
from regard.recording.capture.module_stack import innermost_module
from regard.recording.capture.tracing.lazy_origins import LazyOrigins
from regard.recording.capture.tracing.trace import Traces
from regard.recording.capture.tracing.tracer import Tracer
from regard.recording.missed import Missed
from regard.recording.record import Record

HERE = "test_nothing_raises.py"


class Heads(nn.Module):
    """Two heads of width 8, by the function that a subclass gives."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x, mask=None):
        q, k, v = (part.unflatten(-1, (2, 8)).transpose(-2, -3) for part in self.qkv(x).chunk(3, -1))
        return self.attention(q, k, v, mask).transpose(-2, -3).flatten(-2)


class Fused(Heads):
    def attention(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, mask)


class Written(Heads):
    """A softmax by hand, with dropout and a change in place after it."""

    def attention(self, q, k, v, mask):
        weights = F.dropout((q @ k.mT).softmax(-1), 0.3, self.training)
        if self.training:
            weights *= 0.5
        return weights @ v


class Ours(Heads):
    def attention(self, q, k, v, mask):
        return attend(q, k, v).out


class Net(nn.Module):
    """Attention in every form of torch's."""

    def __init__(self):
        super().__init__()
        self.fused, self.written, self.ours = Fused(), Written(), Ours()
        self.mha = nn.MultiheadAttention(16, 2, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(16, 2, 16, batch_first=True)

    def forward(self, x):
        x = self.ours(self.written(self.fused(x, torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool))))
        return self.layer(self.mha(x, x, x)[0])


class TorchAlone(nn.Module):
    """What torch traces and transforms: without our own attend, whose plans are Python."""

    def __init__(self):
        super().__init__()
        self.fused, self.written = Fused(), Written()
        self.mha = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x):
        x = self.written(self.fused(x))
        return self.mha(x, x, x)[0]


SITES = ["fused", "written", "mha"]


@pytest.fixture
def net():
    torch.manual_seed(0)
    return TorchAlone().eval()


X = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(1))


def both(run, model):
    """What a run gives without and with a record, and the record; the random numbers are the same."""
    torch.manual_seed(2)
    bare = run()
    torch.manual_seed(2)
    with record(model) as rec:
        out = run()
    return bare, out, rec


def assert_equal(bare, out):
    leaves = [torch.utils._pytree.tree_leaves(x) for x in (bare, out)]
    assert len(leaves[0]) == len(leaves[1])
    for a, b in zip(*leaves, strict=True):
        assert torch.equal(a, b)


def by_vmap(net):
    return torch.vmap(net)(X[:, None])


def by_grad(net):
    def loss(parameters):
        return torch.func.functional_call(net, parameters, (X,)).square().sum()

    return torch.func.grad(loss)({name: x.detach() for name, x in net.named_parameters()})


def by_jacobian(net):
    return torch.func.jacrev(net)(X[:1])


def by_export(net):
    return torch.export.export(net, (X,)).module()(X)


def by_trace(net):
    return torch.jit.trace(net, (X,), check_trace=False)(X)


def by_make_fx(net):
    return make_fx(net)(X)(X)


@pytest.mark.parametrize("run", [by_vmap, by_grad, by_jacobian, by_export, by_trace, by_make_fx])
def test_transforms_and_traces_run_as_they_are_and_each_attention_is_told_with_its_line(net, run):
    bare, out, rec = both(lambda: run(net), net)
    assert_equal(bare, out)
    assert not rec.maps
    told = {missed.site for missed in rec.missed}
    assert told == set(SITES)
    for missed in rec.missed:
        assert ("torch.func" if run in (by_vmap, by_grad, by_jacobian) else "traces") in missed.reason
        assert missed.file == HERE and 0 < missed.line < 120


def test_the_graph_of_a_traced_model_holds_nothing_of_the_recorders(net):
    def nodes():
        return [str(node.target) for node in torch.export.export(net, (X,)).graph.nodes]

    bare, out, _ = both(nodes, net)
    assert bare == out


def test_an_export_that_reads_the_code_goes_on(net):
    bare, out, _ = both(lambda: torch.export.export(net, (X,), strict=True).module()(X), net)
    assert_equal(bare, out)


def test_tensors_without_numbers_are_told(net):
    meta = copy.deepcopy(net).to("meta")
    bare, out, rec = both(lambda: meta(X.to("meta")).shape, meta)
    assert bare == out and not rec.maps
    assert {missed.site: "meta" in missed.reason for missed in rec.missed} == dict.fromkeys(SITES, True)

    def fake():
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            return net(mode.from_tensor(X)).shape

    bare, out, rec = both(fake, net)
    assert bare == out and not rec.maps
    assert {missed.site: "fake" in missed.reason for missed in rec.missed} == dict.fromkeys(SITES, True)


def test_compiled_checkpointed_and_reparametrized_models_are_recorded(net):
    def checkpointed():
        x = X.clone().requires_grad_()
        checkpoint(net, x, use_reentrant=False).sum().backward()
        return x.grad

    parameters = {name: x.detach() for name, x in net.named_parameters()}
    for run in (
        lambda: torch.compile(net, backend="eager")(X),
        checkpointed,
        lambda: torch.func.functional_call(net, parameters, (X,)),
    ):
        bare, out, rec = both(run, net)
        assert_equal(bare, out)
        assert list(rec.maps)[:3] == SITES and not rec.missed


class Plain(torch.Tensor):
    """A subclass that changes nothing."""


class Refuses(torch.Tensor):
    """A subclass that does not let itself be copied."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in (torch.Tensor.detach, torch.Tensor.clone):
            raise ValueError(f"no {func.__name__} of mine")
        return super().__torch_function__(func, types, args, kwargs or {})


def test_subclasses_are_recorded_or_told(net):
    bare, out, rec = both(lambda: net(X.as_subclass(Plain)), net)
    assert_equal(bare, out)
    assert list(rec.maps) == SITES and not rec.missed
    bare, out, rec = both(lambda: net(X.as_subclass(Refuses)), net)
    assert_equal([bare.as_subclass(torch.Tensor)], [out.as_subclass(torch.Tensor)])
    assert {*rec.maps, *(missed.site for missed in rec.missed)} == set(SITES)
    assert all("ValueError: no " in missed.reason for missed in rec.missed)


@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 3, 2), (2, 2, 3, 2)])
@pytest.mark.parametrize("kind", [torch.bool, torch.float32])
def test_masks_that_broadcast_over_any_number_of_axes_give_the_weights_of_the_formula(lead, kind):
    made = torch.Generator().manual_seed(len(lead))
    q, k, v = (torch.randn(*lead, size, 4, generator=made) for size in (5, 6, 6))
    for closed in range(2 ** len(lead)):
        axes = [1 if closed >> i & 1 else size for i, size in enumerate(lead)]
        for first in range(len(lead) + 1):  # leading axes may be left out
            mask = torch.randn(*axes[first:], 5, 6, generator=made)
            scores = q @ k.mT / 2
            if kind == torch.bool:
                mask = mask > -0.5
                mask[..., 0] = True
                weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
            else:
                weights = (scores + mask).softmax(-1)
            with record() as rec:
                F.scaled_dot_product_attention(q, k, v, mask)
            assert not rec.missed
            torch.testing.assert_close(rec.maps["function"].weights().reshape(weights.shape), weights)


def in_a_thread(net):
    """Threads of torch are counted for each thread of Python, and another number of them adds in another order."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: net(X)).result()


def test_runs_in_other_threads_are_told(net):
    with record(net) as rec, ThreadPoolExecutor(1) as pool:
        out = pool.submit(lambda: net(X)).result()
    assert torch.equal(out, in_a_thread(net)) and not rec.maps
    assert {missed.site: "another thread" in missed.reason for missed in rec.missed} == dict.fromkeys(SITES, True)


def test_each_attention_in_a_pool_that_was_there_before_is_told(net):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        with record(net) as rec:
            out = pool.submit(lambda: net(X)).result()
    assert torch.equal(out, in_a_thread(net)) and not rec.maps
    assert {missed.site: "another thread" in missed.reason for missed in rec.missed} == dict.fromkeys(SITES, True)


def test_runs_in_threads_that_were_there_before_are_told(net):
    given, made = SimpleQueue(), SimpleQueue()
    worker = Thread(target=lambda: made.put(given.get()(X)))
    worker.start()
    with record(net) as rec:
        given.put(net)
        out = made.get()
    worker.join()
    assert torch.equal(out, in_a_thread(net)) and not rec.maps
    (missed,) = rec.missed
    assert missed.site == "TorchAlone" and "another thread" in missed.reason and missed.file == HERE
    assert not net._forward_pre_hooks


def test_a_model_is_copied_and_saved_while_it_is_recorded(net):
    with record(net) as rec:
        other = copy.deepcopy(net)
        torch.save(net, io.BytesIO())
        net(X)
    assert torch.equal(other(X), net(X)) and list(rec.maps) == SITES and not rec.missed


def test_errors_of_the_models_own_are_the_users(net):
    with record(net) as rec:
        with pytest.raises(RuntimeError, match="Expected size"):
            F.scaled_dot_product_attention(X, X, X[:, :2])
        handle = net.fused.register_forward_hook(lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            net(X)
        handle.remove()
        out = net(X)
    assert torch.equal(out, net(X)) and list(rec.maps) == ["fused", "fused:1", "written", "mha"] and not rec.missed


def test_errors_of_interventions_are_the_users(net):
    with record(net), intervene(net, {"fused": KnockOut([(0, 99)])}), pytest.raises(IndexError, match="99"):
        net(X)


def test_an_interrupt_passes(net, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(calls.ScoredCall, "snapshot", stopped)
    with record(net), pytest.raises(KeyboardInterrupt):
        net(X)


def test_an_intervention_where_attention_could_not_be_read_warns_and_says_why(net, monkeypatch):
    def failed(*_, **__):
        raise Injected("here")

    monkeypatch.setattr(sys.modules["regard.recording.capture.sdpa"], "read_call", failed)
    said = "at 'fused' attention ran that could not be read.*Injected: here"
    with pytest.warns(UserWarning, match=said), intervene(net, {"fused": Uniform()}):
        net(X)


class Changing(Heads):
    """Attends by a kernel, until it is told to write its weights out."""

    written = steps = False

    def attention(self, q, k, v, mask):
        q = q[..., -1:, :] if self.steps else q
        return (q @ k.mT).softmax(-1) @ v if self.written else F.scaled_dot_product_attention(q, k, v)


def test_a_softmax_after_many_steps_without_one_is_told_once_and_followed_from_then_on():
    model = Changing().eval()
    model.steps = True
    with torch.no_grad(), record(model) as rec:
        for _ in range(9):
            model(X)
        assert len(rec.maps) == 9 and not rec.missed
        model.written = True
        model(X)
        (missed,) = rec.missed
        assert len(rec.maps) == 9 and missed.operator == "aten::softmax.int" and "steps before it" in missed.reason
        for written in (True, False, False, True):
            model.written = written
            model(X)
    assert len(rec.maps) == 13 and sum(rec.missed.values()) == 1


def test_a_softmax_after_many_runs_of_whole_texts_is_recorded():
    model = Changing().eval()
    with torch.no_grad(), record(model) as rec:
        for written in (*[False] * 9, True):
            model.written = written
            model(X)
    assert len(rec.maps) == 10 and not rec.missed


class Injected(Exception):
    """A fault of the test's."""


# What starts and ends a block, and what writes the entry itself.
SPARED = {
    "capture_attend", "_result", "_unchanged", "functions_ran", "change", "_install_wrappers", "_restore_originals",
    "_replace_code", "listen", "stop", "active_mode", "_guarded", "guarded", "miss", "run", "paused",
    "_refresh_flags", "function_name", "on_missed", "on_other", "_tell", "may_edit", "unmet", "label", "words",
    "by_word", "save", "empty", "sites", "find",
    "other", "__init__", "__call__", "__enter__", "__exit__", "__torch_function__",
    "__repr__", "__len__", "__iter__", "__getitem__", "__new__",
    "_softmax_wrapper", "_group_wrapper",  # code that torch_geometric's own functions are given, never called here
}  # fmt: skip
FILES = [
    "calls", "function_mode", "flex_attention", "key_buffer", "mask_structure", "multihead_attention",
    "regard_attend", "sdpa", "snapshot", "unreadable", "inplace", "edges.edge_maps", "gradient_hook",
    "edges.torch_geometric", "edges.torch_geometric_edges", "tracing.arguments", "tracing.axis_flow",
    "tracing.contractions", "tracing.function_names", "tracing.origins", "tracing.lazy_origins",
    "tracing.starts", "tracing.trace", "tracing.tracer", "tracing.weighing", "tracing.late_division",
    "tracing.products", "tracing.sums", "tracing.divisions", "tracing.passages", "tracing.state", "tracing.step",
]  # fmt: skip
OWNERS = [
    *(sys.modules[f"regard.recording.capture.{name}"] for name in FILES),
    *(calls.ScoredCall, calls.WeightedCall, key_buffer.KeyBuffer, Traces, Tracer, LazyOrigins),
    *(function_mode.RecordingMode, edge_maps.CapturedEdgeCall, edge_maps.EdgeMap, edge_maps.CapturedEdges, Record),
]
FAULTS = [
    pytest.param(owner, name, id=f"{owner.__name__.rpartition('.')[2]}.{name}")
    for owner in OWNERS
    for name, found in vars(owner).items()
    if isinstance(found, FunctionType) and name not in SPARED
    if inspect.isclass(owner) or found.__module__ == owner.__name__
]


def everything(net):
    """A training step, then a run without gradients, which takes torch's fast path."""
    net.train()
    x = X.clone().requires_grad_()
    out = net(x)
    out.square().sum().backward()
    net.eval()
    with torch.no_grad():
        return out.detach(), x.grad, net(X)


@pytest.mark.parametrize("owner, name", FAULTS)
def test_a_fault_in_any_function_of_the_capture_is_an_entry_and_the_run_goes_on(owner, name, monkeypatch):
    torch.manual_seed(0)
    net = Net()
    torch.manual_seed(2)
    bare = everything(net)
    fired = []

    def fault(*_, **__):
        if innermost_module() is not None:  # a loss is not the model's
            fired.append(name)
        raise Injected("a fault")

    original = vars(owner)[name]
    if inspect.isclass(owner):
        monkeypatch.setattr(owner, name, fault)
    else:
        for module in [m for key, m in sys.modules.items() if key.startswith("regard.recording")]:
            for alias, value in list(vars(module).items()):
                if value is original:
                    monkeypatch.setattr(module, alias, fault)
        for table in (function_mode.readers, function_mode.named_readers):
            for key, value in list(table.items()):
                if value is original:
                    monkeypatch.setitem(table, key, fault)
    torch.manual_seed(2)
    with record(net, grad=True, values=True) as rec:
        out = everything(net)
    assert_equal(bare, out)
    if fired:
        assert any("Injected: a fault" in missed for missed in rec.missed)
    assert all(isinstance(missed, Missed) and missed.site and missed.file for missed in rec.missed)


def test_most_functions_of_the_capture_are_reached_by_the_faults():
    assert len(FAULTS) > 100
