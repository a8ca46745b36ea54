"""Which genes a drug is known to act on, among those of the panel."""

import numpy as np

from ...data.drug_panel import DrugPanel

# Names of targets in GDSC that are families or proteins, as gene symbols. Those without a gene in the panel fall away.
GENES = {
    "ABL": "ABL1 ABL2",
    "BCR-ABL": "ABL1 BCR",
    "PDGFR": "PDGFRA PDGFRB",
    "VEGFR": "FLT1 KDR FLT4",
    "VEGFR1": "FLT1",
    "VEGFR2": "KDR",
    "VEGFR3": "FLT4",
    "VEGFR3/FLT4": "FLT4",
    "RAF": "RAF1 BRAF ARAF",
    "MEK1": "MAP2K1",
    "MEK2": "MAP2K2",
    "ERK1": "MAPK3",
    "ERK2": "MAPK1",
    "MTORC1": "MTOR",
    "MTORC2": "MTOR",
    "PI3K (class 1)": "PIK3CA PIK3CB PIK3R1",
    "PI3K (Class 1)": "PIK3CA PIK3CB PIK3R1",
    "PI3Kalpha": "PIK3CA",
    "PI3Kbeta": "PIK3CB",
    "TIE2": "TEK",
    "SHP-2 (PTPN11)": "PTPN11",
    "SHP-1 (PTPN6)": "PTPN6",
    "AMPK agonist": "PRKAA1",
    "RAR": "RARA",
    "Retinoic acid": "RARA",
    "PPARgamma": "PPARG",
    "FAK": "PTK2",
    "HSP90": "HSP90AA1 HSP90AB1",
    "TOP2": "TOP2A",
    "RSK": "RPS6KA3",
    "IKK2": "IKBKB",
    "IKKB": "IKBKB",
    "IKK": "IKBKB CHUK",
    "BET": "BRD2 BRD3 BRD4",
    "TAK1": "MAP3K7",
    "DNAPK": "PRKDC",
    "RON": "MST1R",
    "PKCB": "PRKCB",
    "TRK": "NTRK1 NTRK2 NTRK3",
    "PARP1": "PARP1",
    "BCL-XL": "BCL2L1",
}


def target_genes(panel: DrugPanel) -> list[list[int]]:
    """By drug: positions in `symbols` of its known targets, empty where none is in the panel."""
    place = {symbol: at for at, symbol in enumerate(panel.symbols)}
    found = []
    for text in panel.targets:
        names = [name for one in text.split(",") for name in GENES.get(one.strip(), one.strip()).split()]
        found.append(sorted({place[name] for name in names if name in place}))
    return found


def with_neighbours(genes: list[int], proteins: np.ndarray) -> list[int]:
    """The genes and those whose proteins interact with theirs."""
    source, target = proteins
    return sorted({*genes, *target[np.isin(source, genes)].tolist()})
