"""Every architecture that transformers builds from a configuration, tiny and with random weights, and inputs for it."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from .configurations import IMAGE, tiny

LENGTH = 12
LARGEST = 60_000_000  # parameters
Inputs = dict[str, Tensor]


def names() -> list[str]:
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    return list(MODEL_MAPPING_NAMES)


def generating() -> list[str]:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return list(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def build(name: str, kind: str = "AutoModel") -> tuple[nn.Module, Inputs]:
    """A model that runs, and what it ran with; the first of several sizes that does."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    reasons = []
    for level in (0, 1, 2):
        try:
            config = tiny(CONFIG_MAPPING[name], level)
            with torch.device("meta"):
                size = sum(p.numel() for p in getattr(transformers, kind).from_config(config).parameters())
            if size > LARGEST:
                reasons.append(f"level {level}: {size / 1e6:.0f} M parameters")
                continue
            torch.manual_seed(0)
            model = getattr(transformers, kind).from_config(config).eval()
        except Exception as error:
            reasons.append(f"level {level}: {type(error).__name__}: {str(error)[:120]}")
            continue
        for inputs in candidates(model):
            try:
                with torch.no_grad():
                    model(**inputs)
                return model, inputs
            except Exception as error:
                reasons.append(f"level {level}, {', '.join(inputs)}: {type(error).__name__}: {str(error)[:120]}")
    raise ValueError("; ".join(reasons[-6:]) or "no inputs are known")


def ids(batch: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(3, 80, (batch, length), generator=torch.Generator().manual_seed(seed))


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def candidates(model: nn.Module) -> Iterator[Inputs]:
    """Inputs to try, by the names that forward has."""
    wants = inspect.signature(model.forward).parameters
    config = model.config
    text: Inputs = {}
    if "input_ids" in wants:
        text["input_ids"] = ids(2, LENGTH)
    if "decoder_input_ids" in wants:
        text["decoder_input_ids"] = ids(2, LENGTH // 2, 1)
    if "bbox" in wants:
        text["bbox"] = torch.arange(4).expand(2, LENGTH, 4).contiguous()
    if "pixel_values" in wants:
        for pixels in images(config):
            yield {"pixel_values": pixels, **text}
            yield {"pixel_values": pixels}
    if "pixel_values_videos" in wants:
        for pixels in images(config):
            if pixels.ndim == 5:
                yield {"pixel_values_videos": pixels}
    if text and "input_ids" in wants:
        yield text
        yield {"input_ids": text["input_ids"]}
        yield {"input_ids": ids(2, 64)}
    for name in ("input_values", "input_features"):
        if name in wants:
            decoder = {"decoder_input_ids": ids(2, LENGTH // 2, 1)} if "decoder_input_ids" in wants else {}
            for sound in sounds(config, name):
                yield {name: sound, **decoder}
    if "past_values" in wants:
        yield from series(config, wants)
    if "flattened_patches" in wants:
        yield {"flattened_patches": noise(2, 8, 770)}
    if "inputs_embeds" in wants:
        for width in widths(config):
            yield {"inputs_embeds": noise(2, LENGTH, width)}
    if "hidden_states" in wants:
        for width in widths(config):
            yield {"hidden_states": noise(2, LENGTH, width)}
    if "inputs" in wants:  # perceiver
        for width in (*widths(config), 768):
            yield {"inputs": noise(2, LENGTH, width)}


def widths(config: Any) -> list[int]:
    found = [getattr(config, name, None) for name in ("hidden_size", "d_model", "n_embd", "d_latents")]
    return [x for x in found if isinstance(x, int)] or [32]


def _sub(config: Any, name: str) -> list[Any]:
    """A setting, wherever in a configuration it stands."""
    found = [getattr(config, name, None)]
    for each in getattr(type(config), "sub_configs", None) or {}:
        part = getattr(config, each, None)
        if part is not None and part is not config:
            found += _sub(part, name)
    return [x for x in found if x is not None]


def images(config: Any) -> Iterator[Tensor]:
    channels = next((x for x in (*_sub(config, "num_channels"), *_sub(config, "in_channels")) if isinstance(x, int)), 3)
    sizes = [*_sub(config, "image_size"), IMAGE, 64, 224]
    done = set()
    for size in sizes:
        h, w = size[:2] if isinstance(size, (list, tuple)) else (size, size)
        if not isinstance(h, int) or (h, w) in done or h > 512:
            continue
        done.add((h, w))
        yield noise(2, channels, h, w)
        frames = next((x for x in _sub(config, "num_frames") if isinstance(x, int)), 4)
        yield noise(2, frames, channels, h, w)
        yield noise(2, 1, channels, h, w)


def sounds(config: Any, name: str) -> Iterator[Tensor]:
    bins = [
        x
        for key in ("num_mel_bins", "n_mels", "feature_size", "input_feat_per_channel", "num_mels", "input_dim")
        for x in _sub(config, key)
        if isinstance(x, int)
    ]
    longest = [x for key in ("max_source_positions", "max_length") for x in _sub(config, key) if isinstance(x, int)]
    if name == "input_values":
        yield noise(2, 2000)
        yield noise(2, 1, 2000)
        yield noise(1, 16000)
    for size in dict.fromkeys([*bins, 80, 128]):
        for length in dict.fromkeys([*(2 * x for x in longest), *longest, 64, 128]):
            if length <= 4096:
                yield noise(2, length, size)
                yield noise(2, size, length)


def series(config: Any, wants: Any) -> Iterator[Inputs]:
    lags = max(getattr(config, "lags_sequence", None) or [0])
    past = (getattr(config, "context_length", None) or 32) + lags
    ahead = getattr(config, "prediction_length", None) or 4
    features = (getattr(config, "num_time_features", 0) or 0) or 1
    made = {"past_values": noise(2, past), "past_observed_mask": torch.ones(2, past)}
    if "past_time_features" in wants:
        made["past_time_features"] = noise(2, past, features)
        made["future_time_features"], made["future_values"] = noise(2, ahead, features), noise(2, ahead)
    yield {key: value for key, value in made.items() if key in wants}
    for channels in (getattr(config, "num_input_channels", 1) or 1, 7):
        yield {"past_values": noise(2, past, channels)}
    yield {"past_values": [noise(64), noise(64)], "freq": torch.tensor([0, 0])}


def cases(model: nn.Module, inputs: Inputs) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The runs of a model: as it is, and padded right and left where it takes a mask."""
    yield "plain", lambda: model(**inputs)
    wants = inspect.signature(model.forward).parameters
    if "attention_mask" in wants and "input_ids" in inputs:
        for side in ("right", "left"):
            keep = torch.ones_like(inputs["input_ids"])
            cut = keep.shape[1] // 3
            keep[-1, -cut:] = 0
            keep = keep if side == "right" else keep.flip(1)
            yield f"padded {side}", lambda keep=keep: model(**inputs, attention_mask=keep)


CACHES = ("dynamic", "static", "sliding_window", "quantized", "offloaded")


def generations(model: nn.Module) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Three generated tokens with each cache."""
    prompt = ids(2, 6)
    for cache in CACHES:

        def run(cache=cache):
            return model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=3,
                do_sample=False,
                min_new_tokens=3,
                pad_token_id=0,
                cache_implementation=cache,
                cache_config={"backend": "fp8"} if cache == "quantized" else None,  # the others need a package
            )

        yield f"generate, {cache} cache", run
