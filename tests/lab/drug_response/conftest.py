"""A small panel that is drawn: sixteen drugs, forty cell lines, nine genes."""

import numpy as np
import pytest

from regard.data.smiles import molecule
from regard.lab.data.drug_panel import DrugPanel, fingerprint, scaffold

SMILES = (
    "c1ccccc1O",
    "c1ccccc1N",
    "c1ccncc1C",
    "CCO",
    "CCCC(=O)O",
    "c1ccc2ccccc2c1",
    "C1CCCCC1O",
    "CC(C)N",
    "c1ccsc1C=O",
    "OCC1CCCO1",
    "c1cnc[nH]1",
    "CC(=O)Nc1ccccc1",
    "c1ccc(cc1)c1ccccc1",
    "CN1CCNCC1",
    "O=C1CCCN1",
    "ClC1CCCCC1",
)


def drawn_panel(seed: int = 0) -> DrugPanel:
    """Responses with effects of drugs and lines, and a slope of each drug on the first gene."""
    draw = np.random.default_rng(seed)
    drugs, lines, genes = len(SMILES), 40, 9
    expression = draw.normal(size=(lines, genes)).astype(np.float32)
    response = (
        2 * draw.normal(size=(drugs, 1))
        + draw.normal(size=(1, lines))
        + draw.normal(size=(drugs, 1)) * expression[:, 0]
        + 0.3 * draw.normal(size=(drugs, lines))
    )
    response[draw.random(response.shape) < 0.1] = np.nan
    symbols = tuple(f"G{at}" for at in range(genes))
    ring = np.arange(genes)
    return DrugPanel(
        response=response,
        names=tuple(f"drug {at}" for at in range(drugs)),
        targets=tuple(f"G{at % genes}" for at in range(drugs)),
        pathways=("",) * drugs,
        molecules=tuple(molecule(one) for one in SMILES),
        scaffolds=tuple(scaffold(one) for one in SMILES),
        fingerprints=np.stack([fingerprint(one, 64) for one in SMILES]),
        lines=tuple(f"line {at}" for at in range(lines)),
        tissues=tuple("abcdefg"[at % 7] for at in range(lines)),
        expression=expression,
        copy_number=draw.normal(1, 0.2, size=(lines, genes)).astype(np.float32),
        mutation=(draw.random((lines, genes)) < 0.2).astype(np.float32),
        methylation=draw.random((lines, 6)).astype(np.float32),
        symbols=symbols,
        proteins=np.stack([np.r_[ring, np.roll(ring, 1)], np.r_[np.roll(ring, 1), ring]]),
    )


@pytest.fixture(scope="session")
def small_panel() -> DrugPanel:
    pytest.importorskip("rdkit")
    return drawn_panel()
