"""The trainer: what it promises about seeds, stopping and the weights it keeps."""

import json
import math
import os

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close
from typer.testing import CliRunner

from regard.cli.app import app
from regard.data import NodeTask, planetoid
from regard.lab.tasks.graphs.node_accuracy import Accuracy, accuracies
from regard.models.training.node_training import KINDS, Fitted, Recipe, fit, recipe_for, train

real = pytest.mark.skipif(
    not os.environ.get("REGARD_DATA"), reason="REGARD_DATA is not set: it names the folder of real data sets"
)
SHORT = Recipe(hidden=8, heads=2, dropout=0.3, epochs=60, patience=40, rate=0.02)


def made(n: int = 180, classes: int = 3) -> NodeTask:
    """Noisy features, and edges that mostly stay within a class: neighbours help."""
    draw = torch.Generator().manual_seed(3)
    y = torch.arange(n) % classes
    x = 0.7 * F.one_hot(y, 8) + torch.randn(n, 8, generator=draw)
    alike = torch.where(y[:, None] == y, 0.1, 0.01)
    edges = (torch.rand(n, n, generator=draw) < alike).nonzero().t().contiguous()
    third = torch.arange(n) // 3 % 3
    return NodeTask("made", x, y, edges, third == 0, third == 1, third == 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_gives_the_same_bits_and_leaves_the_callers_numbers_alone(kind: str) -> None:
    task, before = made(), torch.get_rng_state()
    (one, first), (two, second) = (train(kind, task, 7, SHORT) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(a, b)
    assert (first.test, first.loss, first.kept) == (second.test, second.loss, second.kept)
    other, _ = train(kind, task, 8, SHORT)
    assert not torch.equal(next(one.parameters()), next(other.parameters()))


def test_neighbours_help_where_edges_stay_within_a_class() -> None:
    found = {one.kind: one.mean for one in accuracies(made(), range(3), recipe=SHORT)}
    assert found["gat"] > found["mlp"] + 5
    assert found["mean"] > found["mlp"] + 5


def test_the_model_ends_with_the_weights_of_the_epoch_that_was_kept() -> None:
    task = made()
    model, found = train("gat", task, 0, SHORT)
    with torch.no_grad():
        out = model.eval()(task.x, task.edge_index)
    assert_close(F.nll_loss(out[task.val], task.y[task.val]).item(), found.loss)
    assert (out[task.test].argmax(-1) == task.y[task.test]).float().mean().item() == found.test
    assert found.kept <= found.epochs <= SHORT.epochs


class Scripted(nn.Module):
    """Its validation loss and accuracy are played from a list, one pair an epoch."""

    def __init__(self, played: list[tuple[float, bool]]):
        super().__init__()
        self.weight, self.played, self.seen = nn.Parameter(torch.zeros(1)), played, 0

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        loss, right = self.played[min(self.seen, len(self.played) - 1)]
        self.seen += not self.training
        log_p = torch.full((x.shape[0], 2), -9.0 if right else 0.0)
        log_p[:, 0] = -loss
        return log_p + 0 * self.weight


def test_patience_is_spent_only_while_neither_loss_nor_accuracy_is_as_good_as_before() -> None:
    """better, loss better, accuracy as good, both as good (kept), then worse in both for as long as patience lasts."""
    n = 6
    part = torch.arange(n) % 3
    task = NodeTask(
        "played",
        torch.zeros(n, 1),
        torch.zeros(n, dtype=torch.long),
        torch.empty(2, 0, dtype=torch.long),
        part == 0,
        part == 1,
        part == 2,
    )
    played = [(2.0, True), (1.0, False), (3.0, True), (1.0, True), (4.0, False)]
    found = fit(Scripted(played), task, Recipe(patience=3, epochs=50))
    assert (found.kept, found.epochs, found.val, found.loss) == (4, 7, 1.0, 1.0)


def test_recipes_are_the_papers() -> None:
    cora, pubmed = recipe_for("cora"), recipe_for("pubmed")
    assert cora == recipe_for("citeseer")
    assert (cora.hidden, cora.heads, cora.out_heads, cora.dropout, cora.rate, cora.decay) == (8, 8, 1, 0.6, 5e-3, 5e-4)
    assert (pubmed.out_heads, pubmed.rate, pubmed.decay) == (8, 0.01, 1e-3)


def test_a_mean_below_the_papers_spread_is_said_to_be_below() -> None:
    def of(kind: str, *tests: float) -> Accuracy:
        return Accuracy(kind, "cora", [Fitted(test, 0, 0, 0, 0, 0) for test in tests])

    assert of("gat", 0.83, 0.824).reached is True
    assert of("gat", 0.82, 0.82).reached is False
    assert of("mlp", 0.6).reached is None
    assert math.isclose(of("gat", 0.82, 0.84).deviation, math.sqrt(2)) and of("gat", 0.82).deviation == 0


def test_a_kind_that_is_none_and_a_part_without_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match="expected one of gat, gatv2, mean, gcn, mlp"):
        train("gta", made())
    task = made()
    empty = NodeTask("made", task.x, task.y, task.edge_index, task.train, task.val & False, task.test)
    with pytest.raises(ValueError, match="an empty split"):
        train("mlp", empty, recipe=SHORT)


def test_the_command_says_what_to_set_where_data_are_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REGARD_DATA", raising=False)
    result = CliRunner().invoke(app, ["train", "gat", "--data", "cora"])
    assert result.exit_code == 1
    assert "set REGARD_DATA" in " ".join(result.output.split())
    assert CliRunner().invoke(app, ["train", "gat", "--data", "reddit"]).exit_code == 1


@real
def test_sparse_features_train_as_dense_ones_do() -> None:
    """Without dropout the two ways to store the words give the same numbers, up to the order of sums."""
    task = planetoid("cora")
    dense = NodeTask("cora", task.x.to_dense(), task.y, task.edge_index, task.train, task.val, task.test)
    recipe = Recipe(dropout=0.0, epochs=3)
    assert_close(*(train("gat", part, 0, recipe)[1].loss for part in (task, dense)), atol=1e-4, rtol=1e-4)


@real
def test_the_command_trains_on_cora_and_prints_json(monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.lab.tasks.graphs import node_accuracy as accuracy

    def brief(kind: str, task: NodeTask, seed: int, recipe: Recipe | None) -> tuple[nn.Module, Fitted]:
        return train(kind, task, seed, Recipe(epochs=25))

    monkeypatch.setattr(accuracy, "train", brief)
    result = CliRunner().invoke(app, ["train", "gat", "--data", "cora", "--seeds", "1", "--json"])
    assert result.exit_code == 0, result.output
    found = {one["kind"]: one for one in json.loads(result.stdout)["results"]}
    assert found["gat"]["paper"] == {"mean": 83.0, "deviation": 0.7}
    assert found["gat"]["mean"] > 70 and found["mean"]["mean"] > 70
    assert 30 < found["mlp"]["mean"] < found["gat"]["mean"]
