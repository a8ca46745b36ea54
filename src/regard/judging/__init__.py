"""Judges: numbers about attention and models, each with its interval and the baselines beside it."""

from .adapter import Adapter
from .asking import Judge, asks
from .battery import Judged, all_tests
from .finding import Finding, from_json, to_json
from .inputs import Instance, LeftOut
from .intervals import Estimate, estimate, stream
from .judge import judge
from .looks import Look
from .report import Report

__all__ = [
    "Adapter",
    "Estimate",
    "Finding",
    "Instance",
    "Judge",
    "Judged",
    "LeftOut",
    "Look",
    "Report",
    "all_tests",
    "asks",
    "estimate",
    "from_json",
    "judge",
    "stream",
    "to_json",
]
