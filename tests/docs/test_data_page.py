"""The page about data knows every file that a loader reads."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/train/data.md").read_text(encoding="utf-8")
ROWS = [line.split("`")[1] for line in PAGE.splitlines() if line.startswith("| `")]


def alternatives(pattern: str) -> list[str]:
    """a/{b,c}.d -> a/b.d, a/c.d; <name> and {part} stand for any word."""
    found = re.search(r"\{([^{}]*,[^{}]*)\}", pattern)
    if found is None:
        return [pattern]
    return [
        one
        for each in found[1].split(",")
        for one in alternatives(pattern[: found.start()] + each + pattern[found.end() :])
    ]


def test_every_file_that_a_loader_reads_is_on_the_page():
    rows = [re.sub(r"<\w+>|\{\w+\}", "*", one) for row in ROWS for one in alternatives(row)]
    known = [re.compile(re.escape(one).replace(r"\*", r"[\w{}]+") + "$") for one in rows]
    read = {}
    for path in [*(ROOT / "src/regard/data").rglob("*.py"), *(ROOT / "src/regard/lab/data").rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        constants = dict(re.findall(r'^([A-Z_]+) = "([\w/]+)"', text, re.MULTILINE))
        for name in re.findall(r'data_file\(f?"([^"]+)"', text):
            read[re.sub(r"\{([A-Z_]+)\}", lambda found: constants[found[1]], name)] = path.name  # noqa: B023
    assert len(read) > 15
    for name, where in read.items():
        if "{" not in name:
            assert any(one.match(name) for one in known), (
                f"{where} reads {name}, and docs/train/data.md has no row of it"
            )
        else:
            folder, ending = name.partition("{")[0], name.rpartition("}")[2]
            assert any(one.startswith(folder) and one.endswith(ending) for one in rows), (where, name)
