"""Maps made from recorded maps: mean of heads, rollout, flow, norms, gradient times attention, relevance, GAtt."""

from .recording.deriving.derived import (
    flow,
    gatt,
    gradient_times_attention,
    mean_of_heads,
    norms,
    relevance,
    rollout,
    score_of,
)

__all__ = ["flow", "gatt", "gradient_times_attention", "mean_of_heads", "norms", "relevance", "rollout", "score_of"]
