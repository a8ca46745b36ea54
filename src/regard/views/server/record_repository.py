"""The records that can be opened: those named on the command line, those of one folder, those that were sent.

A name that a page gives is never a path: it is looked for below the folder, part by part, and no part may be a link.
A file whose name is no UTF-8 is listed with the bytes that are none as escapes.
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

FILES = 1000  # that are listed
DEPTH = 3  # folders below the one that was chosen
SENT = 4 << 30  # bytes of records that were sent: the oldest are let go
SUFFIX = ".regard"


class Shelf:
    """The records that the server offers: those of its folder, those named on the command line, uploads."""

    def __init__(self, folder: Path, given: "list[Path]", room: Path):
        self.folder, self.room = folder.resolve(), room
        if not self.folder.is_dir():
            raise NotADirectoryError(f"--folder {folder}: there is no such folder.")
        self.given: dict[str, Path] = {}
        for path in given:
            load(path)  # refused now, with its sentence, rather than when it is looked at
            self.given[_free(spelt(path.name), self.given)] = path.resolve()
        self.sent: dict[str, Path] = {}
        self._odd: dict[str, str] = {}  # by the name that is shown, the one that the system has

    def listing(self) -> list[dict[str, Any]]:
        """Every record that can be opened: where it is from, its name, bytes, when it was changed."""
        places = [("given", name, path) for name, path in self.given.items()]
        places += [("sent", name, path) for name, path in self.sent.items()]
        known = set(self.given.values())
        below = ((name, self.folder / name) for name in self._below())
        places += [("folder", self._shown(name), path) for name, path in below if path not in known]
        made = []
        for origin, name, path in places:
            try:
                found = path.stat()
            except OSError:
                continue
            made.append({"from": origin, "name": name, "bytes": found.st_size, "changed": found.st_mtime})
        return made

    def _shown(self, name: str) -> str:
        shown = spelt(name)
        if shown != name:
            self._odd[shown] = name
        return shown

    def _below(self) -> Iterator[str]:
        count = 0
        for place, folders, files in os.walk(self.folder):  # does not follow links
            below = Path(place).relative_to(self.folder)
            if len(below.parts) >= DEPTH:
                folders.clear()
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(files):
                if name.endswith(SUFFIX) and not (Path(place) / name).is_symlink():
                    yield (below / name).as_posix()
                    count += 1
                    if count == FILES:
                        return

    def find(self, origin: str, name: str) -> Path:
        """The file that a page means, or an error that says nothing of what else there is."""
        known = {"given": self.given, "sent": self.sent}.get(origin)
        found = known.get(name) if known is not None else self._inside(name) if origin == "folder" else None
        if found is None:
            raise FileNotFoundError(f"There is no record {name[:80]!r} in the folder that is served.")
        return found

    def _inside(self, name: str) -> Path | None:
        own = self._odd.get(name)
        parts = (own or name).split("/")
        if not name.endswith(SUFFIX) or len(parts) > DEPTH + 1 or (own is None and re.search(r"[\\\0:]", name)):
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

    def open(self, origin: str, name: str, go_on: Callable[[], None] = lambda: None) -> Record:
        return read(self.find(origin, name), go_on)

    async def receive(self, name: str, pieces: AsyncIterator[bytes]) -> Path:
        """What is sent, on the disk as it comes, under a name of ours."""
        handle, draft = tempfile.mkstemp(dir=self.room, suffix=SUFFIX)
        try:
            with os.fdopen(handle, "wb") as file:
                async for piece in pieces:
                    file.write(piece)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
        return Path(draft)

    def admit(self, name: str, draft: Path, go_on: Callable[[], None] = lambda: None) -> str:
        """A file that was sent joins the others if it is a record; its name from here on."""
        try:
            read(draft, go_on)
        except Exception as problem:
            draft.unlink(missing_ok=True)
            if not isinstance(problem, ValueError):
                raise
            raise ValueError(str(problem).replace(str(draft), _plain(name))) from None
        sizes = {own: path.stat().st_size for own, path in self.sent.items()}
        for own in list(self.sent):
            if sum(sizes.values()) + draft.stat().st_size <= SENT:
                break
            del sizes[own]
            self.sent.pop(own).unlink(missing_ok=True)
        free = _free(_plain(name), self.sent)
        self.sent[free] = draft
        return free


def spelt(name: str) -> str:
    """A name of the system as text: bytes that are no UTF-8 as escapes, which no other name has."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _plain(name: str) -> str:
    """The last part of a name, without what could trouble a terminal or a page."""
    last = re.split(r"[/\\]", name)[-1]
    kept = re.sub(r"[^\w.\- ]", "_", last).strip(". ")[:80] or "record"
    return kept if kept.endswith(SUFFIX) else kept + SUFFIX


def _free(name: str, taken: "dict[str, Path]") -> str:
    stem = name.removesuffix(SUFFIX)
    number = 2
    while name in taken:
        name = f"{stem} ({number}){SUFFIX}"
        number += 1
    return name
