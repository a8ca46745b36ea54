"""Export of models that use Regard: ONNX files, and AOTInductor packages.

to_onnx writes one Attention operator for each attend(); to_package compiles any plan ahead of time.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..core.alignments import Alignment, Softmax
from ..core.attend import Attended, call_hooks
from ..core.errors import Refused, lacking
from ..core.lowering.kernel_forms import CAUSAL
from ..core.lowering.score_kernels import DotCore
from ..core.lowering.tiles import Tile
from ..core.maps.lazy import LazyMap
from ..core.modifiers import SoftCap
from ..core.plan import Plan, make_plan
from ..core.scores import Score
from ..core.structures import Full, Structure
from ..core.structures.edges import Edges
from ..core.torch_private import aoti_compile, aoti_load, tree_leaves

OPSETS = (23, 24)  # with a supported Attention operator
TOLERANCE = 1e-3  # relative to the largest output: tolerated rounding difference of the runtime


def to_onnx(
    model: nn.Module,
    args: tuple[Any, ...],
    path: "str | Path | None" = None,
    *,
    opset: int = 23,
    dynamic_shapes: Any = None,
    check: bool = True,
) -> Any:
    """The model as an ONNX program, in which each attend() is one Attention operator (opset 23 or 24).

        y = softmax(cap * tanh(q . k * scale / cap) + bias + mask) v

    args             example inputs, as for torch.onnx.export
    path             the output file; None only returns the torch.onnx.ONNXProgram
    dynamic_shapes   as in torch.export.export: {"x": {0: "batch", 1: "length"}}
    check            run the program on `args` with onnxruntime, or else onnx's own evaluator, and compare with the
                     model: runtimes have differed in whether the cap comes before the mask

    Supported: scores that lower to a dot product (scaled, general, cosine, Gaussian, ..., with GQA), a soft cap,
    additive biases (PairBias, ALiBi, RelativeBias), softmax, and any structure but edges. Others are refused with the
    reason: ONNX has no operator for them. Evaluation mode; weights are not among the outputs.
    """
    if opset not in OPSETS:
        raise ValueError(f"to_onnx(opset={opset}): Attention is supported in opsets {', '.join(map(str, OPSETS))}.")
    if model.training:
        raise ValueError("to_onnx() exports a model in evaluation mode: call model.eval() first.")
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise lacking("to_onnx()", "onnx with onnxscript", "export") from error
    with torch.no_grad(), _attention_operators(opset) as refused:
        try:
            program: Any = torch.onnx.export(
                model,
                args,
                dynamo=True,
                opset_version=opset,
                dynamic_shapes=dynamic_shapes,
                verbose=False,
            )
        except Exception as error:
            if refused:  # torch wraps exceptions raised while tracing
                raise Refused(refused[0]) from error
            raise
    if check:
        _check(program, model, args)
    if path is not None:
        program.save(str(path))
    return program


def to_package(model: nn.Module, args: tuple[Any, ...], path: "str | Path", *, dynamic_shapes: Any = None) -> Path:
    """The model compiled ahead of time by AOTInductor (a .pt2 package): any plan, run by `load_package`.

    Plans that run on `sdpa` or with backend="reference" are self-contained, and C++ can load the package. Others call
    an operator of Regard, which must be imported in the process that runs the package. Needs a C++ compiler; compiling
    takes a minute.
    """
    target = Path(path)
    if target.suffix != ".pt2":
        raise ValueError(f"to_package(path={str(path)!r}): expected a name that ends in .pt2.")
    with torch.no_grad():
        exported = torch.export.export(model, args, dynamic_shapes=dynamic_shapes)
        return Path(aoti_compile(exported, str(target)))


def load_package(path: "str | Path") -> Callable[..., Any]:
    """Loads a package of `to_package` as a function from the model's inputs to its outputs."""
    return aoti_load(str(path))


def onnx_refusals(plan: Plan) -> list[str]:
    """Why ONNX's Attention cannot compute this plan; empty if it can."""
    why = []
    if type(plan.align) is not Softmax:
        why.append(f"ONNX's Attention normalises by softmax, not by {type(plan.align).__name__}.")
    if plan.dropout or plan.sample:
        why.append("ONNX's Attention has no dropout or sampling: export in evaluation mode.")
    if any(isinstance(part, Edges) for part in plan.over.parts()):
        why.append("ONNX's Attention has all pairs and a mask, not the edges of a graph.")
    if why or plan.score.stepwise:
        return why or ["ONNX's Attention scores all pairs at once; this score goes step by step."]
    score = plan.problem.score
    if not isinstance(score.core, DotCore) or score.core.edge is not None:
        why.append(f"ONNX's Attention scores by a dot product; {type(plan.score).__name__} lowers to {score.core}.")
    if score.sink is not None:
        why.append("ONNX's Attention has no sink.")
    added = False
    for modifier in score.modifiers:
        if isinstance(modifier, SoftCap) and not added and modifier is score.modifiers[0]:
            continue
        if not modifier.shifts:
            why.append(f"ONNX's Attention has one soft cap, before the bias; no {type(modifier).__name__} after it.")
        added = True
    return why


