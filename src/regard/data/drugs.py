"""Drug response: how much of a drug does it take to halve the growth of a cell line (ln IC50)?"""

import csv
from pathlib import Path

import numpy as np
import torch

from .batch import Example
from .files import data_file, read_arrays, read_lines
from .task import Task
from .vocabulary import Vocabulary

FOLDER = "drug_response"


def drug_response(folder: "str | Path | None" = None, held_out: str = "pairs", seed: int = 0) -> Task:
    """ln IC50 from the drug's SMILES (inputs, one number a letter) and the cell line's methylation (second, (808,)).

    held_out   what val and test have that training has not: "pairs" (a tenth of the pairs each), "drugs" or "cells"
               (a tenth of the drugs or cell lines each: much harder, since means of drugs and cells no longer help)

    A target is a number; `ids` counts responses. Means of drugs and cells alone reach Pearson .88 on pairs. Read from
    drug_response/ in REGARD_DATA. Liu et al. 2020 (DeepCDR).
    """
    if held_out not in ("pairs", "drugs", "cells"):
        raise ValueError(f"drug_response(held_out={held_out!r}): expected pairs, drugs or cells.")
    rows = list(csv.DictReader(read_lines(data_file(f"{FOLDER}/gdsc_ic50.csv.gz", folder))))
    table = csv.DictReader(read_lines(data_file(f"{FOLDER}/drugs.csv", folder)))
    drugs = {row["gdsc_drug_id"]: row["smiles"] for row in table}
    path = data_file(f"{FOLDER}/methylation.npz", folder)
    cells = read_arrays(path, ("x", "cell_lines"))
    second = dict(zip(cells["cell_lines"].tolist(), torch.from_numpy(cells["x"].astype(np.float32)), strict=True))
    letters = Vocabulary.of(drugs.values())
    first = {drug: letters.encode(smiles) for drug, smiles in drugs.items()}
    key = {"pairs": None, "drugs": "gdsc_drug_id", "cells": "depmap_id"}[held_out]
    group = np.arange(len(rows)) if key is None else np.unique([row[key] for row in rows], return_inverse=True)[1]
    place = np.random.default_rng(seed).permutation(group.max() + 1)[group] * 10 // (group.max() + 1)
    parts: list[list[Example]] = [[], [], []]
    for at, (row, tenth) in enumerate(zip(rows, place.tolist(), strict=True)):
        try:
            one = Example(first[row["gdsc_drug_id"]], torch.tensor(float(row["ln_ic50"])),
                          second=second[row["depmap_id"]], id=at)  # fmt: skip
        except (KeyError, ValueError) as problem:
            raise ValueError(f"drug_response, response {at}: no such drug, cell line or number ({problem}).") from None
        parts[max(0, tenth - 7)].append(one)
    return Task(f"drug response, {held_out} held out", *parts, words=letters)
