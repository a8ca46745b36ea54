"""Where models of drug response use attention, each as a variant of one network, and its ablations.

A variant is `place` or `place/ablation`: "gat", "gat/uniform", "cross/frozen". A variant and its ablations have equally
many parameters; under uniform those of the score have no effect, under frozen they keep their initial values.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """drug: how a molecule is read; readout of its atoms; line: how a cell line is read; meeting: of drug and line."""

    says: str
    drug: str = "fingerprint"
    readout: str = "mean"
    line: str = "genes"
    meeting: str = ""
    site: str = ""  # where its attention runs; "" without attention


PLACES = {
    "mlp": Place("MLP on fingerprints, no attention"),
    "mean": Place("mean of atoms, no bonds, no attention", "none"),
    "gcn": Place("GCN, mean of atoms, no attention", "gcn"),
    "gat": Place("GAT on the molecule", "gat", site="drug.layers.*"),
    "gatv2": Place("GATv2 on the molecule", "gatv2", site="drug.layers.*"),
    "edge": Place("edge attention (GATv2 with bonds)", "edge", site="drug.layers.*"),
    "transformer": Place("graph transformer on the molecule", "transformer", site="drug.layers.*"),
    "global": Place("GCN, global attention pooling", "gcn", "global", site="drug.gate"),
    "proteins": Place("genes attend along the protein network (as TGSA)", line="proteins", site="line.layers.*"),
    "cross": Place("the drug attends to genes (as PaccMann)", meeting="genes", site="meeting"),
    "atoms": Place("the cell line attends to atoms (as TransEDRP)", "gcn", meeting="atoms", site="meeting"),
    "kinds": Place("the drug attends to kinds of omics", meeting="kinds", site="meeting"),
}
ABLATIONS = {
    "uniform": "equal weights",
    "frozen": "weights of the untrained network",
    "permuted": "each row's weights permuted at every step",
}
ATTENTION = tuple(name for name, place in PLACES.items() if place.site)
ABLATED = tuple(f"{name}/{ablation}" for name in ATTENTION for ablation in ABLATIONS)


def place_of(variant: str) -> tuple[Place, str]:
    """The place of a variant and its ablation, "" for none."""
    name, _, ablation = variant.partition("/")
    if name not in PLACES or (ablation and (ablation not in ABLATIONS or not PLACES[name].site)):
        raise ValueError(
            f"there is no network {variant!r}; expected one of {', '.join(PLACES)}, of those with attention also "
            f"{', '.join(f'{ATTENTION[0]}/{each}' for each in ABLATIONS)}."
        )
    return PLACES[name], ablation


def variant_says(variant: str) -> str:
    """What a variant is, for tables."""
    place, ablation = place_of(variant)
    return f"{place.says}; {ABLATIONS[ablation]}" if ablation else place.says
