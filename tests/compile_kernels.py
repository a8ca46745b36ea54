"""Compile every Triton kernel for a GPU that is not there: `make test-compiled`.

    python tests/compile_kernels.py [--arch 89] [--calls] [WORD ...]   all calls, or those whose name has a word

The interpreter, which the tests run, knows nothing of registers, of shared memory or of what a compiler refuses. Here
the real compiler makes the code of a card, and a driver that launches nothing stands for the card. Prints what each
kernel takes; leaves with 1 where one does not compile or wants more shared memory than a block has.
--calls tells what a known call of sixteen places takes the processor, which needs no GPU either, in microseconds: the
least of forty turns, since a machine is often busy elsewhere.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.driver import GPUDriver
from triton.backends.nvidia import driver as nvidia
from triton.runtime import driver

SHARED = {80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 120: 99}  # KiB of shared memory that a block may have
CUOBJDUMP = Path(nvidia.__file__).parent / "bin" / "cuobjdump"
BESIDE = " beside "  # in the name of a call whose heads and values differ in width


class Utils:
    """What a driver knows of its card; `kernels` collects what was loaded: name, registers, spilled bytes, shared; and
    `codes` their machine code."""

    def __init__(self, shared):
        self.shared, self.kernels, self.codes = shared, [], []

    def load_binary(self, name, kernel, shared, device):
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(kernel)
            file.flush()
            told = subprocess.run([CUOBJDUMP, "-res-usage", file.name], capture_output=True, text=True, check=True)
        found = {key: int(value) for key, value in re.findall(r"(REG|STACK):(\d+)", told.stdout)}
        self.kernels.append((name, found.get("REG", 0), found.get("STACK", 0), shared))
        self.codes.append(kernel)
        return object(), 1, found.get("REG", 0), 0, 1024

    def get_device_properties(self, device):
        return {"max_shared_mem": self.shared << 10, "multiprocessor_count": 132, "warpSize": 32}


class Launcher:
    """Launches nothing, by as many steps as Triton's own."""

    def __init__(self, src, metadata):
        self.launch = lambda *given: None

    def __call__(self, x, y, z, stream, function, *given):
        self.launch(x, y, z, stream, function, *given)


class Nothing(GPUDriver):
    """A driver of a card that is not there."""

    launcher_cls = Launcher

    def __init__(self, arch, shared):
        self.arch, self.utils = arch, Utils(shared)
        self.get_current_device, self.get_current_stream = lambda: -1, lambda device: 0
        self.set_current_device, self.get_device_capability = lambda device: None, lambda device: divmod(arch, 10)

    @staticmethod
    def is_active():
        return True

    def get_current_target(self):
        return GPUTarget("cuda", self.arch, 32)

    def get_active_torch_device(self):
        return torch.device("cpu")

    def map_python_to_cpp_type(self, kind):
        raise NotImplementedError

    def get_benchmarker(self):
        raise NotImplementedError


def stand_in(arch, shared):
    """Tensors of this processor pass for those of a card. Returns its driver."""
    made = Nothing(arch, shared)
    driver.set_active(made)
    torch.cuda.current_device = lambda: -1  # what tensors of a processor say
    import regard  # noqa: F401
    from regard.backends.triton.dense import backend as dense
    from regard.backends.triton.dense import launch_config, tile_sizes
    from regard.backends.triton.edges import backend as edges
    from regard.backends.triton.maps import launch as maps_launch
    from regard.backends.triton.maps import reader
    from regard.backends.triton.runtime import device_support

    for module in (device_support, dense, edges, reader):
        module.device_refusal = lambda device: None
    for module in (device_support, tile_sizes, launch_config, maps_launch):
        module.shared_memory_kib = lambda device: shared
    return made


