"""Norm-based attention: the norm of the weighted, projected values, not the weights alone."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from ..record import Maps
from .combined import each_head, over_heads

BESIDE = ("o_proj", "out_proj", "c_proj", "out_lin", "to_out", "wo", "output.dense", "dense")
INSIDE = (*BESIDE, "o", "proj", "out", "fc_out", "output")  # names that say less count inside the module alone


def norms(
    rec: Any,
    *,
    model: nn.Module | None = None,
    projection: "Mapping[str, Tensor] | None" = None,
    together: bool = False,
    sites: str = "*",
) -> Maps:
    """The norm of each key's contribution to each query: maps (B, H, n, m) by site.

        w_ij |f_h(x_j)|,    f_h(x_j) = W_O^h v_j    (v with its bias, W_O^h the head's columns of the output projection)
        together=True: |sum over heads of w_ij^h f_h(x_j)|, maps (B, 1, n, m)

    rec         made with record(model, values=True)
    model       where to find output projections; the recorded model unless told
    projection  or the projections themselves, (d_out, H d_v) by pattern of sites, where they are not found

    A key with all the weight and no value hands over nothing: sinks often do. Kobayashi et al. 2020.
    """
    if not getattr(rec, "values", None):
        raise ValueError("norms needs the values: use record(model, values=True).")
    model = model if model is not None else rec._names.model
    made = Maps()
    for name, v in rec.values.items():
        if not fnmatchcase(name, sites) or name not in rec.maps:
            continue
        amap = rec.maps[name]
        heads = amap.heads
        v = v if v.shape[1] == heads else v.repeat_interleave(heads // v.shape[1], 1)
        with torch.no_grad():
            weight = output_projection(name, heads * v.shape[-1], model, projection)
            split = weight.to(v.device, torch.float64).unflatten(-1, (heads, -1)).transpose(0, 1)  # (H, d_out, d_v)
            made._by_site[name] = (_together if together else _apart)(amap, v.double(), split)
    return made


def _apart(amap: Any, v: Tensor, split: Tensor) -> Any:
    """|W v|^2 = v . (W^T W) v: no tensor of width d_out for each key and head."""
    inner = split.transpose(-1, -2) @ split  # (H, d_v, d_v)
    size = torch.einsum("bhmc,hcd,bhmd->bhm", v, inner, v).clamp_min(0.0).sqrt().flatten(0, 1)

    def join(bands: list[Tensor], heads: slice, cols: Any) -> Tensor:
        w = bands[0][:, 0]
        return w * size[heads][:, None, cols].to(w.dtype)

    return each_head([amap], join)


def _together(amap: Any, v: Tensor, split: Tensor) -> Any:
    """Of all heads: w_i . K_j w_i, with K_j[h, g] = f_h(x_j) . f_g(x_j)."""
    inner = torch.einsum("hoc,god->hgcd", split, split)
    pairs = torch.einsum("bhmc,hgcd,bgmd->bmhg", v, inner, v)

    def join(bands: list[Tensor], heads: slice, cols: Any) -> Tensor:
        w = bands[0].double()  # (g, H, r, c)
        met = torch.einsum("bhrc,bchg,bgrc->brc", w, pairs[heads][:, cols], w)
        return met.clamp_min(0.0).sqrt().to(bands[0].dtype)

    return over_heads([amap], join)


def output_projection(
    site: str, width: int, model: nn.Module | None, given: "Mapping[str, Tensor] | None" = None
) -> Tensor:
    """The matrix (d_out, width) that reads the heads' outputs side by side, by the names that models give it."""
    path = site.rpartition(":")[0] if site.rpartition(":")[2].isdigit() else site
    for pattern, weight in (given or {}).items():
        if fnmatchcase(site, pattern) or fnmatchcase(path, pattern):
            if weight.ndim != 2 or weight.shape[1] != width:
                raise ValueError(
                    f"projection[{pattern!r}] is {tuple(weight.shape)}, expected (d_out, {width}): heads "
                    "times the width of a value."
                )
            return weight.detach()
    if model is not None:
        for parent, names in ((path, INSIDE), (path.rpartition(".")[0], BESIDE)):
            for name in names:
                found = _matrix(model, f"{parent}.{name}" if parent else name, width)
                if found is not None:
                    return found
    raise ValueError(
        f"The output projection of {site} was not found beside it: pass projection={{{path!r}: weight}} "
        f"with the matrix (d_out, {width}) that the joined heads are multiplied by."
    )


def _matrix(model: nn.Module, path: str, width: int) -> Tensor | None:
    try:
        module = model.get_submodule(path)
    except AttributeError:
        return None
    if isinstance(module, nn.Sequential) and len(module):
        module = module[0]
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim != 2:
        return None
    if hasattr(module, "in_features"):
        return weight.detach() if weight.shape[1] == width else None
    return weight.detach().T if type(module).__name__ == "Conv1D" and weight.shape[0] == width else None
