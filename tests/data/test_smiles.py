"""Molecules read by RDKit: what their atoms and bonds are, and drugs whose responses are split without leaks."""

import os

import pytest
import torch

from regard.data import drug_graphs
from regard.data.smiles import ATOM, BOND, molecule

pytest.importorskip("rdkit", reason="molecules are read by RDKit (extra chem)")
HERE = pytest.mark.skipif(not os.environ.get("REGARD_DATA"), reason="REGARD_DATA names no folder of data sets")


def test_phenol_has_a_ring_of_six_aromatic_bonds_and_one_single_bond_to_oxygen():
    phenol = molecule("c1ccccc1O")
    assert phenol.symbols == ("C",) * 6 + ("O",)
    assert phenol.atoms.shape == (7, ATOM) and phenol.bonds.shape == (14, BOND)
    kinds = phenol.bonds[::2, :4].sum(0)  # single, double, triple, aromatic
    assert kinds.tolist() == [1, 0, 0, 6]
    assert phenol.bonds[:, 5].sum() == 12  # in a ring, both directions
    aromatic, ring = phenol.atoms[:, -2], phenol.atoms[:, -1]
    assert aromatic.tolist() == ring.tolist() == [1] * 6 + [0]
    hydrogens = phenol.atoms[:, 17:22].argmax(1)
    assert hydrogens.tolist() == [1, 1, 1, 1, 1, 0, 1]


def test_every_bond_stands_in_both_directions_with_the_same_features():
    one = molecule("CC(=O)Nc1ccc(O)cc1")
    back = {(int(a), int(b)): one.bonds[at] for at, (a, b) in enumerate(one.edges.T)}
    assert all(torch.equal(found, back[b, a]) for (a, b), found in back.items())
    degree = torch.bincount(one.edges[1], minlength=len(one.symbols))
    assert torch.equal(degree, one.atoms[:, 11:17].argmax(1))


def test_the_order_in_which_a_string_names_atoms_changes_nothing_but_their_order():
    one, other = molecule("OCC"), molecule("CCO")
    assert torch.equal(one.atoms, other.atoms.flip(0))


def test_a_lone_atom_has_no_edges_and_strange_elements_share_a_place():
    lone = molecule("[Pt]")
    assert lone.edges.shape == (2, 0) and lone.bonds.shape == (0, BOND) and lone.atoms[0, 10] == 1
    assert molecule("[NH4+]").atoms[0, -3] == 1.0


@pytest.mark.parametrize("text", ["", "C1CC", "drug"])
def test_what_is_no_molecule_is_refused(text):
    with pytest.raises(ValueError, match="RDKit cannot parse it"):
        molecule(text)


@HERE
@pytest.mark.parametrize(("held_out", "keys"), [("pairs", (0, 1)), ("drugs", (0,)), ("cells", (1,))])
def test_parts_share_no_pair_no_drug_or_no_cell_line(held_out, keys):
    task = drug_graphs(held_out=held_out, seed=3, compounds=60, cell_lines=40)
    known = [{tuple(one.inputs[list(keys)].tolist()) for one in part} for part in (task.train, task.val, task.test)]
    assert not known[0] & known[2] and not known[0] & known[1] and not known[1] & known[2]
    size = sum(len(part) for part in (task.train, task.val, task.test))
    assert size == sum(
        len(part)
        for part in vars(drug_graphs(seed=0, compounds=60, cell_lines=40)).values()
        if isinstance(part, list) and part and hasattr(part[0], "target")
    )
    assert len(task.molecules) == len(task.drug_names) == 60
    assert sum(task.chromosomes) == task.methylation.shape[1] == 808 and len(task.chromosome_names) == 23


@HERE
def test_a_pair_that_was_measured_twice_stays_in_one_part():
    task = drug_graphs(cell_lines=60)
    pairs = [[tuple(one.inputs.tolist()) for one in part] for part in (task.train, task.val, task.test)]
    twice = sum(len(part) - len(set(part)) for part in pairs)
    assert twice > 100  # 6,383 of all
    assert len(task.molecules) == 220  # 223 compounds, three in doubt
