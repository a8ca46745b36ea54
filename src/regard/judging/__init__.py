"""Judges: numbers about attention and models, each with its interval and the baselines beside it."""

from .adapters.adapter import Adapter
from .adapters.attention_selector import AttentionSelector
from .adapters.inputs import Instance, NotApplicable
from .finding import Finding, from_json, to_json
from .judge import judge
from .registry import Judge, asks
from .report import Report
from .statistics.comparison import PairedDifference, compare
from .statistics.intervals import Estimate, estimate, stream
from .suite import Judged, all_tests

__all__ = [
    "Adapter",
    "AttentionSelector",
    "Estimate",
    "Finding",
    "Instance",
    "Judge",
    "Judged",
    "NotApplicable",
    "PairedDifference",
    "Report",
    "all_tests",
    "asks",
    "compare",
    "estimate",
    "from_json",
    "judge",
    "stream",
    "to_json",
]