def calls(n):
    """name: a call over n places, forward and backward, or a reading of a map."""
    from regard import (
        ALiBi,
        Causal,
        Edges,
        Entmax,
        Padding,
        PairBias,
        RelativeBias,
        Segments,
        Sink,
        SoftCap,
        TopK,
        Window,
        attend,
        scores,
    )
    from regard.core.alignments import Hard, LocalPredictive, Sigmoid
    from regard.core.modifiers import Clamp

    bf16, fp32 = torch.bfloat16, torch.float32

    def drawn(d, d_v, dtype, shared=4):
        sizes = ((4, n, d), (shared, n, d), (shared, n, d_v))
        return [torch.randn(2, *size, dtype=dtype).requires_grad_() for size in sizes]

    def step(score, align="softmax", over=None, d=64, d_v=64, dtype=bf16, backend="triton-dense", **options):
        q, k, v = drawn(d, d_v, dtype, options.pop("shared", 4))
        made = score(d).to(dtype) if callable(score) else score
        leaves = [q, k, v, *(made.parameters() if isinstance(made, torch.nn.Module) else ())]
        pull = torch.randn(2, 4, n, d_v, dtype=dtype)

        def run():
            out = attend(q, k, v, made, align, over, backend=backend, **options).out
            return torch.autograd.grad(out, leaves, pull, allow_unused=True)

        return run

    def read(score, align="softmax", over=None, dtype=bf16, d=64):
        q, k, v = (x.detach() for x in drawn(d, d, dtype))
        made = score(d).to(dtype) if callable(score) else score

        def run():
            amap = attend(q, k, v, made, align, over, backend="triton-dense").map
            return amap.pyramid(32), amap.entropy(), amap.mass(), amap.tile(slice(0, 64), slice(0, 64))

        return run

    def layer(score, align="softmax", dtype=fp32, **features):
        index = torch.randint(50, (2, 3000)) if features.pop("hubs", False) else torch.randint(50, (2, 400))
        parts = [torch.randn(8, 50, 16, dtype=dtype).requires_grad_() for _ in range(3)]
        made = score(16).to(dtype) if callable(score) else score
        pull = torch.randn(8, 50, 16, dtype=dtype)

        def run():
            over = Edges(index, (50, 50), **features)
            out = attend(*parts, made, align, over, backend="triton-edges").out
            return torch.autograd.grad(out, [*parts, *getattr(made, "parameters", list)()], pull, allow_unused=True)

        return run

    def additive(**options):
        return lambda d: scores.Additive(d, d, d, heads=4, **options)

    short, late = Padding(torch.tensor([n, 7])), Causal() & Window(50, 0)
    found = {}
    for dtype, name in ((bf16, "bf16"), (fp32, "fp32")):
        for align in ("softmax", "sigmoid", "sparsemax", "entmax15", Entmax(1.3)):
            title = align if isinstance(align, str) else "entmax 1.3"
            for d in (16, 64, 128, 256):
                found[f"dot {title} {d} {name}"] = step("scaled_dot", align, Causal(), d, d, dtype)
            found[f"tanh {title} {name}"] = step(additive(), align, late, dtype=dtype)
            found[f"leaky {title} {name}"] = step(additive(activation="leaky_relu"), align, short, dtype=dtype)
            found[f"map of {title} {name}"] = read("scaled_dot", align, late, dtype)
            found[f"map of tanh {title} {name}"] = read(additive(), align, Causal(), dtype)
        found[f"window {name}"] = step("scaled_dot", over=Window(30, 30), dtype=dtype)
        for d in (64, 256):
            found[f"gaussian {d} {name}"] = step("gaussian", over=short, d=d, d_v=d, dtype=dtype)
        found[f"trilinear {name}"] = step(lambda d: scores.Trilinear(d, heads=4), dtype=dtype)
        found[f"laplace {name}"] = step("laplace", dtype=dtype)
        found[f"segments {name}"] = step("scaled_dot", over=Segments(torch.arange(n) // 9), dtype=dtype)
        for d in (64, 256):
            found[f"shared keys {d} {name}"] = step("scaled_dot", over=Causal(), d=d, d_v=d, dtype=dtype, shared=2)
        found[f"shared keys of tanh {name}"] = step(lambda d: scores.Additive(d, d, d), dtype=dtype, shared=2)
        for d in (64, 256):
            found[f"dropout {d} {name}"] = step(
                "scaled_dot", over=Causal(), d=d, d_v=d, dtype=dtype, dropout=0.1, seed=1
            )
        found[f"top-k {name}"] = step("scaled_dot", TopK(9), Causal(), dtype=dtype)
        found[f"hard {name}"] = step("scaled_dot", Hard(), Causal(), dtype=dtype, sample=True, seed=1)
        found[f"predicted windows {name}"] = step("scaled_dot", LocalPredictive(64, heads=4).to(dtype), dtype=dtype)
        for title, score in {"tanh by feature": scores.Additive, "product by feature": scores.Dot}.items():
            found[f"{title} {name}"] = step(
                lambda d, score=score: score(features=True), over=Causal(), dtype=dtype, backend="triton-features"
            )
        for title, score in {"gat": scores.GAT, "gatv2": scores.GATv2, "edges of dots": "scaled_dot"}.items():
            made = score if isinstance(score, str) else lambda d, score=score: score(d, heads=8)
            for align in ("softmax", "entmax15", "sigmoid", TopK(3)):
                what = align if isinstance(align, str) else "top-k"
                found[f"{title} {what} {name}"] = layer(made, align, dtype)
        found[f"edges of hubs {name}"] = layer("scaled_dot", dtype=dtype, hubs=True)
        key, value = (torch.randn(8, 400, 16, dtype=dtype) for _ in range(2))
        found[f"edges with features {name}"] = layer("scaled_dot", dtype=dtype, key=key, value=value)
    for align, d, d_v in (("softmax", 64, 16), ("sparsemax", 16, 64), ("sigmoid", 128, 32)):
        found[f"dot {align} {d}{BESIDE}{d_v} fp32"] = step("scaled_dot", align, None, d, d_v, fp32)
    dot, pairs = scores.ScaledDot, torch.randn(4, n, n)
    modified = {
        "soft cap": lambda d: dot() | SoftCap(30.0),
        "alibi": lambda d: dot() | ALiBi(4),
        "relative bias": lambda d: dot() | RelativeBias(4, 128),
        "pair bias": lambda d: dot() | PairBias(pairs.clone().requires_grad_()),
        "sink": lambda d: dot() | Sink(4),
        "many modifiers": lambda d: dot() | Clamp(9.0) | ALiBi(4, learned=True) | SoftCap(30.0) | Sink(4),
    }
    for dtype, name in ((bf16, "bf16"), (fp32, "fp32")):
        for title, score in modified.items():
            found[f"{title} softmax 64 {name}"] = step(score, over=Causal(), dtype=dtype)
        for align in ("softmax", "sigmoid", "sparsemax", "entmax15"):
            for d in (64, 128, 256) if align == "softmax" else (64, 128):
                found[f"modified {align} {d} {name}"] = step(modified["many modifiers"], align, late, d, d, dtype)
    for d in (64, 128):  # as of many keys
        found[f"sigmoid of small weights {d} bf16"] = step("scaled_dot", Sigmoid(bias=-9.0), Causal(), d, d)
    return found


def columns_of(code):
    """How many columns the products of Hopper's tensor cores have in this machine code."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        told = subprocess.run([CUOBJDUMP, "-sass", file.name], capture_output=True, text=True, check=True)
    return {int(columns) for columns in re.findall(r"HGMMA\.64x(\d+)x", told.stdout)}


def microseconds(run, turns=40, each=50):
    """Of one call, the least of some turns."""
    times = []
    for _ in range(turns + 1):
        start = time.perf_counter()
        for _ in range(each):
            run()
        times.append((time.perf_counter() - start) / each * 1e6)
    return min(times[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only calls whose name has one of these")
    parser.add_argument("--arch", type=int, default=90, choices=sorted(SHARED), help="compute capability, times ten")
    parser.add_argument("--shared", type=int, help="KiB of shared memory that a block may have, if not the card's")
    parser.add_argument("--calls", action="store_true", help="also what a known call takes the processor")
    chosen = parser.parse_args()
    if triton.knobs.runtime.interpret:
        sys.exit("TRITON_INTERPRET is set: nothing would be compiled. Unset it.")
    with tempfile.TemporaryDirectory() as folder:
        triton.knobs.cache.dir = os.environ.get("TRITON_CACHE_DIR", folder)  # a gigabyte that nobody asked for
        failed = compiled(chosen)
    sys.exit(1 if failed else 0)


def compiled(chosen):
    """Runs the calls that were chosen; the names of those that failed."""
    torch.set_num_threads(1)
    card, failed, empty = stand_in(chosen.arch, chosen.shared or SHARED[chosen.arch]), [], torch.empty
    torch.empty = torch.zeros  # nothing is launched that would fill it
    every = calls(16 if chosen.calls else 200)
    wanted = {name: every[name] for name in every if not chosen.words or any(word in name for word in chosen.words)}
    print(f"{len(wanted)} calls for sm_{chosen.arch}, triton {triton.__version__}", flush=True)
    for name, run in wanted.items():
        before, start = len(card.utils.kernels), time.perf_counter()
        try:
            run()
        except Exception as error:
            failed.append(name)
            print(f"{name}: FAILED  {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        made = card.utils.kernels[before:]
        narrow = [columns_of(code) for code in card.utils.codes[before:]] if BESIDE in name else []
        narrow = sorted(set().union(*(columns for columns in narrow if columns and min(columns) < 64)))
        if narrow:  # assemblers have lost addresses there: pair_tables.least_width
            failed.append(name)
            print(f"{name}: FAILED  products of fp32 of {narrow} columns beside each other", flush=True)
            continue
        told = "; ".join(
            f"{kernel} {registers} registers{f', {stack} bytes spilled' if stack else ''}, {shared >> 10} KiB"
            for kernel, registers, stack, shared in made
        )
        took = f"{time.perf_counter() - start:.0f} s"
        if chosen.calls:
            torch.empty = empty
            took += f", a call {microseconds(run):.0f} us"
            torch.empty = torch.zeros
        print(f"{name} ({took}): {told or 'nothing new'}", flush=True)
    print(f"{len(wanted) - len(failed)} of {len(wanted)} calls compiled, {len(card.utils.kernels)} kernels.")
    return failed


if __name__ == "__main__":
    main()
