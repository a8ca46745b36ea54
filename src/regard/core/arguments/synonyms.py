"""Synonyms of names, suggestions for near misses, and what to write instead of unsupported names."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

# Other names of scores and of alignments. They mean the same object.
SCORES_ALSO = {
    "bahdanau": "additive",
    "mlp": "additive",
    "luong": "general",
    "bilinear": "general",
    "multiplicative": "general",
    "dot_product": "dot",
    "inner_product": "dot",
    "scaled_dot_product": "scaled_dot",
    "sdpa": "scaled_dot",
    "vaswani": "scaled_dot",
    "cosine_similarity": "cosine",
    "qk_norm": "cosine",
    "rbf": "gaussian",
    "l1": "laplace",
    "linear": "linear_kernel",
}
ALIGNMENTS_ALSO = {
    "soft": "softmax",
    "sparse_softmax": "sparsemax",
    "entmax1.5": "entmax15",
    "entmax_1.5": "entmax15",
    "gumbel_softmax": "gumbel",
    "argmax": "hard",
    "mean": "uniform",
    "average": "uniform",
    "reinforce": "reinforced",
    "hardmax": "hard",
}

# Names that are neither a score nor an alignment, and what to write instead.
_ROTARY = (
    "it rotates queries and keys before the score: nn.Attention(dim, heads, rotary=True), or "
    "q, k = Rotary(d)(q), Rotary(d)(k)"
)
_GROUPED = "it is fewer key heads: nn.Attention(dim, heads, kv_heads=...); attend broadcasts key heads itself"
_BESIDE_ZERO = "it is softmax with a sink logit of 0: score=Sink(torch.zeros(heads))"
_CAUSAL = 'it is a structure: over="causal"'
_WINDOW = "it is a structure: over=Window(8) or over=Causal(window=1024)"
ELSEWHERE = {
    "rope": _ROTARY,
    "rotary": _ROTARY,
    "gqa": _GROUPED,
    "mqa": _GROUPED,
    "grouped_query": _GROUPED,
    "multi_query": _GROUPED,
    "mha": "heads are an axis of q, k and v: nn.Attention(dim, heads)",
    "multi_head": "heads are an axis of q, k and v: nn.Attention(dim, heads)",
    "causal": _CAUSAL,
    "autoregressive": _CAUSAL,
    "window": _WINDOW,
    "sliding_window": _WINDOW,
    "swa": _WINDOW,
    "alibi": "it is a bias on a score: score=ALiBi(heads)",
    "relative_bias": "it is a bias on a score: score=RelativeBias(heads, reach)",
    "t5": "it is a bias on a score: score=RelativeBias(heads, reach)",
    "sink": "it changes a score: score=Sink(heads)",
    "soft_cap": "it changes a score: score=SoftCap(50.0)",
    "softcap": "it changes a score: score=SoftCap(50.0)",
    "softmax1": _BESIDE_ZERO,
    "softmax_one": _BESIDE_ZERO,
    "off_by_one": _BESIDE_ZERO,
    "quiet_softmax": _BESIDE_ZERO,
    "log_softmax": "it is the logarithm of softmax's weights: amap.weights().log()",
    "temperature": "it is a constant of the score: scale=1 / (temperature * width**0.5)",
    "flash": 'it is a backend for softmax of dot products: backend="sdpa" takes it where torch has it',
    "flash_attention": 'it is a backend for softmax of dot products: backend="sdpa" takes it where torch has it',
}

# Backends of other libraries.
_BY_TORCH = 'torch chooses among its kernels: backend="sdpa", and torch.nn.attention.sdpa_kernel(...) says which'
_ALL_PAIRS = 'it materialises all pairs: backend="reference" does, backend="chunked" does so in tiles'
_OWN_KERNELS = 'Triton kernels are named by what they run, "triton-dense" or "triton-edges"; "auto" picks one'
BACKENDS_ELSEWHERE = {
    "flash": _BY_TORCH,
    "flash_2": _BY_TORCH,
    "flash_attn": _BY_TORCH,
    "cudnn": _BY_TORCH,
    "efficient": _BY_TORCH,
    "mem_efficient": _BY_TORCH,
    "memory_efficient": _BY_TORCH,
    "xformers": _BY_TORCH,
    "native": _BY_TORCH,
    "eager": _ALL_PAIRS,
    "naive": _ALL_PAIRS,
    "math": _ALL_PAIRS,
    "torch": _ALL_PAIRS,
    "triton": _OWN_KERNELS,
    "cuda": _OWN_KERNELS,
    "gpu": _OWN_KERNELS,
    "cpu": 'a backend follows the device of q: backend="auto"',
    "numba": 'that is backend="edges-cpu", for graphs on a CPU',
    "varlen": 'torch\'s kernel for packed sequences: attend_packed(q, k, v, cu_seqlens, backend="varlen")',
}

# Attributes often looked for in `regard`, lower-case without underscores, and their name after `regard.`.
ATTRIBUTES = {
    "rope": "Rotary",
    "rotaryembedding": "Rotary",
    "bahdanau": "Additive",
    "luong": "General",
    "bilinear": "General",
    "multiplicative": "General",
    "dotproduct": "Dot",
    "scaleddotproduct": "ScaledDot",
    "sdpa": "attend",
    "scaleddotproductattention": "attend",
    "multiheadattention": "nn.MultiheadAttention",
    "multihead": "nn.Attention",
    "attention": "nn.Attention",
    "gqa": "nn.Attention, with kv_heads=",
    "mqa": "nn.Attention, with kv_heads=1",
    "groupedqueryattention": "nn.Attention, with kv_heads=",
    "kvcache": "nn.Cache",
    "cache": "nn.Cache",
    "slidingwindow": "Window",
    "causalmask": "Causal",
    "paddingmask": "Padding",
    "attentionmask": "Mask",
    "blockmask": "Mask or regard.Segments",
    "createblockmask": "Mask or regard.Segments",
    "varlen": "Segments",
    "varlenattn": "attend_packed",
    "flashattnvarlenfunc": "attend_packed",
    "flashattnfunc": "attend",
    "flashattention": "attend",
    "flexattention": "attend, with a modifier of your own as score=",
    "memoryefficientattention": "attend",
    "linearattention": "linear_attend",
    "crossattention": "nn.Attention: attention(x, memory)",
    "transformer": "nn.replace, which puts any attention into torch.nn.Transformer",
    "transformerencoder": "nn.replace, which puts any attention into torch.nn.TransformerEncoder",
    "transformerencoderlayer": "nn.replace, which puts any attention into torch.nn.TransformerEncoderLayer",
    "pagedattention": "nn.PagedCache",
    "pagedkvcache": "nn.PagedCache",
    "ringattention": "integrations.distributed.attend_sharded",
    "attendsharded": "integrations.distributed.attend_sharded",
    "contextparallel": "integrations.distributed.attend_sharded",
    "sequenceparallel": "integrations.distributed.attend_sharded",
    "trainermonitor": "integrations.transformers_trainer.TrainerMonitor",
    "trainercallback": "integrations.transformers_trainer.TrainerMonitor",
    "lightningmonitor": "integrations.lightning.LightningMonitor",
    "lightningcallback": "integrations.lightning.LightningMonitor",
    "mapexplainer": "integrations.torch_geometric.MapExplainer",
    "attentionexplainer": "integrations.torch_geometric.MapExplainer",
    "toexplanation": "integrations.torch_geometric.to_explanation",
    "toonnx": "integrations.export.to_onnx",
    "onnx": "integrations.export.to_onnx",
    "topackage": "integrations.export.to_package",
    "export": "integrations.export.to_onnx or regard.integrations.export.to_package",
    "entmax15": "Entmax: align='entmax15'",
    "topp": "TopK, the k best keys of each row",
    "softmax1": "Sink: score=Sink(heads)",
    "cooperativeattention": "nn.Attention",
    "gatedgraph": "nn.GATConv",
    "gat2": "GATv2 or regard.nn.GATv2Conv",
    "graph": "Edges",
    "edgeindex": "Edges",
    "rollout": "derived.rollout",
    "attentionrollout": "derived.rollout",
    "ablate": "intervene",
    "patch": "intervene",
    "activationpatching": "intervene",
    "trace": "record",
    "capture": "record",
    "bertviz": "record: rec.show()",
    "viz": "record: rec.show()",
    "visualize": "record: rec.show()",
    "show": "record: rec.show()",
    "plot": "record: rec.maps[0].plot()",
    "heatmap": "record: rec.maps[0].plot('heatmap')",
    "evaluate": "judge",
    "faithfulness": "judge",
    "save": "record: rec.save(path)",
    "loadmodel": "load, which reads a record",
    "tensorboard": "Monitor: log='tensorboard:folder'",
    "wandb": "Monitor: log='wandb:project'",
    "mlflow": "Monitor: log='mlflow:experiment'",
    "t5bias": "RelativeBias",
    "softcapping": "SoftCap",
    "attentionsink": "Sink",
    "explain": "judge, which tests explanations",
    "probe": "record",
    "hook": "record or regard.intervene",
    "watch": "Monitor",
    "callback": "Monitor",
    "gatconv": "nn.GATConv",
}


def spelled(name: str) -> str:
    """Normalised spelling of a name: Scaled-Dot Attention is scaled_dot."""
    made = name.strip().lower().replace("-", "_").replace(" ", "_")
    return made.removesuffix("_attention").removesuffix("_score")


def near(name: str, names: Iterable[str]) -> str:
    """'did you mean "additive"?' of the nearest of some names, in quotes; empty where none is near."""
    close = get_close_matches(spelled(name), list(names), 1, 0.7)
    return f"did you mean {close[0]!r}?" if close else ""


def unknown_name(kind: str, name: str, names: Iterable[str], others: Iterable[str], object_name: str) -> ValueError:
    """The error for an unknown name of `kind` ("score", "align"); `others` are the names of the other kind."""
    plain, listed = spelled(name), list(names)
    other = "align" if kind == "score" else "score"
    if plain in ELSEWHERE:
        return ValueError(f"{kind}={name!r}: {ELSEWHERE[plain]}.")
    if plain in set(others):
        return ValueError(f"{kind}={name!r}: that is one of the other kind, {other}={plain!r}.")
    hint = near(name, listed)
    hint = f": {hint} Expected" if hint else "; expected"
    return ValueError(f"{kind}={name!r} is unknown{hint} one of {', '.join(listed)}, or {object_name}.")


def no_attribute(
    module: str, name: str, names: Iterable[str], beside: "Mapping[str, Iterable[str]] | None" = None
) -> AttributeError:
    """The error for an unknown attribute of a module.

    beside   names in other modules of this library, where the attribute may be
    """
    text = f"module {module!r} has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(text)
    letters = "".join(x for x in name.lower() if x.isalnum())
    listed = {"".join(x for x in one.lower() if x.isalnum()): one for one in names}
    if letters in listed:
        return AttributeError(f"{text}: it is {module}.{listed[letters]}.")
    if letters in ATTRIBUTES:
        return AttributeError(f"{text}: here it is regard.{ATTRIBUTES[letters]}.")
    elsewhere = {
        "".join(x for x in one.lower() if x.isalnum()): f"{place}.{one}"
        for place, others in (beside or {}).items()
        for one in others
    }
    if letters in elsewhere:
        return AttributeError(f"{text}: it is {elsewhere[letters]}.")
    everywhere = elsewhere | {plain: f"{module}.{one}" for plain, one in listed.items()}
    close = get_close_matches(letters, list(everywhere), 1, 0.75)
    return AttributeError(text + (f"; did you mean {everywhere[close[0]]}?" if close else ""))


def function_name(given: object, names: Iterable[str]) -> str:
    """'; write "softmax"' for a function such as torch.softmax whose name is one of `names`; else ""."""
    name = spelled(getattr(given, "__name__", ""))
    return f"; write {name!r}" if callable(given) and name in set(names) else ""


def unknown_argument(
    who: str, name: str, names: Iterable[str], answers: "dict[str, str]", also: Iterable[str] = ()
) -> TypeError:
    """The error for an unknown argument of a function; `also` are names of torch that it accepts."""
    if name in answers:
        return TypeError(f"{who}() has no argument {name}: {answers[name].replace('MASK', name)}")
    close = get_close_matches(name, [*names, *also, *answers], 1, 0.6)
    hint = f"did you mean {close[0]}?" if close else f"it takes {', '.join(names)}."
    if close and close[0] in answers:
        hint += f" {answers[close[0]].replace('MASK', close[0])}"
    return TypeError(f"{who}() has no argument {name}: {hint}")
