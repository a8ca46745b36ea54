"""Several threads record and change one model at once, and none hears of another."""

from threading import Event, Thread

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks

from regard import intervene, record
from regard.interventions import Uniform


class Attends(nn.Module):
    """Attention with a projection, in which one thread may be made to wait for what others do."""

    def __init__(self):
        super().__init__()
        self.value = nn.Linear(4, 4)

    def forward(self, x, meanwhile=None):
        v = self.value(x)
        if meanwhile is not None:
            meanwhile()
        return F.scaled_dot_product_attention(x, x, v)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Attends(), Attends()])

    def forward(self, x, meanwhile=None):
        return self.layers[1](self.layers[0](x, meanwhile))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model().eval()


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    def state():
        return (
            torch.overrides.has_torch_function,
            torch._dynamo.eval_frame._stance,
            list(_global_forward_pre_hooks),
            list(_global_forward_hooks),
        )

    before = state()
    yield
    assert state() == before


X = torch.randn(1, 1, 6, 4, generator=torch.Generator().manual_seed(1))
SITES = ["layers.0", "layers.1"]


def in_a_thread(work):
    """Run it in another thread and wait until it is done."""
    failed = []

    def whole():
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = Thread(target=whole)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


def test_a_thread_that_records_in_the_middle_of_anothers_run_changes_nothing_of_it(model):
    heard = []

    def other():
        with record(model) as rec:
            model(X)
        heard.append(list(rec.maps))

    with record(model) as rec:
        model(X, lambda: in_a_thread(other))
    assert list(map(str, rec.maps)) == SITES and [list(map(str, each)) for each in heard] == [SITES]


def test_a_thread_that_begins_in_the_middle_and_ends_after_changes_nothing(model):
    changed, plain = None, model(X)
    with intervene(model, Uniform()):
        changed = model(X)
    opened = []

    def open_block():  # entered here, left at the end of the test
        block = intervene(model, Uniform())
        block.__enter__()
        opened.append((block, model(X)))
        started.set()
        go_on.wait(60)
        block.__exit__(None, None, None)

    started, go_on = Event(), Event()
    thread = Thread(target=open_block)

    def begin():
        thread.start()
        assert started.wait(60)

    with record(model) as rec:
        out = model(X, begin)
    go_on.set()
    thread.join()
    assert list(map(str, rec.maps)) == SITES
    assert torch.equal(out, plain) and torch.equal(opened[0][1], changed) and not torch.equal(plain, changed)


def test_threads_that_intervene_at_once_each_get_what_they_asked_for(model):
    with torch.no_grad(), intervene(model, {"layers.1": Uniform()}):
        wanted = model(X)
    got = []

    def work():
        with torch.no_grad():
            for _ in range(60):
                with intervene(model, {"layers.1": Uniform()}):
                    got.append(model(X))

    threads = [Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 180 and all(torch.equal(each, wanted) for each in got)


def test_a_watch_that_could_not_start_leaves_the_next_one_whole(model, monkeypatch):
    def refused(stance):
        raise RuntimeError("attempted to set_stance in a torch.compile region")

    with monkeypatch.context() as patched:
        patched.setattr(torch.compiler, "set_stance", refused)
        with pytest.raises(RuntimeError, match="set_stance"), record(model):
            pass
    with record(model) as rec:
        model(X)
    assert list(map(str, rec.maps)) == SITES
