"""Judges: numbers about attention and models, each with its interval and the baselines beside it."""

from .finding import Finding, from_json, to_json
from .intervals import Estimate, estimate, stream

__all__ = ["Estimate", "Finding", "estimate", "from_json", "stream", "to_json"]
