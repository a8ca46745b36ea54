"""Judges: numbers about attention and models, each with its interval and the baselines beside it."""

from .adapter import Adapter
from .battery import BATTERY, Judged
from .finding import Finding, from_json, to_json
from .inputs import Instance, LeftOut
from .intervals import Estimate, estimate, stream
from .judge import judge
from .looks import Look
from .report import Report

__all__ = [
    "BATTERY",
    "Adapter",
    "Estimate",
    "Finding",
    "Instance",
    "Judged",
    "LeftOut",
    "Look",
    "Report",
    "estimate",
    "from_json",
    "judge",
    "stream",
    "to_json",
]
