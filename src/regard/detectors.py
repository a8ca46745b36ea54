"""What a head looks at: detectors with their chance levels, and texts that show induction."""

from .recording.attribution.detectors import DETECTORS, heads, repeated
from .recording.attribution.head_scores import Head, HeadScore, HeadScores

__all__ = ["DETECTORS", "Head", "HeadScore", "HeadScores", "heads", "repeated"]
