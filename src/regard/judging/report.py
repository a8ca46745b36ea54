"""A report: what was tested, what was found beside which baseline, what was left out and why."""

import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..core.display import view
from ..recording.io.writing import write_whole
from .finding import Finding
from .suite import Judged
from .summary import Headline, ReportSummary, summarise
from .verdict import beside, compared, correct, standing, verdicts

__all__ = ["Report", "beside", "compared", "standing", "verdicts"]

VERSION = 1
PAGE, FINDINGS, RATIONALES = "report.html", "report.json", "eraser.jsonl"  # the files in a report's folder


@dataclass(frozen=True)
class Report:
    """What came of a battery of tests on one model and its data.

    about    what was judged and how: model, data, hashes, seed, selector, removal, versions; "caution" where the
             model was not trained to its end. No times, no places
    tests    by name what each test found, or why it was left out, in the order of the battery
    rows     of each instance what ERASER's benchmark reads: rationale, classes, scores without it and with it alone

    The same model, data, seed and versions give the same report, bit for bit. Verdicts of the headlines are corrected
    for their number (`verdict.correct`).
    """

    about: Mapping[str, Any]
    tests: Sequence[Judged]
    rows: Sequence[Mapping[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        corrected = iter(correct([one for _, one in self.headlines()]))
        tests = [
            replace(
                test,
                findings=[*itertools.islice(corrected, len(test.findings[: test.first])), *test.findings[test.first :]],
            )
            for test in self.tests
        ]
        object.__setattr__(self, "tests", tests)

    @property
    def findings(self) -> list[Finding]:
        return [one for test in self.tests for one in test.findings]

    @property
    def caution(self) -> str:
        """What is to be known before anything is believed: that training was stopped halfway."""
        return str(self.about.get("caution", ""))

    @property
    def left_out(self) -> dict[str, str]:
        """The tests that have no meaning here, and why."""
        return {test.name: test.left_out for test in self.tests if test.left_out}

    def __getitem__(self, name: str) -> Judged:
        for test in self.tests:
            if test.name == name:
                return test
        raise KeyError(f"{name!r}: this report has {', '.join(test.name for test in self.tests)}.")

    def headlines(self) -> Iterator[tuple[Judged, Finding]]:
        """What stands on the first page: the first findings of each test."""
        return ((test, one) for test in self.tests for one in test.findings[: test.first])

    def counts(self) -> dict[str, int]:
        """How many headlines are better or worse than their baseline, not significantly different, or undefined."""
        made = dict.fromkeys(("better", "not significantly different", "worse", "undefined"), 0)
        for _, one in self.headlines():
            made[standing(one)[1]] += 1
        return made

    @property
    def summary(self) -> ReportSummary:
        """The first page in words: the answer, cautions, verdicts, what was not tested."""
        return summarise(
            self.about, self.tests, [Headline(test, one, *standing(one)) for test, one in self.headlines()]
        )

    def json(self, indent: int | None = 1) -> str:
        plain = {
            "version": VERSION,
            "about": dict(self.about),
            "summary": self.summary.as_dict(),
            "tests": [test.as_dict() for test in self.tests],
            "rows": list(self.rows),
        }
        return json.dumps(plain, indent=indent, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Report":
        """What `json` wrote: the same report."""
        plain = json.loads(text)
        if not isinstance(plain, dict) or plain.get("version") != VERSION or not isinstance(plain.get("tests"), list):
            raise ValueError(f"This text holds no report of version {VERSION}: expected what Report.json() writes.")
        return cls(plain["about"], [Judged.from_dict(one) for one in plain["tests"]], plain.get("rows", []))

    def html(self) -> str:
        """One page that needs nothing else: no network, no script."""
        made: str = view("report_page")(self)
        return made

    def save(self, path: "str | os.PathLike[str]") -> Path:
        """report.html, report.json or a .jsonl in ERASER's form; all three where a folder is named. Whole or not at
        all."""
        target = Path(path)
        writes = {".html": self.html, ".json": self.json, ".jsonl": self.jsonl}
        if target.suffix.lower() in writes and not target.is_dir():
            if not target.parent.is_dir():
                raise FileNotFoundError(f"save({str(path)!r}): there is no folder {str(target.parent)!r}.")
            return write_whole(target, [writes[target.suffix.lower()]().encode()])
        if target.suffix and not target.is_dir():
            raise ValueError(f"save({str(path)!r}): expected a name that ends in .html, .json or .jsonl, or a folder.")
        target.mkdir(parents=True, exist_ok=True)
        for name in (FINDINGS, RATIONALES, PAGE):
            self.save(target / name)
        return target

    def jsonl(self) -> str:
        """A line for each instance, as ERASER's benchmark reads predictions."""
        return "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in self.rows)

    def __str__(self) -> str:
        summary = self.summary
        lines = [summary.answer, *summary.cautions]
        for test in self.tests:
            lines.append(f"{test.name}: {test.left_out or test.asks}")
            lines += [f"  {one}" for one in test.findings[: test.first]]
        return "\n".join(lines)
