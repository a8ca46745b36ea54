"""Feature-related compositions: attention over several inputs, levels or representations. One mechanism a file."""

from .alternating import AlternatingCoAttention
from .attention_via_attention import AttentionViaAttention
from .hierarchical import HierarchicalAttention
from .interactive import InteractiveCoAttention
from .multi_grained import MultiGrainedCoAttention
from .multi_representational import MultiRepresentationalAttention
from .parallel import AttentionFlow, ParallelCoAttention
from .rotatory import RotatoryAttention

__all__ = [
    "AlternatingCoAttention",
    "AttentionFlow",
    "AttentionViaAttention",
    "HierarchicalAttention",
    "InteractiveCoAttention",
    "MultiGrainedCoAttention",
    "MultiRepresentationalAttention",
    "ParallelCoAttention",
    "RotatoryAttention",
]
