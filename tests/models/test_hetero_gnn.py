"""Networks for typed graphs learn what types and ties tell, and are judged alike."""

import json

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from typer.testing import CliRunner

from regard.cli.app import app
from regard.data import TypedTask
from regard.lab.tasks.graphs import hetero_accuracy as typed_accuracy
from regard.lab.tasks.graphs.hetero_accuracy import typed_accuracies
from regard.models.hetero_gnn import HGT, TYPED, GATAsOne, SimpleHGN, as_one, by_paths, together
from regard.models.training.node_training import Recipe

SHORT = Recipe(hidden=4, heads=2, dropout=0.2, rate=0.02, patience=40, epochs=40)


def made(papers: int = 90, authors: int = 30) -> TypedTask:
    """Features are noise; an author writes in one field only."""
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(papers) % 3
    author = torch.randint(authors // 3, (2 * papers,), generator=draw) * 3 + y.repeat(2)
    there = torch.stack([torch.arange(papers).repeat(2), author]).unique(dim=1)
    x = {"paper": torch.randn(papers, 6, generator=draw), "author": torch.eye(authors)}
    third = torch.arange(papers) // 3 % 3
    edges = {("paper", "by", "author"): there, ("author", "wrote", "paper"): there.flip(0).contiguous()}
    return TypedTask("made", "paper", x, y, edges, third == 0, third == 1, third == 2)


def forward(model: torch.nn.Module, task: TypedTask) -> Tensor:
    out: Tensor = model.eval()(task.x, task.edge_index)
    return out


def test_every_network_that_sees_ties_finds_the_fields_and_the_mlp_does_not() -> None:
    found = {one.kind: one.mean for one in typed_accuracies(made(), [0], recipe=SHORT)}
    assert found.keys() == TYPED.keys()
    assert found.pop("mlp") < 60
    assert min(found.values()) > 75, found


def test_types_laid_end_to_end_keep_every_edge_and_give_each_node_a_loop() -> None:
    task = made()
    one = as_one(task)
    by, wrote, loops = (one.index[:, one.kind == number] for number in range(3))
    assert torch.equal(by - torch.tensor([[0], [90]]), task.edge_index["paper", "by", "author"])
    assert torch.equal(wrote - torch.tensor([[90], [0]]), task.edge_index["author", "wrote", "paper"])
    assert torch.equal(loops[0], loops[1]) and loops.shape[1] == 120 and one.kinds == 3


def test_the_name_of_a_type_is_unseen_by_gat_and_seen_by_the_others() -> None:
    """Exchanging the kinds of two edges changes nothing for GAT."""
    torch.manual_seed(0)
    task = together(made())
    graph = task.edge_index
    other = type(graph)(graph.index, 2 - graph.kind, graph.kinds, graph.size)
    for network, same in ((GATAsOne, True), (SimpleHGN, False)):
        model = network(task, SHORT).eval()
        with torch.no_grad():
            change = (model(task.x, graph) - model(task.x, other)).abs().max()
        assert (change < 1e-6) == same
    assert forward(HGT(made(), SHORT), made()).shape == (90, 3)


def test_han_sees_papers_that_share_an_author() -> None:
    task = by_paths(made())
    assert list(task.edge_index) == [("paper", "by", "paper")] and list(task.x) == ["paper"]


def test_a_seed_gives_the_same_bits_and_leaves_the_callers_numbers_alone() -> None:
    before = torch.get_rng_state()
    one, two = (
        typed_accuracies(made(), [3], ["hgt"], Recipe(hidden=4, heads=2, epochs=5))[0].runs[0] for _ in range(2)
    )
    assert torch.equal(before, torch.get_rng_state())
    assert_close(one.loss, two.loss, rtol=0, atol=0)


def test_the_command_prints_what_was_trained_and_what_is_not_comparable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.lab.data.acm.acm", lambda labels: made())
    monkeypatch.setattr(typed_accuracy, "RECIPE", SHORT)
    plain = CliRunner().invoke(app, ["train", "acm", "--seeds", "1", "--kind", "mlp"])
    assert plain.exit_code == 0 and "MLP" in plain.output and "not comparable" in " ".join(plain.output.split())
    result = CliRunner().invoke(app, ["train", "acm", "--seeds", "2", "--kind", "mlp", "--json"])
    assert [one["kind"] for one in json.loads(result.stdout)["results"]] == ["mlp"]
    wrong = CliRunner().invoke(app, ["train", "acm", "--kind", "gcn"])
    assert wrong.exit_code == 1 and "expected one of mlp, mean, gat" in " ".join(wrong.output.split())
