"""What a record's description may say: each part is held against the tensors of the file, and refused by a sentence."""

from typing import Any

from torch import Tensor

from .reading import RecordFile
from .structure_codec import Form, check, structure_from

FLOATS = ("F64", "F32", "F16", "BF16")
SHAPES = (-1, -1, -1, -1)


def check_map(file: RecordFile, form: Form) -> tuple[tuple[int, ...], int, int]:
    """Its leading axes, n and m; refused where what it names does not fit together."""
    kind = form.get("kind")
    if kind not in ("scored", "weights", "top", "edges"):
        file._refuse(f"a map is of the kind {str(kind)[:40]!r}, expected scored, weights, top or edges")
    if kind == "scored":
        b, h, n, d = check(file, form.get("q"), FLOATS, SHAPES)
        _, hk, wide, _ = check(file, form.get("k"), FLOATS, (b, -1, -1, d))
        m = form.get("m")
        if type(m) is not int or not 0 <= m <= wide or d == 0 or hk == 0 or h % hk:
            file._refuse(f"a map has {str(m)[:40]} keys of {(b, hk, wide, d)} for queries {(b, h, n, d)}")
        check(file, form.get("tau"), ("F32", "F64"), (b, h, n))
        if "peak" in form or "log_sum" in form:
            for part in ("peak", "log_sum"):
                check(file, form.get(part), ("F32", "F64"), (b, h, n))
        for number in ("scale", "cap"):
            if number == "scale" or number in form:
                check_number(file, form.get(number))
        if "sink" in form:
            check(file, form["sink"], FLOATS, (h,), (b * h,))
        bias = form.get("bias")
        if bias is not None:
            _check_bias(file, bias, b, h, n, m)
        structure_from(file, form.get("over"), n, m, b, h, build=False)
        return (b, h), n, m
    lead = form.get("lead")
    if not isinstance(lead, list) or len(lead) > 6 or any(type(x) is not int or not 0 <= x < 2**31 for x in lead):
        file._refuse(f"a map has the leading axes {str(lead)[:80]}")
    g = 1
    for size in lead:
        g *= size
    if kind == "weights":
        shape = check(file, form.get("weights"), FLOATS, (g, -1, -1), (g, -1, -1, -1))
        if (len(shape) == 4) != bool(form.get("features")):
            file._refuse("a map of weights does not say whether it has features")
        if "over" in form:
            heads = lead[-1] if lead else 1
            structure_from(file, form["over"], shape[-2], shape[-1], g // max(1, heads), heads, build=False)
        return tuple(lead), shape[-2], shape[-1]
    if kind == "top":
        shape = check(file, form.get("weight"), FLOATS, (g, -1, -1), (g, -1, -1, -1))  # (g, [F,] n, k)
        check(file, form.get("key"), ("I32",), shape)
        return tuple(lead), shape[-2], size_in(file, form.get("m"))
    n, m = size_in(file, form.get("n")), size_in(file, form.get("m"))
    _, edges = check(file, form.get("edge_index"), ("I64",), (2, -1))
    (count,) = check(file, form.get("source"), ("I64",), (-1,))
    for part in ("target", "edge"):
        check(file, form.get(part), ("I64",), (count,))
    ids = edges + max(n, m)
    check(file, form.get("weight"), FLOATS, (g, ids), (g, -1, ids))
    return tuple(lead), n, m


def _check_bias(file: RecordFile, bias: Any, b: int, h: int, n: int, m: int) -> None:
    if isinstance(bias, dict) and set(bias) == {"diagonals"}:
        check(file, bias["diagonals"], FLOATS, (h, n + m - 1), (1, n + m - 1))
    elif isinstance(bias, dict) and set(bias) == {"pairs"}:
        shape = check(file, bias["pairs"], FLOATS, SHAPES)
        if any(a not in (1, whole) for a, whole in zip(shape, (b, h, n, m), strict=True)):
            file._refuse(f"a bias of shape {shape} does not fit a map of shape {(b, h, n, m)}")
    else:
        file._refuse(f"a bias is described by {str(bias)[:80]}")


def is_pair(x: Any) -> bool:
    return isinstance(x, list) and len(x) == 2 and all(type(y) is int and 0 <= y < 2**40 for y in x)


def object_in(file: RecordFile, x: Any) -> dict[str, Any]:
    if not isinstance(x, dict):
        file._refuse(f"{str(x)[:60]!r} stands where an object is expected")
    return x


def list_in(file: RecordFile, x: Any) -> list[Any]:
    if not isinstance(x, list):
        file._refuse(f"{str(x)[:60]!r} stands where a list is expected")
    return x


def site_in(file: RecordFile, form: Any) -> str:
    name = object_in(file, form).get("site")
    if not isinstance(name, str):
        file._refuse(f"a map has the site {str(name)[:60]!r}")
    return name


def texts_in(file: RecordFile, x: Any) -> dict[str, Any]:
    found = {name: value for name, value in object_in(file, x).items() if isinstance(value, (str, int, float))}
    if not isinstance(found.get("parameters", 0), int):
        file._refuse(f"a model has {str(found['parameters'])[:40]!r} parameters")
    return found


def check_number(file: RecordFile, x: Any) -> None:
    if type(x) not in (int, float) or not abs(x) < 1e30:
        file._refuse(f"{str(x)[:60]!r} stands where a number is expected")


def size_in(file: RecordFile, x: Any) -> int:
    """A length that no tensor of the file bounds: at most 2^24."""
    if type(x) is not int or not 0 <= x <= 2**24:
        file._refuse(f"an axis has the length {str(x)[:60]}, expected 0 to {2**24}")
    return x


def check_within(file: RecordFile, x: Tensor, low: int, stop: int, what: str) -> None:
    if x.numel() and not low <= int(x.min()) <= int(x.max()) < stop:
        file._refuse(f"{what} go from {int(x.min())} to {int(x.max())}, expected {low} to {stop - 1}")
