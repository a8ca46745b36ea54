"""Query-related compositions: the source and the number of queries. One mechanism a file."""

from .capsule import CapsuleAttention
from .directional import DirectionalSelfAttention, DiSAN
from .multi_hop import MultiHopAttention
from .pooling import AttentionPooling
from .reinforced import ReinforcedSelfAttention
from .self_attention import SelfAttention
from .structured import StructuredSelfAttention

__all__ = [
    "AttentionPooling",
    "CapsuleAttention",
    "DiSAN",
    "DirectionalSelfAttention",
    "MultiHopAttention",
    "ReinforcedSelfAttention",
    "SelfAttention",
    "StructuredSelfAttention",
]
