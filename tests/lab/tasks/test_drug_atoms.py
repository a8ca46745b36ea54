"""Attention on atoms: judged on a drug model whose answer hangs on atoms that are known."""

import numpy as np
import pytest
import torch
from tests.lab.tasks.test_drug_model import small_task
from torch.testing import assert_close

from regard.lab.tasks.drugs.atom_faithfulness import _blanked, _predicted, atoms, weights_on_atoms
from regard.lab.tasks.drugs.drug_model import DrugResponse

pytest.importorskip("rdkit", reason="molecules are read by RDKit (extra chem)")
PAIRS = torch.tensor([[drug, cell] for drug in (1, 2) for cell in range(3)])


def model_of(name: str) -> DrugResponse:
    torch.manual_seed(0)
    return DrugResponse(small_task(), name, dim=8, width=8).eval()


@pytest.mark.parametrize("name", ["gat", "gatv2", "edge", "global", "co", "uniform", "none"])
def test_weights_of_a_drug_sum_to_one_and_stop_at_its_last_atom(name):
    model = model_of(name)
    with torch.no_grad():
        weights = weights_on_atoms(model, PAIRS)
    sizes = model.sizes[PAIRS[:, 0]]
    assert_close(weights.sum(-1), torch.ones(len(PAIRS)))
    assert all(row[size:].eq(0).all() for row, size in zip(weights, sizes, strict=True))


def test_a_gate_that_the_answer_hangs_on_is_found_and_one_that_looks_away_is_not():
    """No edges are heard (their layers answer 0), and an atom counts as its gate says: oxygen, or all but oxygen."""
    found = {}
    for sign in (1.0, -1.0):
        model = model_of("global")
        for layer in model.atoms.layers:
            torch.nn.init.zeros_(layer.lin.weight)
        torch.nn.init.zeros_(model.atoms.first.weight)
        torch.nn.init.zeros_(model.atoms.first.bias)
        model.atoms.first.weight.data[0, 2] = 6.0  # oxygen
        model.gate.gate_nn.weight.data.zero_()
        model.gate.gate_nn.weight.data[0, 0] = sign
        found[sign] = atoms(model, PAIRS, share=0.05)
    assert found[1.0][0].value > 0.5 > found[-1.0][0].value
    assert found[1.0][0].baselines["random"] < found[1.0][0].value
    assert found[1.0][1].value > 3 * found[1.0][1].baselines["random"]
    assert found[-1.0][1].value < found[1.0][1].value


def test_the_effect_of_blanking_is_a_second_forward_by_hand():
    model = model_of("none")
    w = np.zeros((1, int(model.sizes.max())))
    w[0, 3] = 1.0
    with torch.no_grad():
        got = _blanked(model, torch.tensor([[2, 1]]), w, np.array([11]), 0.01)
        kept = model.x.clone()
        model.x[model.place[2, 3]] = 0.0
        wanted = _predicted(model, torch.tensor([[2, 1]]), None)
        model.x = kept
    assert got == pytest.approx(wanted)


def test_weights_that_are_all_alike_are_undefined_and_the_model_is_left_as_it_was():
    model = model_of("none").train()
    before = model.x.clone()
    first, second = atoms(model, PAIRS)
    assert first.value is None and second.value is None and "not all alike" in first.says
    assert model.training and torch.equal(model.x, before)
    with pytest.raises(ValueError, match="expected \\(P, 2\\)"):
        atoms(model, torch.zeros(3))


def test_the_same_seed_gives_the_same_findings():
    model = model_of("co")
    assert atoms(model, PAIRS, seed=3) == atoms(model, PAIRS, seed=3)
