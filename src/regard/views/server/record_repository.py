"""Record files that can be opened: command-line arguments, files below one folder, uploads.

A name from a request is never used as a path: it is resolved below the folder part by part, and symbolic links are
refused. Undecodable bytes of a file name are shown as escapes.
"""

import os
import re
import stat
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from regard.recording.io.loading import load, read
from regard.recording.record import Record

MAX_FILES = 1000  # listed at most
MAX_DEPTH = 3  # levels of subfolders
UPLOAD_QUOTA = 4 << 30  # bytes of uploads: the oldest are deleted
SUFFIX = ".regard"


class RecordRepository:
    """The records that the server offers: those of its folder, those named on the command line, uploads."""

    def __init__(self, folder: Path, given: "list[Path]", work_dir: Path):
        self.folder, self.work_dir = folder.resolve(), work_dir
        if not self.folder.is_dir():
            raise NotADirectoryError(f"--folder {folder}: there is no such folder.")
        self.arguments: dict[str, Path] = {}
        for path in given:
            load(path)  # fail at start rather than when it is opened
            self.arguments[_unique_name(decoded_name(path.name), self.arguments)] = path.resolve()
        self.uploads: dict[str, Path] = {}
        self._undecodable: dict[str, str] = {}  # displayed name -> name in the file system

    def listing(self) -> list[dict[str, Any]]:
        """All records: origin, name, size in bytes, modification time."""
        places = [("argument", name, path) for name, path in self.arguments.items()]
        places += [("upload", name, path) for name, path in self.uploads.items()]
        known = set(self.arguments.values())
        below = ((name, self.folder / name) for name in self._record_files())
        places += [("folder", self._listed_name(name), path) for name, path in below if path not in known]
        made = []
        for origin, name, path in places:
            try:
                found = path.stat()
            except OSError:
                continue
            made.append({"from": origin, "name": name, "bytes": found.st_size, "changed": found.st_mtime})
        return made

    def _listed_name(self, name: str) -> str:
        shown = decoded_name(name)
        if shown != name:
            self._undecodable[shown] = name
        return shown

    def _record_files(self) -> Iterator[str]:
        count = 0
        for place, folders, files in os.walk(self.folder):  # does not follow symbolic links
            below = Path(place).relative_to(self.folder)
            if len(below.parts) >= MAX_DEPTH:
                folders.clear()
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(files):
                if name.endswith(SUFFIX) and not (Path(place) / name).is_symlink():
                    yield (below / name).as_posix()
                    count += 1
                    if count == MAX_FILES:
                        return

    def find(self, origin: str, name: str) -> Path:
        """The file of a request, or an error that reveals nothing about other files."""
        known = {"argument": self.arguments, "upload": self.uploads}.get(origin)
        found = known.get(name) if known is not None else self._path_below(name) if origin == "folder" else None
        if found is None:
            raise FileNotFoundError(f"There is no record {name[:80]!r} in the served folder.")
        return found

    def _path_below(self, name: str) -> Path | None:
        own = self._undecodable.get(name)
        parts = (own or name).split("/")
        if not name.endswith(SUFFIX) or len(parts) > MAX_DEPTH + 1 or (own is None and re.search(r"[\\\0:]", name)):
            return None
        path = self.folder
        try:
            for part in parts:
                if part in ("", ".", ".."):
                    return None
                path = path / part
                if stat.S_ISLNK(path.lstat().st_mode):
                    return None
            if not stat.S_ISREG(path.lstat().st_mode) or not path.resolve().is_relative_to(self.folder):
                return None
        except OSError:
            return None
        return path

    def open(self, origin: str, name: str, check: Callable[[], None] = lambda: None) -> Record:
        return read(self.find(origin, name), check)

    async def receive(self, name: str, pieces: AsyncIterator[bytes]) -> Path:
        """Stream an upload to disk, under a temporary name."""
        handle, draft = tempfile.mkstemp(dir=self.work_dir, suffix=SUFFIX)
        try:
            with os.fdopen(handle, "wb") as file:
                async for piece in pieces:
                    file.write(piece)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
        return Path(draft)

    def accept_upload(self, name: str, draft: Path, check: Callable[[], None] = lambda: None) -> str:
        """Validate an uploaded file and list it; returns its name."""
        try:
            read(draft, check)
        except Exception as problem:
            draft.unlink(missing_ok=True)
            if not isinstance(problem, ValueError):
                raise
            raise ValueError(str(problem).replace(str(draft), _safe_name(name))) from None
        sizes = {own: path.stat().st_size for own, path in self.uploads.items()}
        for own in list(self.uploads):
            if sum(sizes.values()) + draft.stat().st_size <= UPLOAD_QUOTA:
                break
            del sizes[own]
            self.uploads.pop(own).unlink(missing_ok=True)
        free = _unique_name(_safe_name(name), self.uploads)
        self.uploads[free] = draft
        return free


def decoded_name(name: str) -> str:
    """A file-system name as text, undecodable bytes as unambiguous escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _safe_name(name: str) -> str:
    """Base name with unsafe characters replaced."""
    last = re.split(r"[/\\]", name)[-1]
    kept = re.sub(r"[^\w.\- ]", "_", last).strip(". ")[:80] or "record"
    return kept if kept.endswith(SUFFIX) else kept + SUFFIX


def _unique_name(name: str, taken: "dict[str, Path]") -> str:
    stem = name.removesuffix(SUFFIX)
    number = 2
    while name in taken:
        name = f"{stem} ({number}){SUFFIX}"
        number += 1
    return name
