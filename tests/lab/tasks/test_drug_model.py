"""Graph convolution by its formula; the drug model; means of drugs and cell lines; correlations."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from regard.data.batch import Example, collate
from regard.lab.data.drugs import DrugTask
from regard.lab.tasks.drugs.drug_model import MESSAGE_PASSING, DrugResponse
from regard.lab.tasks.drugs.drug_response import agreement, means
from regard.models.gcn import GCNConv

pytest.importorskip("rdkit", reason="molecules are read by RDKit (extra chem)")
NAMES = [*MESSAGE_PASSING, "global", "co"]


def small_task(seed: int = 0) -> DrugTask:
    from regard.data.smiles import molecule

    draw = np.random.default_rng(seed)
    drugs, cells = ["CCO", "c1ccccc1O", "CC(=O)Nc1ccc(O)cc1", "C"], 6
    table = draw.normal(size=(len(drugs), cells))
    parts: list[list[Example]] = [[], [], []]
    for at, (drug, cell) in enumerate(np.ndindex(table.shape)):
        one = Example(torch.tensor([drug, cell]), torch.tensor(table[drug, cell], dtype=torch.float32), id=at)
        parts[(at % 5) // 2].append(one)
    methylation = torch.from_numpy(draw.uniform(size=(cells, 7)).astype(np.float32))
    return DrugTask(
        "small",
        *parts,
        molecules=[molecule(one) for one in drugs],
        drug_names=tuple(drugs),
        methylation=methylation,
        chromosomes=(3, 4),
        chromosome_names=("1", "2"),
    )


def test_graph_convolution_is_the_normalised_adjacency_times_the_features():
    torch.manual_seed(0)
    edges = torch.tensor([[0, 1, 1, 2, 3, 3, 0, 3], [1, 0, 2, 1, 3, 0, 3, 3]])[:, :7]  # node 3 has a loop of its own
    adjacency = torch.eye(5)
    adjacency[edges[1], edges[0]] = 1.0
    degree = adjacency.sum(1)
    x, layer = torch.randn(5, 3), GCNConv(3, 4, heads=2)
    torch.nn.init.normal_(layer.bias)
    wanted = (adjacency / (degree[:, None] * degree[None]).sqrt()) @ (x @ layer.lin.weight.T) + layer.bias
    assert_close(layer(x, edges), wanted)


@pytest.mark.parametrize("name", NAMES)
def test_a_response_does_not_depend_on_who_else_is_in_the_batch(name):
    torch.manual_seed(0)
    task = small_task()
    model = DrugResponse(task, name, dim=8, width=8).eval()
    whole = model(collate(task.test)).out
    alone = torch.cat([model(collate([one])).out for one in task.test])
    assert_close(whole, alone)


@pytest.mark.parametrize("name", NAMES)
def test_only_the_model_without_bonds_is_blind_to_them(name):
    """Another molecule of the same atoms by their features: bonds moved from one atom to another."""
    torch.manual_seed(0)
    task = small_task()
    model = DrugResponse(task, name, dim=8, width=8).eval()
    batch = collate([one for part in (task.train, task.val, task.test) for one in part if int(one.inputs[0]) == 2])
    before = model(batch).out
    edges = model.edge_index.clone()
    inside = (model.graph[edges[0]] == 2).nonzero()[:, 0]
    edges[:, inside] = edges[:, inside].roll(3, 1).flip(0)
    first = int((model.graph == 2).nonzero()[0])
    edges[:, inside] = (edges[:, inside] - first + 4) % int(model.sizes[2]) + first
    model.edge_index = edges
    after = model(batch).out
    assert torch.equal(before, after) == (name == "none")


def test_co_attention_weighs_the_atoms_of_the_drug_alone_and_differently_for_each_cell_line():
    torch.manual_seed(0)
    task = small_task()
    model = DrugResponse(task, "co", dim=8, width=8).eval()
    batch = collate(task.train)
    weights = model(batch).maps[0].weights().flatten(0, -2)  # (B, atoms)
    sizes = model.sizes[batch.inputs[:, 0]]
    for row, size in zip(weights, sizes, strict=True):
        assert_close(row[:size].sum(), torch.tensor(1.0))
        assert row[size:].eq(0).all()
    same = weights[batch.inputs[:, 0] == 2]
    assert (same[0] - same[1]).abs().max() > 1e-6


def test_global_attention_reads_every_drug_by_weights_that_sum_to_one():
    torch.manual_seed(0)
    model = DrugResponse(small_task(), "global", dim=8, width=8).eval()
    weights = model(collate(small_task().test)).maps[0].edges()[0]
    assert_close(torch.zeros(4).index_add(0, model.graph, weights), torch.ones(4))


def test_means_and_deviations_are_those_of_the_training_part():
    task = small_task()
    model = DrugResponse(task, "none", dim=8, width=8)
    targets = torch.stack([one.target for one in task.train])
    assert_close(model.target, torch.stack([targets.mean(), targets.std()]))
    with pytest.raises(ValueError, match="expected one of gcn, gat"):
        DrugResponse(task, "mean")


def test_means_of_drugs_and_cell_lines_recover_what_was_added_up():
    draw = np.random.default_rng(0)
    drug, cell = draw.normal(size=30), draw.normal(size=20)
    parts: list[list[Example]] = [[], [], []]
    for d, c in np.ndindex(30, 20):
        parts[max(0, (3 * d + c) % 10 - 7)].append(Example(torch.tensor([d, c]), torch.tensor(4 + drug[d] + cell[c])))
    task = DrugTask("added", *parts)
    asked = np.array([one.inputs.tolist() for one in task.test])
    wanted = 4 + drug[asked[:, 0]] + cell[asked[:, 1]]
    assert means(task, True, True, shrink=0.0, rounds=50) == pytest.approx(wanted, abs=1e-3)
    alone = means(task, True, False, shrink=0.0)
    learnt = {d: np.mean([float(one.target) for one in task.train if int(one.inputs[0]) == d]) for d in range(30)}
    assert alone == pytest.approx([learnt[d] for d in asked[:, 0]], abs=1e-6)


def test_what_training_has_not_seen_is_predicted_by_the_mean_of_all():
    task = small_task()
    task.train = [one for one in task.train if int(one.inputs[0]) != 2]
    task.test = [one for one in task.test if int(one.inputs[0]) == 2]
    centre = np.mean([float(one.target) for one in task.train])
    assert means(task, True, False) == pytest.approx(centre)


def test_within_drugs_a_shift_of_each_drug_is_not_rewarded():
    measured = np.tile(np.arange(12.0), 2) + np.repeat([0.0, 100.0], 12)
    drugs = np.repeat([0, 1], 12)
    by_drug = agreement(np.repeat([0.0, 100.0], 12), measured, drugs)
    assert by_drug["pearson"] > 0.99 and "per_drug" not in by_drug  # constant within a drug: undefined
    turned = agreement(measured.max() - measured, measured, drugs)
    assert turned["per_drug"] == pytest.approx(-1.0)
    assert agreement(measured + 2, measured, drugs)["rmse"] == pytest.approx(2.0)
    assert "per_drug" not in agreement(measured[:9], measured[:9], drugs[:9])  # fewer than ten responses
