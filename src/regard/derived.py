"""Maps made from recorded maps: over heads, over layers, over values, over gradients.

A row is what attends, a column what is attended, as everywhere. Maps over all layers have one head: (B, 1, n, m).
"""

from .recording.attribution.combined import mean_of_heads
from .recording.attribution.flow import flow
from .recording.attribution.gatt import gatt
from .recording.attribution.norms import norms
from .recording.attribution.relevance import gradient_times_attention, relevance
from .recording.attribution.rollout import rollout
from .recording.attribution.targets import score_of

__all__ = ["flow", "gatt", "gradient_times_attention", "mean_of_heads", "norms", "relevance", "rollout", "score_of"]