@contextmanager
def _attention_operators(opset: int) -> Iterator[list[str]]:
    """Context in which attend() emits ONNX's operator into the graph; yields the list of refusals."""
    refused: list[str] = []

    def write(
        run: Callable[..., Any],
        q: Tensor,
        k: Tensor,
        v: Tensor,
        score: "str | Score",
        align: "str | Alignment",
        over: Structure | None,
        dropout: float,
        sample: bool,
        seed: Any,
        backend: str,
        state: Tensor | None,
        stats: Any,
    ) -> Attended:
        plan = make_plan(q, k, v, score, align, over, dropout, sample, seed)
        why = onnx_refusals(plan)
        if state is not None:
            why.append("ONNX's Attention has no state between steps (state=).")
        if stats:
            why.append("ONNX's Attention returns no statistics of rows (stats=).")
        if why:
            refused.append("to_onnx() refuses this plan. " + " ".join(why) + " to_package() compiles any plan.")
            raise Refused(refused[-1])
        return Attended(plan.output(_operator(plan, opset)), LazyMap.of_plan(plan, None, None))

    call_hooks.append(write)
    try:
        yield refused
    finally:
        call_hooks.remove(write)


def _operator(plan: Plan, opset: int) -> Tensor:
    """The operator in the graph of an export, (B, H, n, d_v)."""
    plain = plan.score.dot_scale(plan.q)
    cap, mask = 0.0, None
    if plain is not None:
        q, k, v, scale = plan.q, plan.k, plan.v, plain
    else:
        found, shape = plan.problem.score, (plan.batch, plan.heads)
        core = found.core
        assert isinstance(core, DotCore)
        q, k, v, scale = core.a.unflatten(0, shape), core.b.unflatten(0, shape), plan.v_by_head, core.scale
        if found.key_bias is not None:  # as an extra column: q' = [q, 1], k' = [k, bias / scale]
            column = (found.key_bias.unflatten(0, shape)[..., None] / scale).to(k.dtype)
            q, k = torch.cat([q, torch.ones_like(q[..., :1])], -1), torch.cat([k, column], -1)
        whole = Tile.whole(plan.batch, plan.heads, plan.n, plan.m, plan.q.device)
        for modifier in found.modifiers:
            if isinstance(modifier, SoftCap):
                cap = float(modifier.cap)
                continue
            nothing = plan.q.new_zeros(plan.batch * plan.heads, plan.n, plan.m)
            bias = modifier(nothing, whole).unflatten(0, shape)
            mask = bias if mask is None else mask + bias
    keep, causal = _keep(plan)
    if keep is not None:
        mask = keep if mask is None else mask.masked_fill(~keep, float("-inf"))
    inputs = (q, k, v) if mask is None else (q, k, v, mask if mask.dtype == torch.bool else mask.to(q.dtype))
    attributes: dict[str, Any] = {"scale": float(scale), "is_causal": int(causal)}
    if cap:
        attributes["softcap"] = cap
    shape_out = (*q.shape[:3], v.shape[-1])
    return torch.onnx.ops.symbolic("Attention", inputs, attributes, dtype=q.dtype, shape=shape_out, version=opset)


def _keep(plan: Plan) -> tuple[Tensor | None, bool]:
    """The boolean mask (B or 1, H or 1, n, m), and whether it is the causal mask."""
    if type(plan.over) is Full:
        return None, False
    forms = plan.structure_forms
    if len(forms) == 1 and forms[0] is not None and forms[0].family == CAUSAL and forms[0].right == 0:
        return None, True
    keep = plan.over.allowed(Tile.whole(plan.batch, plan.heads, plan.n, plan.m, plan.q.device))
    if keep is None:
        return None, False
    wide = keep.expand(plan.batch * plan.heads, plan.n, plan.m)
    return wide.unflatten(0, (plan.batch, plan.heads)), False


def _check(program: Any, model: nn.Module, args: tuple[Any, ...]) -> None:
    with torch.no_grad():
        expected = [x for x in tree_leaves(model(*args)) if isinstance(x, Tensor)]
    found, who = _run(program, args)
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=False)):
        largest = theirs.double().abs().max().clamp_min(1e-30) if theirs.numel() else 1.0
        error = float((ours.double() - theirs.double()).abs().max() / largest) if theirs.numel() else 0.0
        if ours.shape != theirs.shape or not error <= TOLERANCE:
            raise RuntimeError(
                f"{who} computes output {number} of the exported program with a relative difference of {error:.2g} "
                "from the model: its Attention operator differs, perhaps by a soft cap after the mask. Try "
                "the other opset or a newer runtime; check=False skips this check."
            )


def _run(program: Any, args: tuple[Any, ...]) -> tuple[list[Tensor], str]:
    proto = program.model_proto
    names = [each.name for each in proto.graph.input]
    tensors = [x for x in tree_leaves(args) if isinstance(x, Tensor)]
    feed = {name: x.detach().numpy() for name, x in zip(names, tensors, strict=True)}
    try:
        import onnxruntime
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        return [torch.as_tensor(x) for x in ReferenceEvaluator(proto).run(None, feed)], "onnx's evaluator"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [torch.as_tensor(x) for x in session.run(None, feed)], f"onnxruntime {onnxruntime.__version__}"
