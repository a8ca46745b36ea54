"""Trains two small models of drug response, judges their attention on atoms, and draws it on four drugs that they have
never seen: python docs/make_drug_pictures.py. Writes docs/images/studies/atoms.png and prints the findings. Data are
read from REGARD_DATA."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import torch
from matplotlib import pyplot as plt

from regard.data.smiles import layout
from regard.lab.tasks.drugs.atom_faithfulness import atoms, weights_on_atoms
from regard.lab.tasks.drugs.drug_response import Drugs
from regard.models.training.run_variant import run_variant
from regard.models.training.trainer import Trainer
from regard.views.molecules import molecule_map
from regard.views.plotting import save_figure

OUT = Path(__file__).parent / "images" / "studies"
SAYS = {"global": "global attention", "gat": "GAT, weight given to an atom"}
CELLS, DRUGS = 5, 4

if __name__ == "__main__":
    torch.set_num_threads(1)
    experiment = Drugs(small=True, held_out="drugs")
    task = experiment.load(0)
    pairs = torch.stack([one.inputs for one in task.test])
    drugs = pairs[:, 0].unique().tolist()
    some = torch.cat([pairs[pairs[:, 0] == drug][:CELLS] for drug in drugs])
    shown = sorted(drugs, key=lambda drug: len(task.molecules[drug].symbols))[1 : 1 + DRUGS]
    figure, several = plt.subplots(len(SAYS), DRUGS, figsize=(3.1 * DRUGS, 3.0 * len(SAYS)), layout="constrained")
    for axes, (name, says) in zip(several, SAYS.items(), strict=True):
        model = run_variant(experiment, task, name, 0, Trainer(experiment.training)).model.eval()
        for finding in atoms(model, some):
            print(f"{name}: {finding}")
        for ax, drug in zip(axes, shown, strict=True):
            one = task.molecules[drug]
            with torch.no_grad():
                weights = weights_on_atoms(model, pairs[pairs[:, 0] == drug][:1])[0, : len(one.symbols)]
            molecule_map(weights.numpy(), one.edges.numpy(), layout(one.smiles), one.symbols, ax=ax, bar=False)
            ax.set_title(f"{task.drug_names[drug]}: {says}", fontsize=8)
    OUT.mkdir(parents=True, exist_ok=True)
    save_figure(figure, OUT / "atoms.png")
