"""Drug response: how much of a drug does it take to halve the growth of a cell line (ln IC50)?"""

import csv
import itertools
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.data.batch import Example
from regard.data.files import data_file, read_arrays, read_lines
from regard.data.smiles import Molecule, molecule
from regard.data.task import Task
from regard.data.vocabulary import Vocabulary

FOLDER = "drug_response"
SPLITS = ("pairs", "drugs", "cells")


@dataclass(eq=False, repr=False)
class DrugTask(Task):
    """Responses of cell lines to drugs with molecular graphs. An example's inputs are (2,): its drug, its cell line.

    molecules     of each drug; drug_names beside them
    methylation   (cell lines, sites) shares of methylated promoters; cell_names beside them
    chromosomes   how many sites each has, in the order of the sites; chromosome_names beside them
    """

    _: KW_ONLY
    molecules: list[Molecule] = field(default_factory=list)
    drug_names: tuple[str, ...] = ()
    methylation: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    cell_names: tuple[str, ...] = ()
    chromosomes: tuple[int, ...] = ()
    chromosome_names: tuple[str, ...] = ()


def drug_response(folder: "str | Path | None" = None, held_out: str = "pairs", seed: int = 0) -> Task:
    """ln IC50 from the drug's SMILES (inputs, one number a letter) and the cell line's methylation (second, (808,)).

    held_out   what is unseen in training: "pairs" (a tenth of the pairs each), "drugs" or "cells"
               (a tenth of the drugs or cell lines each: much harder, since means of drugs and cells no longer help)

    A compound is its PubChem number: some were measured under two numbers of GDSC, and both measurements of a pair, or
    of a drug, stay in one part. A target is a number; `ids` counts responses. Means of drugs and cells alone reach
    Pearson .88 on pairs. Read from drug_response/ in REGARD_DATA. Liu et al. 2020 (DeepCDR).
    """
    rows, drugs = _responses(folder), _drugs(folder)
    cells = _cells(folder)
    second = dict(zip(cells["cell_lines"].tolist(), torch.from_numpy(cells["x"].astype(np.float32)), strict=True))
    letters = Vocabulary.of(row["smiles"] for row in drugs.values())
    first = {drug: letters.encode(row["smiles"]) for drug, row in drugs.items()}
    parts: list[list[Example]] = [[], [], []]
    for at, (row, part) in enumerate(zip(rows, _parts(rows, held_out, seed), strict=True)):
        try:
            one = Example(
                first[row["gdsc_drug_id"]], torch.tensor(float(row["ln_ic50"])), second=second[row["depmap_id"]], id=at
            )
        except (KeyError, ValueError) as problem:
            raise _strange(at, problem) from None
        parts[part].append(one)
    return Task(f"drug response, {held_out} held out", *parts, words=letters)


def drug_graphs(
    folder: "str | Path | None" = None,
    held_out: str = "pairs",
    seed: int = 0,
    compounds: int | None = None,
    cell_lines: int | None = None,
) -> DrugTask:
    """The same responses with drugs as molecular graphs: RDKit's atoms and bonds (extra `chem`).

    compounds, cell_lines   a subset of this size, the same for every seed

    The three drugs whose SMILES are in doubt are left out.
    """
    drugs = {number: row for number, row in _drugs(folder).items() if not row["doubt"]}
    known = {row["pubchem_id"]: row for row in drugs.values()}
    known = {number: known[number] for number in _some(list(known), compounds)}
    cells = _cells(folder)
    names = cells["cell_lines"].tolist()
    places, lines = ({name: at for at, name in enumerate(each)} for each in (known, names))
    kept = set(_some(names, cell_lines))
    rows = [
        row
        for row in _responses(folder)
        if row["gdsc_drug_id"] in drugs and row["pubchem_id"] in known and row["depmap_id"] in kept
    ]
    parts: list[list[Example]] = [[], [], []]
    for at, (row, part) in enumerate(zip(rows, _parts(rows, held_out, seed), strict=True)):
        try:
            pair = torch.tensor([places[row["pubchem_id"]], lines[row["depmap_id"]]])
            parts[part].append(Example(pair, torch.tensor(float(row["ln_ic50"])), id=at))
        except (KeyError, ValueError) as problem:
            raise _strange(at, problem) from None
    runs = [(name, len(list(run))) for name, run in itertools.groupby(cells["sites"].tolist(), _chromosome)]
    return DrugTask(
        f"drug response, {held_out} held out",
        *parts,
        molecules=[molecule(row["smiles"]) for row in known.values()],
        drug_names=tuple(row["name"] for row in known.values()),
        methylation=torch.from_numpy(cells["x"].astype(np.float32)),
        cell_names=tuple(names),
        chromosomes=tuple(size for _, size in runs),
        chromosome_names=tuple(name for name, _ in runs),
    )


def _responses(folder: "str | Path | None") -> list[dict[str, str]]:
    return list(csv.DictReader(read_lines(data_file(f"{FOLDER}/gdsc_ic50.csv.gz", folder))))


def _drugs(folder: "str | Path | None") -> dict[str, dict[str, str]]:
    table = csv.DictReader(read_lines(data_file(f"{FOLDER}/drugs.csv", folder)))
    return {row["gdsc_drug_id"]: row for row in table}


def _cells(folder: "str | Path | None") -> dict[str, np.ndarray]:
    return read_arrays(data_file(f"{FOLDER}/methylation.npz", folder), ("x", "cell_lines", "sites"))


def _some(names: list[str], count: int | None) -> list[str]:
    """A fixed random subset, in order."""
    kept = np.random.default_rng(0).permutation(len(names))[:count]
    return [names[at] for at in np.sort(kept).tolist()]


def _chromosome(site: str) -> str:
    """SKI_1_2159133_2160133 lies on chromosome 1."""
    return site.rsplit("_", 3)[1]


def _parts(rows: list[dict[str, str]], held_out: str, seed: int) -> list[int]:
    """0 train, 1 val, 2 test for each response; groups stay together."""
    if held_out not in SPLITS:
        raise ValueError(f"drug_response(held_out={held_out!r}): expected {', '.join(SPLITS)}.")
    keys = {"pairs": ("depmap_id", "pubchem_id"), "drugs": ("pubchem_id",), "cells": ("depmap_id",)}[held_out]
    group = np.unique([" ".join(row[key] for key in keys) for row in rows], return_inverse=True)[1]
    count = int(group.max()) + 1
    tenth = np.random.default_rng(seed).permutation(count)[group] * 10 // count
    return np.maximum(0, tenth - 7).tolist()


def _strange(at: int, problem: Exception) -> ValueError:
    return ValueError(f"drug_response, response {at}: no such drug, cell line or number ({problem}).")
