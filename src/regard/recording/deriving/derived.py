"""Maps made from recorded maps: over heads, over layers, over values, over gradients.

A row is what attends, a column what is attended, as everywhere. Maps over all layers have one head: (B, 1, n, m).
"""

from .combined import mean_of_heads
from .flow import flow
from .gatt import gatt
from .norms import norms
from .relevance import gradient_times_attention, relevance
from .rollout import rollout
from .targets import score_of

__all__ = ["flow", "gatt", "gradient_times_attention", "mean_of_heads", "norms", "relevance", "rollout", "score_of"]
