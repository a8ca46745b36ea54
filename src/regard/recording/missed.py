"""Missed: an attention that ran and was not recorded, as a sentence with its place."""

import os
import re
import sys
from types import FrameType

PASSED_OVER = ("torch", "regard.recording", "regard.core", "torch_geometric.utils")  # packages between a call and us
LONGEST = 200  # characters of an error's message


class Missed(str):
    """One entry of `rec.missed`: "encoder.0.attention: aten::x: reason (models/bert.py:12)", a str with its parts.

    site       the module that attended
    operator   what ran there
    reason     why it is not in rec.maps; may be empty
    file, line the line of the model's code that called it; "" and 0 where that is not known
    """

    site: str
    operator: str
    reason: str
    file: str
    line: int

    def __new__(cls, operator: str, reason: str = "", site: str = "", file: str = "", line: int = 0) -> "Missed":
        place = f"({file}:{line})" if file else ""
        text = ": ".join(part for part in (site, operator, reason) if part)
        made = super().__new__(cls, f"{text} {place}".rstrip())
        made.site, made.operator, made.reason, made.file, made.line = site, operator, reason, file, line
        return made

    def at(self, site: str) -> "Missed":
        """The same at a site."""
        return Missed(self.operator, self.reason, site, self.file, self.line)

    @staticmethod
    def here(operator: str, reason: str = "") -> "Missed":
        """With the line of code that runs now: the innermost one outside of torch and of the recorder."""
        return Missed(operator, reason, "", *_place(sys._getframe(1)))

    @staticmethod
    def parse(text: str) -> "Missed":
        """From its text, as a record file has it; a site or an operator that holds ": " is cut there."""
        found = re.fullmatch(r"(.*?)(?: \(([^()]*):(\d{1,9})\))?", text, re.DOTALL)
        assert found is not None  # every text fits
        site, _, rest = found[1].partition(": ")
        operator, _, reason = rest.partition(": ")
        made = Missed(operator, reason, site, found[2] or "", int(found[3] or 0))
        return made if made == text else Missed(text)


def described_error(error: BaseException) -> str:
    """Its class and the first line of its message."""
    said = (str(error).strip().splitlines() or [""])[0]
    said = said if len(said) <= LONGEST else said[: LONGEST - 4] + " ..."
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _place(frame: FrameType | None) -> tuple[str, int]:
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not any(name == package or name.startswith(package + ".") for package in PASSED_OVER):
            return _short(frame.f_code.co_filename), frame.f_lineno
        frame = frame.f_back
    return "", 0


def _short(path: str) -> str:
    """A file without the folders of this machine: as its package has it, or by its own name."""
    parts = path.replace(os.sep, "/").split("/")
    for folder in ("site-packages", "dist-packages"):
        if folder in parts:
            return "/".join(parts[parts.index(folder) + 1 :])
    return parts[-1]
