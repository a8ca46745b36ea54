"""The drug panel: responses of cell lines to drugs as a matrix, with four kinds of omics and a network of proteins."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.data.files import data_file, read_arrays, read_lines
from regard.data.smiles import Molecule, chemistry, molecule

FINGERPRINT = 1024  # bits of a Morgan fingerprint of radius 2
NETWORKS = {0.95: "ppi_095", 0.9: "ppi_09"}  # by the STRING score above which two proteins are joined
OMICS = ("depmap_id", "gene", "symbol", "expression", "copy_number", "mutation", *NETWORKS.values())


@dataclass(frozen=True, eq=False)
class DrugPanel:
    """Drugs x cell lines. D drugs, L lines, G genes.

    response      (D, L) ln IC50, NaN where a pair was not measured; a pair measured twice has the mean
    names, targets, pathways, molecules, scaffolds   of each drug; a scaffold is the SMILES of the ring system (Murcko)
    fingerprints  (D, 1024) Morgan bits of radius 2
    lines, tissues                  of each cell line; a tissue is its primary site
    expression, copy_number, mutation   (L, G); methylation (L, 808). None is standardised beyond what the source did
    symbols       names of the genes
    proteins      (2, E) positions of genes whose proteins interact (STRING), both directions
    """

    response: np.ndarray
    names: tuple[str, ...]
    targets: tuple[str, ...]
    pathways: tuple[str, ...]
    molecules: tuple[Molecule, ...]
    scaffolds: tuple[str, ...]
    fingerprints: np.ndarray
    lines: tuple[str, ...]
    tissues: tuple[str, ...]
    expression: np.ndarray
    copy_number: np.ndarray
    mutation: np.ndarray
    methylation: np.ndarray
    symbols: tuple[str, ...]
    proteins: np.ndarray

    @property
    def measured(self) -> np.ndarray:
        """(D, L): which pairs have a response."""
        return ~np.isnan(self.response)


def drug_panel(folder: "str | Path | None" = None, network: float = 0.95) -> DrugPanel:
    """The 460 cell lines of GDSC with expression, copy number, mutation and methylation, and 220 drugs.

    network   proteins are joined above this STRING score: 0.95 or 0.9

    A drug is its PubChem number: both measurements of a pair that GDSC has under two ids become their mean, so that no
    pair leaks between parts of a split. Three drugs with doubtful SMILES are left out. Needs RDKit (extra
    `chem`). Read from drug_response/ in REGARD_DATA.
    """
    if network not in NETWORKS:
        raise ValueError(f"drug_panel(network={network!r}): expected {' or '.join(map(str, NETWORKS))}.")
    drugs = _drugs(folder)
    omics = read_arrays(data_file("drug_response/omics.npz", folder), OMICS)
    methylation = read_arrays(data_file("drug_response/methylation.npz", folder), ("x", "cell_lines"))
    place = {name: at for at, name in enumerate(omics["depmap_id"].tolist())}
    methylated = {name: at for at, name in enumerate(methylation["cell_lines"].tolist())}
    rows = [
        (row["pubchem_id"], row["depmap_id"], float(row["ln_ic50"]))
        for row in csv.DictReader(read_lines(data_file("drug_response/gdsc_ic50.csv.gz", folder)))
        if row["pubchem_id"] in drugs and row["depmap_id"] in place and row["depmap_id"] in methylated
    ]
    lines = sorted({line for _, line, _ in rows})
    chosen = sorted({drug for drug, _, _ in rows}, key=int)
    tissue = {
        row["depmap_id"]: row["site_primary"]
        for row in csv.DictReader(read_lines(data_file("drug_response/cell_lines.csv", folder)))
    }
    at = np.array([place[name] for name in lines])
    return DrugPanel(
        response=_matrix(rows, chosen, lines),
        names=tuple(drugs[name]["name"] for name in chosen),
        targets=tuple(drugs[name]["targets"] for name in chosen),
        pathways=tuple(drugs[name]["target_pathway"] for name in chosen),
        molecules=tuple(molecule(drugs[name]["smiles"]) for name in chosen),
        scaffolds=tuple(scaffold(drugs[name]["smiles"]) for name in chosen),
        fingerprints=np.stack([fingerprint(drugs[name]["smiles"]) for name in chosen]),
        lines=tuple(lines),
        tissues=tuple(tissue.get(name, "NA") for name in lines),
        expression=omics["expression"][at].astype(np.float32),
        copy_number=omics["copy_number"][at].astype(np.float32),
        mutation=omics["mutation"][at].astype(np.float32),
        methylation=methylation["x"][[methylated[name] for name in lines]].astype(np.float32),
        symbols=tuple(omics["symbol"].tolist()),
        proteins=omics[NETWORKS[network]].astype(np.int64),
    )


def fingerprint(smiles: str, bits: int = FINGERPRINT) -> np.ndarray:
    """(bits,) of 0 and 1: the Morgan fingerprint of radius 2, circular neighbourhoods hashed (ECFP4)."""
    chem = chemistry()
    from rdkit.Chem import rdFingerprintGenerator

    made = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=bits)
    return np.asarray(made.GetFingerprintAsNumPy(chem.MolFromSmiles(smiles)), dtype=np.float32)


def scaffold(smiles: str) -> str:
    """The ring systems of a molecule and their linkers, as SMILES; a molecule without a ring is its own scaffold.

    Bemis and Murcko 1996.
    """
    chem = chemistry()
    from rdkit.Chem.Scaffolds import MurckoScaffold

    return MurckoScaffold.MurckoScaffoldSmiles(mol=chem.MolFromSmiles(smiles)) or smiles


def _drugs(folder: "str | Path | None") -> dict[str, dict[str, str]]:
    """By PubChem number: the first entry of each drug whose SMILES is not in doubt."""
    found: dict[str, dict[str, str]] = {}
    for row in csv.DictReader(read_lines(data_file("drug_response/drugs.csv", folder))):
        if not row["doubt"]:
            found.setdefault(row["pubchem_id"], row)
    return found


def _matrix(rows: list[tuple[str, str, float]], drugs: list[str], lines: list[str]) -> np.ndarray:
    """(D, L): means of the measurements, NaN elsewhere."""
    row, column = ({name: at for at, name in enumerate(names)} for names in (drugs, lines))
    places = np.array([(row[drug], column[line]) for drug, line, _ in rows])
    values = np.array([value for _, _, value in rows])
    flat = places[:, 0] * len(lines) + places[:, 1]
    count = np.bincount(flat, minlength=len(drugs) * len(lines))
    total = np.bincount(flat, values, minlength=len(drugs) * len(lines))
    return np.where(count > 0, total / np.maximum(count, 1), np.nan).reshape(len(drugs), len(lines))
