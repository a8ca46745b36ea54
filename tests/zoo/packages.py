"""Models of other packages, tiny or the smallest there are, and twenty without attention."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

Built = tuple[nn.Module, Callable[[], Any]]


def names(package: str) -> list[str]:
    if package == "timm":
        return _timm_names()
    return list(TABLES[package]())


def build(package: str, name: str) -> Built:
    torch.manual_seed(0)
    if package == "timm":
        return _timm(name)
    model, run = TABLES[package]()[name]()
    return model.eval(), run


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def ids(*shape: int) -> Tensor:
    return torch.randint(1, 90, shape, generator=torch.Generator().manual_seed(0))


# timm: of each of its files the model with the fewest pixels, and of those the smallest by name


SMALL = (
    "test_",
    "nano",
    "pico",
    "femto",
    "atto",
    "xxs",
    "xx_small",
    "tiny",
    "_xs",
    "small",
    "_s",
    "b0",
    "m0",
    "18",
    "base",
)


def _timm_names() -> list[str]:
    import timm

    chosen = []
    for module in timm.list_modules():
        models = timm.list_models(module=module)
        if models:
            chosen.append(min(models, key=lambda name: (_rank(name), len(name))))
    return chosen


def _rank(name: str) -> int:
    return next((i for i, word in enumerate(SMALL) if word in name), len(SMALL))


def _timm(name: str) -> Built:
    import timm

    for options in ({"img_size": 64, "num_classes": 7}, {"num_classes": 7}):
        try:
            model = timm.create_model(name, pretrained=False, **options).eval()
            _, h, w = model.default_cfg["input_size"]
            x = noise(1, 3, 64, 64) if "img_size" in options else noise(1, 3, h, w)
            with torch.no_grad():
                model(x)
        except Exception:
            if "img_size" not in options:
                raise
            continue
        return model, partial(model, x)
    raise AssertionError("the second way returns or raises")


# x-transformers: one decoder or encoder for each of its options


def _x_transformers() -> dict[str, Callable[[], Built]]:
    flags: dict[str, dict[str, Any]] = {
        "plain": {},
        "flash": {"attn_flash": True},
        "rotary": {"rotary_pos_emb": True},
        "alibi": {"alibi_pos_bias": True},
        "T5 bias": {"rel_pos_bias": True},
        "talking heads before": {"attn_pre_talking_heads": True},
        "talking heads after": {"attn_post_talking_heads": True},
        "sparse top-k": {"attn_sparse_topk": 3},
        "normalised queries and keys": {"attn_qk_norm": True},
        "one key head": {"attn_one_kv_head": True},
        "grouped queries": {"attn_kv_heads": 2},
        "memory of keys": {"attn_num_mem_kv": 4},
        "gated values": {"attn_gate_values": True},
        "gated heads": {"attn_gate_value_heads": True},
        "l2 distance": {"attn_l2_distance": True},
        "sigmoid": {"attn_sigmoid": True},
        "gumbel": {"attn_gumbel_softmax": True},
        "hard": {"attn_hard": True},
        "selective": {"attn_selective": True},
        "cog signed": {"attn_cog_signed": True},
        "added zero key": {"attn_add_zero_kv": True},
        "learned sinks": {"attn_head_learned_sink": True},
        "data-dependent alibi": {"attn_data_dependent_alibi": True},
        "contextual positions": {"attn_use_cope": True},
        "soft clamp": {"attn_softclamp_logits": True},
        "laser": {"attn_laser": True},
        "latent keys": {"attn_use_latent_kv": True, "attn_dim_latent_kv": 16},
        "latent queries": {"attn_use_latent_q": True, "attn_dim_latent_q": 16},
        "inverted": {"attn_inverted_attention": True},
        "residual attention": {"residual_attn": True},
        "cross residual, macaron": {"macaron": True},
        "sandwich": {"sandwich_coef": 1},
        "shifted tokens": {"shift_tokens": 1},
        "hyper connections": {"num_residual_streams": 2},
        "value residual": {"add_value_residual": True},
        "scale norm": {"use_scalenorm": True},
        "rms norm": {"use_rmsnorm": True},
        "GLU": {"ff_glu": True},
    }

    def language(kind: str, options: dict[str, Any]) -> Callable[[], Built]:
        def make() -> Built:
            import x_transformers

            layers = getattr(x_transformers, kind)(dim=32, depth=2, heads=4, attn_dim_head=8, **options)
            model = x_transformers.TransformerWrapper(num_tokens=97, max_seq_len=32, attn_layers=layers).eval()
            tokens = ids(2, 12)
            return model, lambda: model(tokens)

        return make

    def both() -> Built:
        import x_transformers

        side = {"num_tokens": 97, "depth": 2, "heads": 4, "max_seq_len": 32}
        model = x_transformers.XTransformer(dim=32, **{f"{s}_{k}": v for s in ("enc", "dec") for k, v in side.items()})
        source, target = ids(2, 12), ids(2, 8)
        return model, lambda: model(source, target)

    def continuous() -> Built:
        import x_transformers

        layers = x_transformers.Encoder(dim=32, depth=2, heads=4)
        model = x_transformers.ContinuousTransformerWrapper(dim_in=8, dim_out=4, max_seq_len=32, attn_layers=layers)
        x = noise(2, 12, 8)
        return model, lambda: model(x)

    made = {f"decoder, {name}": language("Decoder", options) for name, options in flags.items()}
    made |= {f"encoder, {name}": language("Encoder", flags[name]) for name in ("plain", "flash", "T5 bias", "sigmoid")}
    return made | {"encoder and decoder": both, "continuous": continuous}


# vit_pytorch: each class of its files that looks at an image


def _vit_pytorch() -> dict[str, Callable[[], Built]]:
    plain = {"image_size": 32, "patch_size": 8, "num_classes": 7, "dim": 32, "depth": 2, "heads": 4, "mlp_dim": 64}
    simple = plain
    small: dict[str, tuple[str, dict[str, Any]]] = {
        "vit.ViT": ("", plain),
        "simple_vit.SimpleViT": ("", simple),
        "simple_flash_attn_vit.SimpleViT": ("", simple | {"use_flash": False}),
        "simple_vit_with_qk_norm.SimpleViT": ("", simple),
        "simple_vit_with_register_tokens.SimpleViT": ("", simple),
        "simple_vit_with_patch_dropout.SimpleViT": ("", simple),
        "simple_vit_with_fft.SimpleViT": ("", simple | {"freq_patch_size": 8}),
        "simple_vit_with_value_residual.SimpleViT": ("", simple),
        "simple_vit_with_hyper_connections.SimpleViT": ("", simple | {"num_residual_streams": 2}),
        "simple_vit_with_sparse_gating.SimpleViT": ("", simple),
        "simple_vit_attn_residual.SimpleViT": ("", simple),
        "simple_vit_orthog_residual_update.SimpleViT": ("", simple),
        "simple_uvit.SimpleUViT": ("", simple),
        "deepvit.DeepViT": ("", plain),
        "parallel_vit.ViT": ("", plain | {"num_parallel_branches": 2}),
        "normalized_vit.nViT": ("", plain | {"dim_head": 8}),
        "rvt.RvT": ("", plain),
        "vit_for_small_dataset.ViT": ("", plain),
        "vit_with_patch_dropout.ViT": ("", plain | {"patch_dropout": 0.25}),
        "vit_with_patch_merger.ViT": ("", plain | {"patch_merge_layer": 1, "patch_merge_num_tokens": 4}),
        "vit_with_decorr.ViT": ("", plain),
        "vit_with_keel_post_ln.ViT": ("", plain),
        "vit_detpool.ViT": ("", plain),
        "local_vit.LocalViT": ("", plain),
        "efficient.ViT": ("", {"image_size": 32, "patch_size": 8, "num_classes": 7, "dim": 32}),
        "learnable_memory_vit.ViT": ("", plain),
        "ats_vit.ViT": ("", plain | {"max_tokens_per_depth": (12, 8)}),
        "cait.CaiT": ("", plain | {"cls_depth": 2}),
        "look_vit.LookViT": (
            "",
            {"dim": 32, "image_size": 32, "num_classes": 7, "depth": 2, "patch_size": 8, "heads": 4, "dim_head": 8},
        ),
        "jumbo_vit.JumboViT": ("", plain | {"num_jumbo_cls": 1, "jumbo_cls_k": 2, "jumbo_ff_mult": 2}),
        "t2t.T2TViT": (
            "",
            {
                "dim": 32,
                "image_size": 32,
                "depth": 2,
                "heads": 4,
                "mlp_dim": 64,
                "num_classes": 7,
                "t2t_layers": ((7, 4), (3, 2)),
            },
        ),
        "cct.CCT": (
            "",
            {
                "img_size": 32,
                "embedding_dim": 32,
                "n_conv_layers": 1,
                "num_layers": 2,
                "num_heads": 4,
                "mlp_ratio": 2,
                "num_classes": 7,
                "kernel_size": 7,
                "stride": 2,
                "padding": 3,
            },
        ),
        "cross_vit.CrossViT": (
            "",
            {
                "image_size": 32,
                "num_classes": 7,
                "depth": 1,
                "sm_dim": 32,
                "sm_patch_size": 8,
                "sm_enc_depth": 1,
                "sm_enc_heads": 4,
                "sm_enc_mlp_dim": 64,
                "lg_dim": 32,
                "lg_patch_size": 16,
                "lg_enc_depth": 1,
                "lg_enc_heads": 4,
                "lg_enc_mlp_dim": 64,
                "cross_attn_depth": 1,
                "cross_attn_heads": 4,
            },
        ),
        "pit.PiT": (
            "",
            {
                "image_size": 32,
                "patch_size": 4,
                "dim": 32,
                "num_classes": 7,
                "depth": (1, 1),
                "heads": 4,
                "mlp_dim": 64,
            },
        ),
        "levit.LeViT": (
            "",
            {
                "image_size": 64,
                "num_classes": 7,
                "stages": 2,
                "dim": (32, 64),
                "depth": 1,
                "heads": (2, 4),
                "mlp_mult": 2,
            },
        ),
        "cvt.CvT": ("64", {"num_classes": 7}),
        "twins_svt.TwinsSVT": (
            "64",
            {
                "num_classes": 7,
                "s1_local_patch_size": 2,
                "s2_local_patch_size": 2,
                "s3_local_patch_size": 2,
                "s4_local_patch_size": 2,
                "s1_patch_size": 4,
            },
        ),
        "crossformer.CrossFormer": (
            "224",
            {
                "num_classes": 7,
                "dim": (16, 32, 64, 64),
                "depth": (1, 1, 1, 1),
                "global_window_size": (8, 4, 2, 1),
                "local_window_size": 7,
            },
        ),
        "regionvit.RegionViT": (
            "224",
            {"dim": (16, 32, 64, 64), "depth": (1, 1, 1, 1), "window_size": 7, "num_classes": 7},
        ),
        "scalable_vit.ScalableViT": (
            "64",
            {
                "num_classes": 7,
                "dim": 16,
                "heads": (2, 4, 4, 8),
                "depth": (1, 1, 1, 1),
                "ssa_dim_key": (8, 8, 8, 8),
                "reduction_factor": (8, 4, 2, 1),
                "window_size": (8, 4, None, None),
            },
        ),
        "sep_vit.SepViT": (
            "224",
            {
                "num_classes": 7,
                "dim": 16,
                "dim_head": 8,
                "heads": (1, 2, 4, 8),
                "depth": (1, 1, 1, 1),
                "window_size": 7,
            },
        ),
        "max_vit.MaxViT": (
            "224",
            {"num_classes": 7, "dim": 16, "dim_head": 8, "depth": (1, 1, 1, 1), "window_size": 7, "dim_conv_stem": 16},
        ),
        "nest.NesT": (
            "",
            {
                "image_size": 32,
                "patch_size": 4,
                "dim": 32,
                "heads": 4,
                "num_hierarchies": 2,
                "block_repeats": (1, 1),
                "num_classes": 7,
            },
        ),
        "mobile_vit.MobileViT": (
            "256",
            {
                "image_size": (256, 256),
                "dims": [24, 32, 40],
                "channels": [16, 16, 24, 24, 32, 32, 48, 48, 64, 64, 96],
                "num_classes": 7,
            },
        ),
        "xcit.XCiT": ("", plain | {"cls_depth": 1, "local_patch_kernel_size": 3}),
        "es_vit.EsViTTransformer": (
            "224",
            {"num_classes": 7, "dims": (16, 32, 64, 64), "depth": (1, 1, 1, 1), "window_size": 7},
        ),
    }

    def maker(path: str, size: str, options: dict[str, Any]) -> Callable[[], Built]:
        def make() -> Built:
            import importlib

            file, _, kind = path.partition(".")
            model = getattr(importlib.import_module(f"vit_pytorch.{file}"), kind)(**options).eval()
            edge = int(size or options.get("image_size", options.get("img_size", 32)))
            x = noise(2, 3, edge, edge)
            return model, lambda: model(x)

        return make

    return {path: maker(path, size, options) for path, (size, options) in small.items()}


# diffusers: its networks, by their smallest arguments


def _diffusers() -> dict[str, Callable[[], Built]]:
    def of(kind: str, options: dict[str, Any], inputs: Callable[[], dict[str, Any]]) -> Callable[[], Built]:
        def make() -> Built:
            import diffusers

            model = getattr(diffusers, kind)(**options).eval()
            given = inputs()
            return model, lambda: model(**given)

        return make

    image, step = (lambda: noise(2, 4, 8, 8)), torch.tensor([5, 5])
    blocks = {"block_out_channels": (16, 32), "norm_num_groups": 4, "layers_per_block": 1}
    small = {"num_attention_heads": 2, "attention_head_dim": 8, "num_layers": 2}
    return {
        "UNet2DModel": of(
            "UNet2DModel",
            blocks
            | {
                "sample_size": 8,
                "in_channels": 4,
                "out_channels": 4,
                "attention_head_dim": 8,
                "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
                "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
            },
            lambda: {"sample": image(), "timestep": step},
        ),
        "UNet2DConditionModel": of(
            "UNet2DConditionModel",
            blocks
            | {
                "sample_size": 8,
                "cross_attention_dim": 16,
                "attention_head_dim": 8,
                "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
                "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
            },
            lambda: {"sample": image(), "timestep": step, "encoder_hidden_states": noise(2, 6, 16)},
        ),
        "UNet3DConditionModel": of(
            "UNet3DConditionModel",
            blocks
            | {
                "sample_size": 8,
                "cross_attention_dim": 16,
                "attention_head_dim": 8,
                "down_block_types": ("CrossAttnDownBlock3D", "DownBlock3D"),
                "up_block_types": ("UpBlock3D", "CrossAttnUpBlock3D"),
            },
            lambda: {"sample": noise(1, 4, 2, 8, 8), "timestep": step[:1], "encoder_hidden_states": noise(1, 6, 16)},
        ),
        "AutoencoderKL": of(
            "AutoencoderKL",
            blocks | {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2},
            lambda: {"sample": noise(1, 3, 16, 16)},
        ),
        "DiTTransformer2DModel": of(
            "DiTTransformer2DModel",
            small
            | {"sample_size": 8, "in_channels": 4, "patch_size": 2, "num_embeds_ada_norm": 8, "norm_num_groups": 4},
            lambda: {"hidden_states": image(), "timestep": step, "class_labels": torch.tensor([1, 2])},
        ),
        "PixArtTransformer2DModel": of(
            "PixArtTransformer2DModel",
            small
            | {
                "sample_size": 8,
                "in_channels": 4,
                "out_channels": 8,
                "patch_size": 2,
                "cross_attention_dim": 16,
                "caption_channels": 16,
                "use_additional_conditions": False,
                "norm_num_groups": 4,
            },
            lambda: {"hidden_states": image(), "encoder_hidden_states": noise(2, 6, 16), "timestep": step},
        ),
        "SD3Transformer2DModel": of(
            "SD3Transformer2DModel",
            small
            | {
                "sample_size": 8,
                "patch_size": 2,
                "in_channels": 4,
                "out_channels": 4,
                "joint_attention_dim": 16,
                "caption_projection_dim": 16,
                "pooled_projection_dim": 16,
                "pos_embed_max_size": 8,
            },
            lambda: {
                "hidden_states": image(),
                "encoder_hidden_states": noise(2, 6, 16),
                "pooled_projections": noise(2, 16),
                "timestep": step,
            },
        ),
        "FluxTransformer2DModel": of(
            "FluxTransformer2DModel",
            small
            | {
                "patch_size": 1,
                "in_channels": 4,
                "num_single_layers": 1,
                "num_layers": 1,
                "joint_attention_dim": 16,
                "pooled_projection_dim": 16,
                "axes_dims_rope": [2, 2, 4],
            },
            lambda: {
                "hidden_states": noise(1, 16, 4),
                "encoder_hidden_states": noise(1, 6, 16),
                "pooled_projections": noise(1, 16),
                "timestep": torch.tensor([0.5]),
                "img_ids": noise(16, 3),
                "txt_ids": noise(6, 3),
            },
        ),
        "AuraFlowTransformer2DModel": of(
            "AuraFlowTransformer2DModel",
            {
                "sample_size": 8,
                "patch_size": 2,
                "in_channels": 4,
                "num_mmdit_layers": 1,
                "num_single_dit_layers": 1,
                "attention_head_dim": 8,
                "num_attention_heads": 2,
                "joint_attention_dim": 16,
                "caption_projection_dim": 16,
                "out_channels": 4,
                "pos_embed_max_size": 64,
            },
            lambda: {
                "hidden_states": image(),
                "encoder_hidden_states": noise(2, 6, 16),
                "timestep": torch.tensor([0.5, 0.5]),
            },
        ),
        "SanaTransformer2DModel": of(
            "SanaTransformer2DModel",
            small
            | {
                "sample_size": 8,
                "patch_size": 1,
                "in_channels": 4,
                "out_channels": 4,
                "num_layers": 1,
                "num_cross_attention_heads": 2,
                "cross_attention_head_dim": 8,
                "cross_attention_dim": 16,
                "caption_channels": 16,
            },
            lambda: {"hidden_states": image(), "encoder_hidden_states": noise(2, 6, 16), "timestep": step},
        ),
        "PriorTransformer": of(
            "PriorTransformer",
            small | {"embedding_dim": 16, "num_embeddings": 5, "additional_embeddings": 4},
            lambda: {
                "hidden_states": noise(2, 16),
                "timestep": 3,
                "proj_embedding": noise(2, 16),
                "encoder_hidden_states": noise(2, 5, 16),
            },
        ),
        "CogVideoXTransformer3DModel": of(
            "CogVideoXTransformer3DModel",
            small
            | {
                "in_channels": 4,
                "out_channels": 4,
                "time_embed_dim": 8,
                "text_embed_dim": 16,
                "num_layers": 1,
                "sample_width": 8,
                "sample_height": 8,
                "sample_frames": 8,
                "patch_size": 2,
                "max_text_seq_length": 6,
            },
            lambda: {
                "hidden_states": noise(1, 2, 4, 8, 8),
                "encoder_hidden_states": noise(1, 6, 16),
                "timestep": step[:1],
            },
        ),
        "StableAudioDiTModel": of(
            "StableAudioDiTModel",
            {
                "sample_size": 8,
                "in_channels": 4,
                "num_layers": 1,
                "attention_head_dim": 8,
                "num_attention_heads": 4,
                "num_key_value_attention_heads": 2,
                "out_channels": 4,
                "cross_attention_dim": 16,
                "time_proj_dim": 8,
                "global_states_input_dim": 16,
                "cross_attention_input_dim": 16,
            },
            lambda: {
                "hidden_states": noise(1, 4, 8),
                "timestep": torch.tensor([0.5]),
                "encoder_hidden_states": noise(1, 6, 16),
                "global_hidden_states": noise(1, 1, 16),
            },
        ),
        "Transformer2DModel": of(
            "Transformer2DModel",
            {
                "sample_size": 8,
                "in_channels": 16,
                "num_attention_heads": 2,
                "attention_head_dim": 8,
                "num_layers": 1,
                "norm_num_groups": 4,
                "cross_attention_dim": 16,
            },
            lambda: {"hidden_states": noise(1, 16, 8, 8), "encoder_hidden_states": noise(1, 6, 16)},
        ),
    }


# torch_geometric: its layers that attend


def _torch_geometric() -> dict[str, Callable[[], Built]]:
    edges = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2, 4, 1], [1, 2, 0, 1, 3, 4, 5, 5, 0, 0]])
    batch = torch.tensor([0, 0, 0, 1, 1, 1])

    def conv(make_layer: Callable[[Any], nn.Module], **more: Any) -> Callable[[], Built]:
        def make() -> Built:
            import torch_geometric.nn as layers

            model, x = make_layer(layers), noise(6, 8)
            return model, lambda: model(x, edges, **more)

        return make

    def pool(make_layer: Callable[[Any], nn.Module]) -> Callable[[], Built]:
        def make() -> Built:
            import torch_geometric.nn as layers

            model, x = make_layer(layers), noise(6, 8)
            return model, lambda: model(x, batch)

        return make

    return {
        "GATConv": conv(lambda n: n.GATConv(8, 4, heads=2)),
        "GATv2Conv": conv(lambda n: n.GATv2Conv(8, 4, heads=2)),
        "TransformerConv": conv(lambda n: n.TransformerConv(8, 4, heads=2)),
        "SuperGATConv": conv(lambda n: n.SuperGATConv(8, 4, heads=2)),
        "AGNNConv": conv(lambda n: n.AGNNConv()),
        "GeneralConv": conv(lambda n: n.GeneralConv(8, 4, attention=True)),
        "GENConv, softmax": conv(lambda n: n.GENConv(8, 4, aggr="softmax")),
        "ResGatedGraphConv": conv(lambda n: n.ResGatedGraphConv(8, 4)),
        "AttentionalAggregation": pool(lambda n: n.AttentionalAggregation(nn.Linear(8, 1))),
        "SoftmaxAggregation": pool(lambda n: n.SoftmaxAggregation()),
        "Set2Set": pool(lambda n: n.Set2Set(8, 2)),
        "SetTransformerAggregation": pool(lambda n: n.SetTransformerAggregation(8, heads=2)),
        "GraphMultisetTransformer": pool(lambda n: n.GraphMultisetTransformer(8, 2, heads=2)),
        "GPSConv": conv(lambda n: n.GPSConv(8, n.GCNConv(8, 8), heads=2)),
        "GPSConv, performer": conv(lambda n: n.GPSConv(8, n.GCNConv(8, 8), heads=2, attn_type="performer")),
        "SGFormer": pool_and_edges(edges, batch, lambda n: n.SGFormer(8, 8, 4, trans_num_layers=1, gnn_num_layers=1)),
        "Polynormer": pool_and_edges(edges, batch, lambda n: n.Polynormer(8, 8, 4, local_layers=1, global_layers=1)),
        "GCNConv (no attention)": conv(lambda n: n.GCNConv(8, 4)),
        "SAGEConv (no attention)": conv(lambda n: n.SAGEConv(8, 4)),
    }


def pool_and_edges(edges: Tensor, batch: Tensor, make_layer: Callable[[Any], nn.Module]) -> Callable[[], Built]:
    def make() -> Built:
        import torch_geometric.nn as layers

        model, x = make_layer(layers), noise(6, 8)
        return model, lambda: model(x, edges, batch)

    return make


# twenty models without attention


class Gates(nn.Module):
    """A recurrent cell of sigmoids, by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.gates, self.new = nn.Linear(24, 24), nn.Linear(24, 12)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.shape[0], 12)
        for step in x.unbind(1):
            z, r = torch.sigmoid(self.gates(torch.cat([step, h], -1))).chunk(2, -1)
            h = (1 - z) * h + z * torch.tanh(self.new(torch.cat([step, r * h], -1)))
        return h


