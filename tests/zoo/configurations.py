"""Tiny configurations of transformers' architectures, by the names of their settings."""

import re
from typing import Any

LAYERS = r"(num_|n_)?(\w*_)?(layers?|blocks|depth)$|^n_layer$|^depth$"
NOT_LAYERS = (
    r"norm|shared|kv_shared|freeze|skip|interval|period|every|use|drop|type|scale|first|dense|index|select|feat"
)
HEADS = r"heads?$|^num_attention_heads|num_heads"
KV_HEADS = r"(key_value|kv)\w*heads|num_query_groups"
HEAD_DIM = r"head_dim|^d_kv$|kv_channels|head_size|attention_head_size|^d_head$|size_per_head"
INNER = r"intermediate|ffn|inner|feed_forward|d_ff|^n_inner$|mlp_dim|ff_dim"
RANKS = r"lora_rank|_rank$"
WIDTH = r"hidden_size|d_model|dim$|_dim|embed|n_embd|width|channels?$|_size$|^dim|projection|num_channels_"
NOT_WIDTH = (
    r"vocab|image_size|patch|window|kernel|max_|num_channels$|in_channels|chunk|type_|block_size|crop|bucket|tile|pos|hop|"
    r"batch|group|context|codebook|mel|num_mel|downsample|out_hidden|sample|stride|pool|tokens|conv_|pixel|merge|dropout|"
    r"num_bins|feature_size|input_size|state_size|chars|grid|fft|n_mels|seq|cache|audio_channels|target_length|memory_size"
)
EXPERTS = r"(num|n)_(\w*_)?experts$|^num_local_experts$|moe_num_experts|n_routed_experts"
IMAGE = 32


def tiny(config_class: type, level: int = 0, seen: int = 0) -> Any:
    """A small configuration: level 0 shrinks all that it knows, 1 leaves widths of heads, 2 only layers and words."""
    default = config_class()
    changed: dict[str, Any] = {}
    subs = getattr(config_class, "sub_configs", {}) or {}
    for name, value in default.to_dict().items():
        own = getattr(default, name, None)
        if name in subs and own is not None and hasattr(own, "to_dict"):
            if seen < 3:
                changed[name] = tiny(type(own), level, seen + 1)
            continue
        new = setting(name, value, level)
        if new is not None and new != value:
            changed[name] = new
    return config_class(**changed)


def setting(name: str, value: Any, level: int) -> Any:
    """The small value of a setting; None leaves it."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return _number(name, value, level)
    if (
        isinstance(value, (list, tuple))
        and value
        and all(isinstance(x, int) and not isinstance(x, bool) for x in value)
    ):
        return _numbers(name, list(value), level)
    if isinstance(value, float) and re.search("dropout|drop_path|layerdrop|drop_rate", name):
        return 0.0
    return None


def _number(name: str, value: int, level: int) -> int | None:
    if name.endswith(("token_id", "token_index", "_token")):
        return value if 0 <= value < 100 else 90 + sum(map(ord, name)) % 30 if value >= 100 else None
    if "vocab_size" in name:
        return 128 if value > 128 and "type" not in name else None
    if re.search(EXPERTS, name):
        return min(value, 4)
    if re.search(r"experts_per|top_?k|num_selected", name):
        return min(value, 2) if value else None
    if re.search(r"n_group|topk_group", name):
        return 1 if value else None
    if re.search(LAYERS, name) and not re.search(NOT_LAYERS, name):
        return min(value, 2)
    if level == 2:
        return min(value, 512) if name in ("intermediate_size", "hidden_size") and value > 1024 else None
    if "sliding_window" in name or name == "attention_window":
        return 4
    if re.search(KV_HEADS, name):
        return min(value, 2)
    if re.search(HEADS, name) and "dim" not in name:
        return min(value, 4)
    if re.search(RANKS, name):
        return min(value, 16)
    if re.search(HEAD_DIM, name):
        return min(value, 8) if level == 0 else None
    if name in ("image_size", "img_size"):
        return IMAGE if value > IMAGE else None
    if name == "patch_size":
        return 8 if value > 8 else None
    if re.search(INNER, name):
        return min(value, 64)
    if re.search(WIDTH, name) and not re.search(NOT_WIDTH, name) and value >= 48:
        return 32
    return None


def _numbers(name: str, value: list[int], level: int) -> list[int] | None:
    if "mrope" in name:
        return [2, 1, 1]
    if "attention_window" in name:
        return [4, 4]
    if re.search("depths?$|layers$|blocks", name):
        return [min(x, 1) for x in value]
    if level == 2:
        return None
    if re.search("heads", name):
        return [min(x, 2) for x in value]
    if re.search("hidden_sizes|embed_dims?|dims$|^dims", name):
        return [32] * len(value) if level == 0 else [16 * 2**i for i in range(len(value))]
    if name in ("image_size",):
        return [IMAGE] * len(value)
    return None
