"""The table of docs/backends.md says what backends do: it is made from what they read themselves."""

import importlib.util
from pathlib import Path

import pytest
import torch

from regard import Edges, plan
from regard.backends.triton.dense.backend import TritonDense
from regard.backends.triton.edges import backend as edges
from regard.backends.triton.features.backend import TritonFeatures
from regard.core.alignments import Softmax
from regard.core.scores import Additive, QueryFree

FILE = Path(__file__).parents[2] / "docs" / "backend_tables.py"
_spec = importlib.util.spec_from_file_location("backend_tables", FILE)
tables = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tables)


def refused(backend, align):
    """Whether a backend refuses an alignment, of a call that it runs otherwise."""
    q, k, v = (torch.randn(1, 1, 4, 4) for _ in range(3))
    features = QueryFree(features=True) if backend == "separable" else Additive(features=True)
    scores = {"triton-features": features, "separable": features, "linear": "linear_kernel"}
    over = Edges(torch.tensor([[0, 1, 2], [1, 2, 3]]), (4, 4)) if "edges" in backend else None
    made = plan(q, k, v, score=scores.get(backend, "scaled_dot"), align=align, over=over)
    kernels = {"triton-dense": TritonDense, "triton-features": TritonFeatures}
    if backend in kernels:
        return bool(kernels[backend]().kernel_refusals(made))
    return bool(made.refusals[backend])


@pytest.mark.parametrize("align", tables.alignments(), ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("backend", tables.COLUMNS)
def test_the_table_says_what_a_backend_refuses(backend, align, monkeypatch):
    monkeypatch.setattr(edges, "device_refusal", lambda device: None)
    if align.stepwise or (align.ordered and "edges" in backend):  # no order of keys, which no backend runs at all
        assert not tables.runs(backend, align)
    else:
        assert refused(backend, align) != tables.runs(backend, align)


def test_every_family_that_a_backend_runs_is_said_by_an_alignment():
    said = {form.family for align in tables.alignments() if (form := align.kernel_form()) is not None}
    for support in tables.COLUMNS.values():
        assert set(support.alignments) <= said


def test_the_page_has_the_tables():
    page = (FILE.parent / "backends.md").read_text(encoding="utf-8")
    assert "<!-- what backends run -->" in page
    lines = tables.tables().splitlines()
    assert "| `TopK`, top-k |  |  |  | yes | yes |  |  | yes | yes |" in lines
    assert (
        "| segments |  |  |  |  | yes |  |  |  |" in lines and "| soft cap |  |  |  |  | yes | yes | yes |  |" in lines
    )
    assert "| ALiBi |  |  | yes |  | yes |  | yes |  |" in lines  # a number for each pair, to those who know no more


def test_a_subclass_has_no_form_unless_it_says_one():
    class Sharper(Softmax):
        def forward(self, s, keep=None, noise=None):
            return super().forward(2 * s, keep, noise)

    class Renamed(Softmax):
        kernel_form = Softmax.kernel_form

    assert Sharper().kernel_form() is None and Renamed().kernel_form() == Softmax().kernel_form()
