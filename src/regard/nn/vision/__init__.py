"""Vision modules: attention over positions, over channels, and channel gates. One idea a file."""

from .attention_free import AttentionFree
from .dual import ChannelAttention, DoubleAttention, DualAttention
from .external import ExternalAttention
from .gating import ConvolutionalBlockAttention, EfficientChannelAttention, SqueezeExcitation
from .positions import NonLocalBlock, SpatialAttention, TemporalAttention

__all__ = [
    "AttentionFree",
    "ChannelAttention",
    "ConvolutionalBlockAttention",
    "DoubleAttention",
    "DualAttention",
    "EfficientChannelAttention",
    "ExternalAttention",
    "NonLocalBlock",
    "SpatialAttention",
    "SqueezeExcitation",
    "TemporalAttention",
]
