"""Query-related compositions: where questions come from and how many there are. One mechanism a file."""

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
