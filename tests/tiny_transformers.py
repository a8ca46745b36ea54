"""Tiny random models of transformers' architectures: a default configuration whose sizes are cut down."""

import torch
from transformers import CONFIG_MAPPING, AutoModel, PretrainedConfig, PreTrainedModel

WIDTH, HEADS, LAYERS, TOKENS, IMAGE = 32, 4, 2, 12, 32

_SIZES = [
    (
        WIDTH,
        "hidden_size d_model embed_dim n_embd dim emb_dim width projection_dim text_embed_dim embedding_size "
        "cross_attention_hidden_size encoder_hidden_size decoder_hidden_size hidden_dim "
        "word_embed_proj_dim q_hidden_size output_dim",
    ),
    (
        HEADS,
        "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads "
        "num_encoder_attention_heads num_decoder_attention_heads",
    ),
    (2, "num_key_value_heads num_kv_heads"),
    (
        LAYERS,
        "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers "
        "num_encoder_layers depth num_hidden_groups encoder_num_hidden_layers",
    ),
    (
        40,
        "intermediate_size ffn_dim d_ff n_inner encoder_ffn_dim decoder_ffn_dim moe_intermediate_size "
        "shared_expert_intermediate_size dim_feedforward mlp_dim d_inner_mlp",
    ),
    (8, "head_dim d_kv attention_head_size kv_channels patch_size qk_head_dim global_head_dim"),
    (99, "vocab_size"),
    (64, "max_position_embeddings n_positions max_source_positions max_target_positions n_ctx max_seq_len"),
    (IMAGE, "image_size"),
    (4, "num_experts num_local_experts n_routed_experts moe_num_experts"),
]
SIZE_OF = {name: size for size, names in _SIZES for name in names.split()}


def shrink(config: PretrainedConfig) -> PretrainedConfig:
    """Every size that is known by its name is made small, in the configurations inside it too."""
    attributes = {str(k): v for k, v in getattr(config, "attribute_map", {}).items()}
    for name, value in list(vars(config).items()):
        size = SIZE_OF.get(name) or SIZE_OF.get(next((k for k, v in attributes.items() if v == name), ""))
        if isinstance(value, PretrainedConfig):
            shrink(value)
        elif size and isinstance(value, int) and not isinstance(value, bool):
            setattr(config, name, min(value, size))
        elif name in ("layer_types", "mlp_layer_types") and isinstance(value, list) and len(value) > LAYERS:
            setattr(config, name, sorted(set(value), key=value.index)[:LAYERS] * LAYERS)
            setattr(config, name, getattr(config, name)[:LAYERS])
        elif name.endswith("token_id") and isinstance(value, int) and value >= SIZE_OF["vocab_size"]:
            setattr(config, name, {"pad_token_id": 0, "bos_token_id": 1}.get(name, 2))
        elif name in ("sliding_window", "attention_window") and isinstance(value, int):
            setattr(config, name, 5)
    return config


def tiny_config(kind: str) -> PretrainedConfig:
    """The configuration of a model type of CONFIG_MAPPING, made small."""
    return shrink(CONFIG_MAPPING[kind]())


def tiny_model(kind: str, implementation: str | None = None, auto: type = AutoModel) -> PreTrainedModel:
    """A random model of this type, the same for every implementation of attention."""
    torch.manual_seed(0)
    config = tiny_config(kind)
    model = (
        auto.from_config(config)
        if implementation is None
        else auto.from_config(config, attn_implementation=implementation)
    )
    torch.manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:  # norms, biases and sinks are constants at the start: make them count
                p.add_(torch.randn_like(p) * 0.1)
            elif not p.any():
                p.copy_(torch.randn_like(p) * 0.1)
            elif p.dim() == 2:  # as they are made, every head's weights are nearly even and would hide a fault
                p.mul_(4)
    return model.eval()


def inputs_of(model: PreTrainedModel, padding: str = "") -> dict[str, torch.Tensor]:
    """Two sequences of tokens, or two images; padding is "left", "right" or none."""
    generator = torch.Generator().manual_seed(2)
    name = model.main_input_name
    if name == "pixel_values":
        channels = getattr(model.config, "num_channels", None) or getattr(
            getattr(model.config, "vision_config", None), "num_channels", 3
        )
        return {name: torch.randn(2, channels, IMAGE, IMAGE, generator=generator)}
    if name in ("input_features", "input_values"):
        bins = getattr(model.config, "num_mel_bins", None)
        shape = (2, bins, 2 * SIZE_OF["max_source_positions"]) if bins else (2, 2000)
        given = {name: torch.randn(shape, generator=generator)}
    else:
        tokens = torch.randint(3, SIZE_OF["vocab_size"], (2, TOKENS), generator=generator)
        given = {"input_ids": tokens}
        if padding:
            mask = torch.ones_like(tokens)
            mask[0, slice(0, 4) if padding == "left" else slice(-4, None)] = 0
            given["attention_mask"] = mask
    if model.config.is_encoder_decoder:
        given["decoder_input_ids"] = torch.randint(3, SIZE_OF["vocab_size"], (2, 7), generator=generator)
    return given
