"""Judges: numbers about attention and models, each with its interval and the baselines beside it."""

from .adapter import Adapter
from .finding import Finding, from_json, to_json
from .inputs import Instance
from .intervals import Estimate, estimate, stream
from .looks import Look

__all__ = ["Adapter", "Estimate", "Finding", "Instance", "Look", "estimate", "from_json", "stream", "to_json"]