class Experts(nn.Module):
    """A mixture of experts: dense or of the best two."""

    def __init__(self, best: int = 0) -> None:
        super().__init__()
        self.best, self.router = best, nn.Linear(12, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 12)) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        gate = self.router(x).softmax(-1)
        if not self.best:
            return (gate.unsqueeze(-1) * torch.stack([expert(x) for expert in self.experts], -2)).sum(-2)
        top = gate.topk(self.best, -1)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            share = (top.values * (top.indices == e)).sum(-1, keepdim=True)
            out = out + share * expert(x)
        return out


class Codebook(nn.Module):
    """Vector quantisation: the nearest code, or a mean of codes."""

    def __init__(self, soft: bool) -> None:
        super().__init__()
        self.soft, self.codes = soft, nn.Parameter(torch.randn(16, 12))

    def forward(self, x: Tensor) -> Tensor:
        distance = torch.cdist(x, self.codes.expand(x.shape[0], -1, -1))
        return (-distance).softmax(-1) @ self.codes if self.soft else self.codes[distance.argmin(-1)]


class Expectation(nn.Module):
    """An age as the mean of classes."""

    def __init__(self) -> None:
        super().__init__()
        self.classes = nn.Linear(12, 100)
        self.register_buffer("ages", torch.arange(100.0))

    def forward(self, x: Tensor) -> Tensor:
        return (self.classes(x).softmax(-1) * self.ages).sum(-1)


