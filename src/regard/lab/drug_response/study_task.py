"""The study task `response`: drug response with nested cross-validation."""

from collections.abc import Mapping
from typing import Any

from regard.studies.tasks import StudyTask

from .evaluation.metrics import MEASURES
from .models.candidates import BASELINES, NETWORKS
from .protocol.splits import OVERLAP, SPLITS

OPTIONS = ("held_out", "trials")


class Response(StudyTask):
    """ln IC50 of new pairs, cell lines, tissues, drugs or scaffolds; options: held_out (one of the splits) and trials,
    the tuning budget of each model within the training part. Seed i is fold i % 5."""

    call = "regard.lab.drug_response.protocol.trial:run_response"

    def __init__(self, part: Mapping[str, Any]):
        super().__init__(part)
        strange = [name for name in self.options if name not in OPTIONS]
        if strange:
            raise ValueError(f"the task response has no option {strange[0]!r}; it has {', '.join(OPTIONS)}.")
        held_out = self.options.setdefault("held_out", "cells")
        if held_out not in SPLITS:
            raise ValueError(f"the task response: held_out = {held_out!r}, expected {', '.join(SPLITS)}.")
        self.options["small"] = bool(part.get("small", False))
        self.measures = dict(MEASURES)
        self.overlap = OVERLAP

    def canonical(self, variant: str) -> str:
        if variant not in (*BASELINES, *NETWORKS):
            raise ValueError(
                f"the task response has no variant {variant!r}; it has {', '.join(BASELINES)}, and networks: "
                f"{', '.join(NETWORKS)}."
            )
        return variant
