"""Maps made from recorded maps: over heads, over layers, over values, over gradients.

A row is what attends, a column what is attended, as everywhere. Maps over all layers have one head: (B, 1, n, m).
"""

from .recording.deriving.combined import mean_of_heads
from .recording.deriving.flow import flow
from .recording.deriving.gatt import gatt
from .recording.deriving.norms import norms
from .recording.deriving.relevance import gradient_times_attention, relevance
from .recording.deriving.rollout import rollout
from .recording.deriving.targets import score_of

__all__ = ["flow", "gatt", "gradient_times_attention", "mean_of_heads", "norms", "relevance", "rollout", "score_of"]
