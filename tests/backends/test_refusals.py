"""A backend asked for by name never falls back, and a refusal says why."""

import pytest
import torch

from regard import Causal, Edges, LocationAware, Monotonic, Padding, Refused, attend, plan
from regard.core import registry
from regard.core.modifiers import Modifier
from regard.core.scores import ScaledDot

Q, K, V = (torch.randn(1, 2, 5, 4) for _ in range(3))


@pytest.mark.parametrize(
    ("backend", "options"),
    [
        ("sdpa", {"score": "additive"}),
        ("linear", {"score": "dot"}),
        ("chunked", {"align": "monotonic"}),
        ("reference", {"align": "monotonic", "over": Edges(torch.tensor([[0, 1], [1, 2]]))}),
    ],
)
def test_a_backend_asked_for_by_name_never_falls_back(backend, options, monkeypatch):
    """Nothing runs at all: the others are watched."""
    ran = []
    for other in registry.backends():
        monkeypatch.setattr(type(other), "run", lambda self, made: ran.append(self.name))
    with pytest.raises(Refused, match=f"backend='{backend}' does not run this attention"):
        attend(Q, K, V, backend=backend, **options)
    assert ran == []


def test_the_backend_asked_for_is_the_one_that_runs(monkeypatch):
    for name in ("sdpa", "chunked", "reference"):
        ran = []
        with monkeypatch.context() as patch:
            for other in registry.backends():
                patch.setattr(type(other), "run", _noted(type(other).run, ran))
            attend(Q, K, V, backend=name)
        assert ran == [name]


def _noted(run, ran):
    def noted(self, made):
        ran.append(self.name)
        return run(self, made)

    return noted


def test_a_modifier_that_kernels_do_not_know_runs_on_no_kernel_of_ours():
    class Doubled(Modifier):
        def forward(self, s, tile):
            return 2 * s

    refusals = plan(Q, K, V, ScaledDot() | Doubled()).refusals
    assert refusals["sdpa"] == ["It has no modifiers; this score has Doubled."]
    assert [name for name, reasons in refusals.items() if not reasons] == ["flex", "chunked", "reference"]


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="backend='quick' is unknown") as error:
        attend(Q, K, V, backend="quick")
    assert {"sdpa", "linear", "chunked", "reference"} <= {backend.name for backend in registry.backends()}
    for backend in registry.backends():
        assert repr(backend.name) in str(error.value)


def test_auto_takes_the_first_that_does_not_refuse():
    assert plan(Q, K, V).backend == "sdpa"
    assert plan(Q, K, V, "linear_kernel").backend == "linear"
    assert plan(Q, K, V, align="monotonic").backend == "reference"
    many = [torch.randn(1, 1, 1500, 64) for _ in range(3)]
    assert plan(*many, "additive").backend == "chunked"


def test_few_pairs_go_to_the_reference_which_has_fewer_steps():
    made = plan(Q, K, V, "additive")
    assert made.backend == "reference" and made.refusals["chunked"] == []


def test_where_every_backend_refuses_all_reasons_are_shown():
    graph = Edges(torch.tensor([[0, 1], [1, 2]]))
    with pytest.raises(Refused) as error:
        attend(Q, K, V, align=Monotonic(), over=graph)
    message = str(error.value)
    assert message.startswith("No backend runs this attention")
    for backend in registry.backends():
        assert f"\n  {backend.name}: " in message
    assert "needs ordered keys, which edges do not" in message


def test_a_plan_lists_the_reasons_of_each_backend():
    made = plan(Q, K, V, "additive", over=Causal() & Padding(torch.tensor([4])))
    assert made.refusals["chunked"] == [] and made.refusals["reference"] == []
    assert len(made.refusals["sdpa"]) >= 1 and len(made.refusals["linear"]) >= 1
    for name, reasons in made.refusals.items():
        for reason in reasons:
            assert reason[0].isupper() and reason.endswith("."), (name, reason)
            assert reason in str(made)


def test_a_stepwise_score_and_a_stepwise_alignment_do_not_meet():
    with pytest.raises(Refused, match="stepwise"):
        attend(Q, K, V, LocationAware(4, kernel=3), Monotonic())
