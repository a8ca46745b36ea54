"""The task `nodes`: any layer in the same network, trained and tuned alike."""

import pytest
import torch
from torch import nn

from regard.data.nodes import NodeTask
from regard.lab.comparisons.nodes import NodeBenchmark, measured, run_nodes
from regard.studies import Study
from regard.studies.trial import Setting


def small_graph(seed):
    """Two classes that their neighbours tell apart, and features that do not."""
    torch.manual_seed(seed)
    nodes, y = 120, torch.arange(120) % 2
    pairs = [(a, b) for a in range(nodes) for b in (a + 2, a + 4) if b < nodes]
    index = torch.tensor(pairs).T
    part = torch.arange(nodes) // 2 % 4
    x = torch.randn(nodes, 8) + 0.6 * y[:, None]
    return NodeTask("small", x, y, torch.cat([index, index.flip(0)], 1), part < 2, part == 2, part == 3)


class Own(nn.Module):
    """A stranger's layer: the sum of a node and the mean of its neighbours."""

    def __init__(self, width, out):
        super().__init__()
        self.lin = nn.Linear(width, out)

    def forward(self, x, edge_index):
        source, target = edge_index
        total = torch.zeros_like(x).index_add(0, target, x[source])
        count = torch.zeros(len(x)).index_add(0, target, torch.ones(len(source))).clamp_min(1)
        return self.lin(x + total / count[:, None])


DATA = f"{__name__}:small_graph"


def setting(**options):
    return Setting(options={"data": DATA}, budget={"epochs": 40}, **options)


@pytest.fixture(autouse=True)
def found_by_name(monkeypatch):
    """Tests are no package: `find` gets what a study's folder would give."""
    import sys

    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or _this())


def _this():
    from types import SimpleNamespace

    return SimpleNamespace(small_graph=small_graph, Own=Own)


def test_a_network_learns_and_its_measures_are_those_of_the_test_nodes():
    found = run_nodes("gcn", 0, setting())
    assert found["numbers"]["accuracy"] > 0.8 and set(found["numbers"]) == {"accuracy", "mcc"}
    assert len(found["scores"]["accuracy"]) == 30
    assert max(found["curve"]) == pytest.approx(found["validation"], abs=1e-4)


def test_a_layer_and_a_data_set_of_ones_own_are_run_by_name():
    assert run_nodes(f"{__name__}:Own", 0, setting())["numbers"]["accuracy"] > 0.8


def test_a_trial_of_tuning_does_not_see_the_test_nodes():
    assert run_nodes("gat", 0, setting(tunes=True))["numbers"] == {}


def test_the_same_seed_gives_the_same_bits_and_the_configuration_counts():
    one, other = (run_nodes("gat", 3, setting()) for _ in range(2))
    assert one == other
    assert run_nodes("gat", 3, setting(hyper={"layers": 1}))["parameters"] < one["parameters"]


@pytest.mark.parametrize("kind", ["gat", "gatv2", "mean", "mlp"])
def test_matched_variants_have_the_parameters_of_the_baseline(kind):
    match = {"by": "hidden", "baseline": "gcn"}
    baseline = run_nodes("gcn", 0, Setting(options={"data": DATA}, budget={"epochs": 1}))["parameters"]
    found = run_nodes(kind, 0, Setting(options={"data": DATA}, budget={"epochs": 1}, match=match))
    assert abs(found["parameters"] / baseline - 1) < 0.15 and found["width"] % 4 == 0


def test_a_variant_of_another_depth_is_matched_to_what_tuning_chose_for_the_baseline():
    deep = {"layers": 3}
    target = run_nodes("gcn", 0, Setting(options={"data": DATA}, budget={"epochs": 1}, hyper=deep))["parameters"]
    match = {"by": "hidden", "baseline": "gcn", "hyper": deep}
    shallow = Setting(options={"data": DATA}, budget={"epochs": 1}, hyper={"layers": 1}, match=match)
    assert abs(run_nodes("gat", 0, shallow)["parameters"] / target - 1) < 0.1


def test_measures_are_those_of_their_definitions():
    out, truth = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.8, 0.2]]).log(), torch.tensor([0, 0, 1, 1])
    assert measured("accuracy", out, truth) == 0.5
    assert measured("area", out, truth) == 0.75
    assert measured("mcc", out, truth) == 0.0


def test_wrong_names_are_answered_by_what_there_is():
    with pytest.raises(ValueError, match=r"no data 'kora': expected one of cora"):
        NodeBenchmark({"task": "nodes", "options": {"data": "kora"}})
    with pytest.raises(ValueError, match=r"no variant 'gatt'; it has mlp"):
        Study(name="a", tasks=[{"task": "nodes", "options": {"data": DATA}}], variants=["gatt"])
