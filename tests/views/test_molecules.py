"""A molecule is drawn by its weights: darkest where most lies, every bond once, carbons unnamed."""

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="figures are drawn by matplotlib")
from matplotlib.figure import Figure

from regard.views.molecules import molecule_map

EDGES = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
PLACES = np.array([[0.0, 0.0], [1.5, 0.0], [2.2, 1.3]])


def test_each_bond_is_drawn_once_and_the_heaviest_atom_is_the_darkest():
    ax = molecule_map([0.1, 0.2, 0.7], EDGES, PLACES, ("C", "C", "O"), ax=Figure().add_subplot(), bar=False)
    assert len(ax.lines) == 2 and [text.get_text() for text in ax.texts] == ["O"]
    shades = ax.collections[0].get_facecolors()[:, :3].sum(1)
    assert shades[0] > shades[1] > shades[2]
    assert np.allclose(ax.collections[0].get_offsets(), PLACES)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="one weight, place and symbol for each atom"):
        molecule_map([0.5, 0.5], EDGES, PLACES, ("C", "C", "O"))
    with pytest.raises(ValueError, match="edges between these"):
        molecule_map([0.5, 0.5], EDGES, PLACES[:2], ("C", "C"))


def test_a_chemists_layout_keeps_bonds_of_one_length():
    pytest.importorskip("rdkit", reason="molecules are read by RDKit (extra chem)")
    from regard.data.smiles import layout, molecule

    one, spots = molecule("c1ccccc1O"), layout("c1ccccc1O")
    lengths = np.linalg.norm(spots[one.edges[0]] - spots[one.edges[1]], axis=1)
    assert spots.shape == (7, 2) and np.allclose(lengths, lengths[0], atol=0.05)
