"""Molecular graphs from SMILES, by RDKit: features of atoms and bonds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.errors import lacking

ELEMENTS = ("C", "N", "O", "F", "S", "Cl", "Br", "I", "P", "B")  # others share one feature
BONDS = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
ATOM = len(ELEMENTS) + 1 + 6 + 5 + 5 + 3  # the width of an atom's features
BOND = len(BONDS) + 2


@dataclass(frozen=True, eq=False)
class Molecule:
    """A molecule as a graph without hydrogens.

    atoms (n, 30): element, bonds (0-5), hydrogens (0-4), hybridisation, charge, aromatic, in a ring
    edges (2, E): each bond in both directions; bonds (E, 6): single, double, triple, aromatic, conjugated, in a ring
    symbols: the elements, in the order of the atoms
    """

    smiles: str
    atoms: Tensor
    edges: Tensor
    bonds: Tensor
    symbols: tuple[str, ...]


def molecule(smiles: str) -> Molecule:
    """The molecular graph of a SMILES string, parsed by RDKit; invalid strings raise ValueError."""
    chem = chemistry()
    found = chem.MolFromSmiles(smiles)
    if found is None or found.GetNumAtoms() == 0:
        raise ValueError(f"molecule({smiles!r}): RDKit cannot parse it; expected a SMILES string, such as CCO.")
    atoms = list(found.GetAtoms())
    links, bonds = [], []
    for bond in found.GetBonds():
        first, last = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        links += [(first, last), (last, first)]
        bonds += 2 * [[*_one(str(bond.GetBondType()), BONDS), bond.GetIsConjugated(), bond.IsInRing()]]
    return Molecule(
        smiles,
        torch.tensor([_atom(each) for each in atoms], dtype=torch.float32),
        torch.tensor(links, dtype=torch.long).reshape(-1, 2).T.contiguous(),
        torch.tensor(bonds, dtype=torch.float32).reshape(-1, BOND),
        tuple(each.GetSymbol() for each in atoms),
    )


def layout(smiles: str) -> np.ndarray:
    """(n, 2): 2-D coordinates for drawing, with bonds about 1.5 long."""
    chem = chemistry()
    from rdkit.Chem import rdDepictor

    found = chem.MolFromSmiles(molecule(smiles).smiles)
    rdDepictor.Compute2DCoords(found)
    return np.array(found.GetConformer().GetPositions()[:, :2])


def chemistry() -> Any:
    """The rdkit.Chem module; if missing, an error that says what to install."""
    try:
        from rdkit import Chem, RDLogger
    except ModuleNotFoundError as missing:
        raise lacking("A molecule's SMILES", "rdkit", "chem") from missing
    RDLogger.DisableLog("rdApp.*")  # type: ignore[attr-defined]
    return Chem


def _atom(atom: Any) -> list[float]:
    element = _one(atom.GetSymbol(), ELEMENTS)
    return [
        *element,
        float(not any(element)),
        *_one(min(atom.GetDegree(), 5), range(6)),
        *_one(min(atom.GetTotalNumHs(), 4), range(5)),
        *_one(str(atom.GetHybridization()), ("SP", "SP2", "SP3", "SP3D", "SP3D2")),
        float(atom.GetFormalCharge()),
        atom.GetIsAromatic(),
        atom.IsInRing(),
    ]


def _one(value: Any, of: Sequence[Any]) -> list[float]:
    return [float(value == each) for each in of]
