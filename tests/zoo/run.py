"""The zoo: python tests/zoo/run.py [--only NAME ...] [--package transformers] [--shard 0/2] [--out build/zoo]

Each model runs in a process of its own with a time limit; what is in the folder of results already is not run again.
With TRANSFORMERS_CHECKOUT=folder, a checkout of its repository, the models of transformers' own tests run as well.
"""

import argparse
import json
import os
import resource
import signal
import sys
import time
import traceback
import types
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
os.environ.setdefault("TRITON_INTERPRET", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
ROOT = Path(__file__).parents[2]
tests = types.ModuleType("tests")  # a package of this name may be installed
tests.__path__ = [str(ROOT / "tests")]
sys.modules["tests"] = tests

import torch  # noqa: E402
from tests.loadable_torchvision import declare_missing_operators  # noqa: E402

declare_missing_operators()

from tests.zoo import transformers_models  # noqa: E402
from tests.zoo.measure import measure  # noqa: E402

import regard  # noqa: E402

torch.set_num_threads(1)
SECONDS = 90  # of processor time; on a busy machine a model may take WAIT times as long
WAIT = 20
MEMORY = 8 << 30


def runs(package: str, name: str) -> dict[str, Any]:
    """Results by case."""
    results: dict[str, Any] = {}
    if package == "testers":
        return of_testers(name)
    if package == "transformers":
        kinds = [("AutoModel", transformers_models.cases)]
        if name in transformers_models.generating():
            kinds.append(("AutoModelForCausalLM", lambda model, inputs: transformers_models.generations(model)))
        for kind, cases in kinds:
            try:
                model, inputs = transformers_models.build(name, kind)
            except ValueError as error:
                results[kind] = {"failed to build": str(error)}
                continue
            collect(results, kind, model, cases(model, inputs))
    else:
        from tests.zoo import packages

        model, run = packages.build(package, name)
        collect(results, "", model, [("plain", run)])
    return results


def of_testers(name: str) -> dict[str, Any]:
    from tests.zoo import testers

    results: dict[str, Any] = {}
    for title, model, inputs in testers.models(Path(os.environ["TRANSFORMERS_CHECKOUT"]), name):
        if isinstance(model, torch.nn.Identity):
            results[title.partition(":")[0]] = {"failed to build": title}
        else:
            collect(results, title, model, [("plain", lambda model=model, inputs=inputs: model(**inputs))])
    return results


def collect(results: dict[str, Any], kind: str, model: Any, cases: Any) -> None:
    for case, run in cases:
        label = f"{kind}, {case}".strip(", ")
        try:
            with torch.no_grad():
                torch.manual_seed(0)
                run()
        except Exception as error:
            results[label] = {"does not run": f"{type(error).__name__}: {str(error)[:200]}"}
            continue
        try:
            results[label] = measure(model, run, freeze="generate" not in case).as_json()
        except Exception:
            results[label] = {"raised while recorded": traceback.format_exc()[-1500:]}


def in_child(package: str, name: str, file: Path) -> str:
    """Run one model in a forked process; the word for how it ended."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
            warnings.simplefilter("ignore")
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 2)
            os.dup2(null, 1)
            try:
                found = runs(package, name)
            except BaseException as error:
                found = {"failed to build": f"{type(error).__name__}: {str(error)[:300]}"}
            write(file, package, name, found)
            code = 0
        finally:
            os._exit(code)
    before = file.stat().st_mtime_ns if file.exists() else 0
    end = time.time() + WAIT * SECONDS
    while time.time() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            if file.exists() and file.stat().st_mtime_ns != before:
                return "done"
            slow = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
            why = f"more than {SECONDS} s of processor time" if slow else "the process died"
            write(file, package, name, {"failed to build": why})
            return why
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    write(file, package, name, {"failed to build": f"more than {WAIT * SECONDS} s"})
    return "too slow"


def write(file: Path, package: str, name: str, found: dict[str, Any]) -> None:
    part = file.with_suffix(".part")
    part.write_text(json.dumps({"package": package, "name": name, "runs": found}, indent=1), encoding="utf-8")
    part.replace(file)


def import_what_all_need(packages: list[str]) -> None:
    """Once, before the first fork."""
    import torch._dynamo

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if {"transformers", "testers"} & {*packages}:
            from transformers import BertModel, CLIPModel, LlamaForCausalLM, T5Model, WhisperModel  # noqa: F401
            from transformers.generation import utils  # noqa: F401
        if "testers" in packages and "TRANSFORMERS_CHECKOUT" in os.environ:
            from tests.zoo import testers

            next(testers.models(Path(os.environ["TRANSFORMERS_CHECKOUT"]), "bert"))
    with regard.record():  # what a first block imports
        torch.nn.functional.scaled_dot_product_attention(*torch.zeros(3, 1, 1, 1, 1))


def wanted(package: str) -> list[str]:
    if package == "transformers":
        return transformers_models.names()
    if package == "testers":
        from tests.zoo import testers

        return testers.names(Path(os.environ["TRANSFORMERS_CHECKOUT"])) if "TRANSFORMERS_CHECKOUT" in os.environ else []
    from tests.zoo import packages

    return packages.names(package)


PACKAGES = ("transformers", "testers", "timm", "diffusers", "x_transformers", "vit_pytorch", "torch_geometric", "plain")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--package", nargs="*", default=list(PACKAGES))
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--out", default=str(ROOT / "build" / "zoo"))
    parser.add_argument("--again", action="store_true", help="run also what has a result")
    options = parser.parse_args()
    this, of = map(int, options.shard.split("/"))
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    todo = [(p, n) for p in options.package for n in wanted(p) if options.only is None or n in options.only][this::of]
    import_what_all_need(options.package)
    begun = time.time()
    for i, (package, name) in enumerate(todo, 1):
        file = out / f"{package}.{name.replace('/', '_')}.json"
        if file.exists() and not options.again:
            continue
        ended = in_child(package, name, file)
        left = (time.time() - begun) / i * (len(todo) - i)
        print(f"{i}/{len(todo)} {package} {name}: {ended}, {left / 60:.0f} min left", flush=True)


if __name__ == "__main__":
    main()