class Excitation(nn.Module):
    """Squeeze and excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.squeeze = (
            nn.Conv2d(3, 16, 3, padding=1),
            nn.Sequential(nn.Linear(16, 4), nn.ReLU(), nn.Linear(4, 16)),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        return x * torch.sigmoid(self.squeeze(x.mean((2, 3))))[..., None, None]


class Mixer(nn.Module):
    """An MLP over tokens, then one over channels."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.channels = nn.Linear(8, 8), nn.Linear(12, 12)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(x.mT).mT
        return x + torch.nn.functional.gelu(self.channels(x))


def _plain() -> dict[str, Callable[[], Built]]:
    x, image = noise(2, 8, 12), noise(2, 3, 16, 16)

    def of(make_model: Callable[[], nn.Module], given: Tensor = x) -> Callable[[], Built]:
        def make() -> Built:
            model = make_model().eval()
            return model, lambda: model(given)

        return make

    def block(*layers: nn.Module) -> nn.Module:
        return nn.Sequential(*layers)

    return {
        "MLP": of(lambda: block(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 12))),
        "MLP of SiLU": of(lambda: block(nn.Linear(12, 32), nn.SiLU(), nn.LayerNorm(32), nn.Linear(32, 4))),
        "softmax at the end": of(lambda: block(nn.Linear(12, 8), nn.Sigmoid(), nn.Linear(8, 4), nn.Softmax(-1))),
        "softmax inside": of(lambda: block(nn.Linear(12, 8), nn.Softmax(-1), nn.Linear(8, 4))),
        "GLU": of(lambda: block(nn.Linear(12, 24), nn.GLU(), nn.Linear(12, 4))),
        "CNN": of(lambda: block(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3)), image),
        "CNN of one dimension": of(lambda: block(nn.Conv1d(8, 16, 3), nn.GELU(), nn.Conv1d(16, 8, 3))),
        "gated CNN": of(lambda: block(nn.Conv2d(3, 16, 3, padding=1), nn.GLU(1), nn.Conv2d(8, 4, 1)), image),
        "squeeze and excitation": of(Excitation, image),
        "GRU": of(lambda: nn.GRU(12, 12, 2, batch_first=True)),
        "LSTM": of(lambda: nn.LSTM(12, 12, bidirectional=True, batch_first=True)),
        "RNN": of(lambda: nn.RNN(12, 12, nonlinearity="relu", batch_first=True)),
        "gates by hand": of(Gates),
        "mixture of experts, dense": of(Experts),
        "mixture of experts, the best two": of(lambda: Experts(2)),
        "nearest code": of(lambda: Codebook(False)),
        "mean of codes": of(lambda: Codebook(True)),
        "class expectation": of(Expectation),
        "MLP-Mixer": of(Mixer),
        "batch norm and bilinear": of(lambda: block(nn.BatchNorm1d(8), nn.Linear(12, 12), nn.Tanh())),
        "adaptive pooling": of(lambda: block(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()), image),
    }


TABLES: dict[str, Callable[[], dict[str, Callable[[], Built]]]] = {
    "x_transformers": _x_transformers,
    "vit_pytorch": _vit_pytorch,
    "diffusers": _diffusers,
    "torch_geometric": _torch_geometric,
    "plain": _plain,
}
