"""Opening a user's file: size limits, decoding, and errors with file, line and what to type."""

import gzip
import hashlib
import zlib
from collections.abc import Callable
from pathlib import Path

LARGEST = 2**28  # bytes of a text file, unpacked
PIECE = 1 << 20  # bytes read at a time
PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".joblib", ".ckpt", ".bin")
CONVERT = (  # loads tensors and the parts of a Data without running code of the file
    'python -c "import torch, regard.data, torch_geometric.data.data as d, torch_geometric.data.storage as s; '
    "torch.serialization.add_safe_globals([d.Data, d.DataEdgeAttr, d.DataTensorAttr, s.GlobalStorage]); "
    "regard.data.save_graph(torch.load('{old}', weights_only=True), '{new}')\""
)


def wrong(path: "str | Path", line: "int | None", sentence: str) -> ValueError:
    """An error about a file: where it is wrong, what is expected, what to type."""
    return ValueError(f"{path}, line {line}: {sentence}" if line else f"{path}: {sentence}")


def is_path(name: str) -> bool:
    """Whether a name of data is a path: it has a folder or an extension, such as ./mine or mine.csv."""
    return "/" in name or "\\" in name or bool(Path(name).suffix)


def existing(path: "str | Path") -> Path:
    """The path, if it is a readable file or folder. Pickles are never opened."""
    path = Path(path)
    if path.suffix.lower() in PICKLES:
        line = CONVERT.format(old=path, new=path.with_suffix(".npz"))
        raise wrong(
            path,
            None,
            f"pickles are refused, since they can run code. Convert a torch_geometric Data once: {line}",
        )
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file; you are in {Path.cwd()}.")
    return path


def text_lines(path: "str | Path", limit: int = LARGEST) -> list[str]:
    """The lines of a UTF-8 text file, optionally gzipped; an empty file is an error."""
    path = existing(path)
    if path.is_dir():
        raise wrong(path, None, "this is a folder; name a file in it.")
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            found = _up_to(file.read, limit + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
        raise wrong(path, None, f"cannot be unpacked ({problem}); compress it again: gzip {path.stem}.") from problem
    if len(found) > limit:
        raise wrong(path, None, f"larger than the limit of {limit:,} bytes: use a part of it.")
    try:
        text = found.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = found[: problem.start].count(b"\n") + 1
        convert = f"iconv -f {_guess(found)} -t UTF-8 {path.name} > utf8_{path.name}"
        raise wrong(path, line, f"this is not UTF-8; convert it: {convert}") from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise wrong(path, line, "there is a zero byte: this is not a UTF-8 text file.")
    lines = text.replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    if not any(line.strip() for line in lines):
        raise wrong(path, None, "this file is empty.")
    return lines


def _up_to(read: Callable[[int], bytes], limit: int) -> bytes:
    """At most `limit` bytes, read in pieces: read(limit) would allocate all of them at once."""
    pieces, size = list[bytes](), 0
    while size < limit and (piece := read(min(PIECE, limit - size))):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def ending(path: "str | Path") -> str:
    """The extension without .gz: ".csv" of a.csv.gz."""
    path = Path(path)
    return Path(path.stem).suffix.lower() if path.suffix == ".gz" else path.suffix.lower()


def content_hash(path: "str | Path") -> str:
    """A hash of the bytes of a file, or of the names and bytes of all files in a folder."""
    path, digest = existing(path), hashlib.sha256()
    for one in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if one.is_file():
            if path.is_dir():
                digest.update(f"{one.relative_to(path).as_posix()}\0{one.stat().st_size}\0".encode())
            with one.open("rb") as file:
                while piece := file.read(1 << 20):
                    digest.update(piece)
    return digest.hexdigest()


def same_file(one: "str | Path", other: "str | Path") -> bool:
    """Whether two paths name the same existing file or folder."""
    return bool(str(one)) and Path(one).exists() and Path(one).resolve() == Path(other).resolve()


def _guess(found: bytes) -> str:
    return "UTF-16" if found[:2] in (b"\xff\xfe", b"\xfe\xff") else "LATIN1"
