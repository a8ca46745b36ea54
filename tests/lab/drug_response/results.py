"""Results of a split as a study would have them, with known differences between models."""

import numpy as np

from regard.lab.drug_response.evaluation.metrics import MEASURES
from regard.lab.drug_response.protocol.splits import SPLITS
from regard.studies.results import Results, Row


def results(levels: dict[str, float], split: str = "cells") -> Results:
    task, draw = SPLITS[split], np.random.default_rng(0)
    rows = []
    for name, level in levels.items():
        noise = 0.002 * draw.normal(size=5)
        for seed in range(5):
            rows.append(Row(task, name, seed, "rmse", level + 0.05 * seed + noise[seed]))
            rows.append(Row(task, name, seed, "explained", 1.5 - level))
    return Results("x", "boosting", (task,), tuple(levels), tuple(range(5)), {task: dict(MEASURES)}, rows)


LEVELS = {"means": 1.45, "ridge": 1.3, "forest": 1.36, "boosting": 1.32, "mlp": 1.33, "gat": 1.34, "gat/uniform": 1.34}
