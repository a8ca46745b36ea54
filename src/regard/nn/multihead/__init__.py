"""Multi-head layers since 2017: latent, sparse, gated and differential attention, and recurrent layers."""

from .cross_layer import CrossLayerAttention
from .differential import DifferentialAttention
from .gated import GatedAttention
from .indexer import IndexedAttention, LightningIndexer
from .latent import LatentAttention
from .mixture_of_blocks import MixtureOfBlockAttention
from .multi_token import MultiTokenAttention
from .native_sparse import NativeSparseAttention
from .recurrent import (
    CausalLinearAttention,
    GatedDeltaNet,
    GatedLinearAttention,
    KimiDeltaAttention,
    LightningAttention,
    Retention,
)
from .state_space import Mamba2
from .talking_heads import TalkingHeadsAttention
from .tensor_product import TensorProductAttention

__all__ = [
    "CausalLinearAttention",
    "CrossLayerAttention",
    "DifferentialAttention",
    "GatedAttention",
    "GatedDeltaNet",
    "GatedLinearAttention",
    "IndexedAttention",
    "KimiDeltaAttention",
    "LatentAttention",
    "LightningAttention",
    "LightningIndexer",
    "Mamba2",
    "MixtureOfBlockAttention",
    "MultiTokenAttention",
    "NativeSparseAttention",
    "Retention",
    "TalkingHeadsAttention",
    "TensorProductAttention",
]
