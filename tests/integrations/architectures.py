"""Every architecture of transformers' AutoModel: attn_implementation="regard" beside the model's own attention.

    python tests/integrations/architectures.py --out results.json [llama bert ...]
    python tests/integrations/architectures.py --table results.json > docs/integrations/architectures.md

Tiny random models; without padding, padded left and padded right; outputs and gradients of all parameters.
"""

import argparse
import json
import os
import signal
import sys
import warnings
from pathlib import Path

import torch

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
sys.path.insert(0, str(Path(__file__).parents[1]))

import transformers

import regard.integrations.transformers  # noqa: F401
from tiny_transformers import inputs_of, tiny_model

SECONDS = 300  # for one architecture
EXACT, EXACT_GRADIENT = 2e-5, 1e-3  # relative to the largest output, and to the largest gradient


def output_of(model, given):
    """The first output, of a model that may draw a mask of its own."""
    torch.manual_seed(4)
    found = model(**given)
    for name in ("last_hidden_state", "logits"):
        if found.get(name) is not None:
            return found[name]
    return next(x for x in found.values() if isinstance(x, torch.Tensor))


def gradient_error(peer, ours):
    """The largest difference of a gradient, over the largest gradient of all."""
    largest = max(
        (p.grad.abs().max().item() for p in peer.parameters() if p.grad is not None and p.numel()), default=0.0
    )
    worst = 0.0
    for p, other in zip(peer.parameters(), ours.parameters(), strict=True):
        if (p.grad is None) != (other.grad is None):
            return float("inf")
        if p.grad is not None and p.numel():
            worst = max(worst, (p.grad - other.grad).abs().max().item())
    return worst / largest if largest else 0.0


def calls_counted(calls):
    """Regard's function under its name, which counts the calls of it."""
    own = transformers.AttentionInterface()["regard"]

    def counted(*args, **kwargs):
        calls.append(1)
        return own(*args, **kwargs)

    return counted


def compared(kind):
    """{"peer", "calls", "error", "gradient"} of an architecture, or {"reason"} where there is nothing to compare."""
    try:
        probe = tiny_model(kind)
        peer_name = "sdpa" if probe._supports_sdpa else "eager"
        peer = tiny_model(kind, peer_name)
    except Exception as error:
        return {"reason": f"not built: {error}"[:150]}
    try:
        expected = [output_of(peer, given) for given in (inputs_of(peer, padding) for padding in ("", "left", "right"))]
    except Exception as error:
        return {"reason": f"needs other inputs: {error}"[:150]}
    try:
        ours = tiny_model(kind, "regard")
    except ValueError as error:
        return {"refused": str(error)}
    calls = []
    names = transformers.AttentionInterface._global_mapping
    own, names["regard"] = names["regard"], calls_counted(calls)
    worst = 0.0
    try:
        for padding, theirs in zip(("", "left", "right"), expected, strict=True):
            given = inputs_of(ours, padding)
            found, mask = output_of(ours, given), given.get("attention_mask")
            real = mask.bool() if mask is not None and theirs.shape[:2] == mask.shape else slice(None)
            worst = max(worst, ((found - theirs)[real].abs().max() / theirs[real].abs().max()).item())
            if not padding:
                torch.manual_seed(3)
                direction = torch.randn_like(theirs)
                for out in (theirs, found):
                    (out * direction).sum().backward()
                gradient = gradient_error(peer, ours)
    finally:
        names["regard"] = own
    return {"peer": peer_name, "calls": len(calls), "error": worst, "gradient": gradient}


def out_of_time(*_):
    raise TimeoutError(f"took longer than {SECONDS} s")


def in_time(kind):
    """`compared`, unless it takes too long or fails."""
    try:
        signal.alarm(SECONDS)
        try:
            return compared(kind)
        finally:
            signal.alarm(0)
    except Exception as error:
        return {"reason": f"{type(error).__name__}: {error}"[:150]}


def is_equal(result):
    return result.get("calls", 0) > 0 and result["error"] <= EXACT and result["gradient"] <= EXACT_GRADIENT


def table(results):
    """The page of docs."""
    about = results.pop("versions")
    equal = {kind: r for kind, r in results.items() if is_equal(r)}
    refused = {kind: r["refused"] for kind, r in results.items() if "refused" in r}
    wrong = {kind: r for kind, r in results.items() if r.get("calls") and not is_equal(r)}
    yield '# Architectures that run with attn_implementation="regard"\n'
    yield (
        f"transformers {about['transformers']}, torch {about['torch']}, tiny random models, on a CPU. An architecture "
        "counts as equal where its outputs (without padding, padded left, padded right) and the gradients of all "
        "parameters are those of the model's own attention: `sdpa`, or `eager` where the model has no SDPA form. "
        f"Errors are relative to the largest output or gradient; the bars are {EXACT:g} and {EXACT_GRADIENT:g}. Made "
        "by `python tests/integrations/architectures.py`.\n"
    )
    own = sum("own code" in why for why in refused.values())
    yield (
        f"**{len(equal)} equal**, {len(wrong)} different, {len(refused)} refused with a sentence ({own} compute "
        f"attention in their own code, {len(refused) - own} have none of transformers' SDPA forms).\n"
    )
    yield "| architecture | peer | error | gradient |\n|---|---|---|---|"
    for kind, r in sorted(equal.items()):
        yield f"| {kind} | {r['peer']} | {r['error']:.0e} | {r['gradient']:.0e} |"
    if wrong:
        yield "\nDifferent, with the reason in [the integration's page](transformers.md#limits):\n"
        yield ", ".join(f"{kind} ({r['error']:.0e})" for kind, r in sorted(wrong.items()))
    yield "\nRefused: " + ", ".join(sorted(refused)) + "."


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("kinds", nargs="*")
    arguments.add_argument("--out", type=Path, default=Path("architectures.json"))
    arguments.add_argument("--table", type=Path)
    asked = arguments.parse_args()
    if asked.table:
        print("\n".join(table(json.loads(asked.table.read_text()))))
        return
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, out_of_time)
    kinds = asked.kinds or sorted(transformers.CONFIG_MAPPING)
    results = json.loads(asked.out.read_text()) if asked.out.exists() else {}
    results["versions"] = {"transformers": transformers.__version__, "torch": torch.__version__.partition("+")[0]}
    for number, kind in enumerate(kinds, 1):
        if kind in results:
            continue
        results[kind] = in_time(kind)
        asked.out.write_text(json.dumps(results, indent=1))
        print(f"{number}/{len(kinds)} {kind}: {results[kind]}", flush=True)


if __name__ == "__main__":
    main()
