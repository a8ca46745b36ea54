"""The tables of judge/sst.md from what `regard reproduce sst --out FOLDER` left: python docs/make_sst.py FOLDER."""

import sys
from pathlib import Path

from regard.judging.finding import Finding, from_json

PAGE = Path(__file__).parent / "judge" / "sst.md"
BEGIN, END = "<!-- findings: made by docs/make_sst.py -->", "<!-- end of findings -->"
SKIP = ("share with p", "gained over uniform")


def row(one: Finding) -> str:
    ends = "-" if one.interval is None else " to ".join(short(end) for end in one.interval)
    beside = ", ".join(f"{name} {short(value)}" for name, value in one.baselines.items() if name != "published")
    published = one.baselines.get("published")
    return f"| {one.name} | {short(one.value)} | {ends} | {'-' if published is None else short(published)} | {beside} |"


def short(value: float | None) -> str:
    return "undefined" if value is None else f"{round(value, 3) + 0.0:.3f}".replace("0.", ".", 1)


def tables(found: list[Finding]) -> str:
    lines = []
    for test in dict.fromkeys(one.test for one in found):
        some = [one for one in found if one.test == test and not any(word in one.name for word in SKIP)]
        lines += [
            f"### {test[0].upper()}{test[1:]}",
            "",
            "| what | here | interval | published | beside it |",
            "|---|---|---|---|---|",
            *map(row, some),
            "",
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    made = tables(from_json((Path(sys.argv[1]) / "findings.json").read_text()))
    PAGE.write_text(f"{before}{BEGIN}\n\n{made}\n{END}{after}")
