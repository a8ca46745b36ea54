"""How well does the model do its task? Asked before anything about its attention."""

import numpy as np

from ..adapters.adapter import Adapter
from ..adapters.inputs import NotApplicable
from ..finding import Finding
from ..registry import asks
from ..task_metrics import extrinsic


@asks("How well does the model do its task?", aspect="task")
def task(adapter: Adapter, *, seed: int = 0) -> list[Finding]:
    """Accuracy, precision, recall, F1 and AUC of the classes, beside trivial baselines.

    Every instance needs a label. Attention in a model that is no better than a bag of words says little about texts.
    """
    if not adapter.labelled:
        raise NotApplicable("Not every instance has a label: accuracy needs one for each.")
    told = np.asarray(adapter.each(lambda inputs: adapter.predict(inputs).tolist()))
    wanted = [int(label) for label in adapter.labels if label is not None]
    most = max(told.shape[1], 1 + max(wanted))
    scores = np.pad(told, ((0, 0), (0, most - told.shape[1])))
    return extrinsic(
        "classification",
        told.argmax(1).tolist(),
        wanted,
        scores=scores,
        classes=range(most),
        baselines=adapter.trivial,
        seed=seed,
    )
