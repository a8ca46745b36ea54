"""What a file says reaches a terminal as letters: nothing of it writes a clipboard, moves a cursor or turns a line."""

import io

import pytest
import torch
from rich.progress import Progress
from rich.table import Table
from rich.text import Text
from torch.nn import functional as F
from typer.testing import CliRunner

import regard
from regard.cli.app import app
from regard.cli.output.console import Printer
from regard.cli.output.tables import table_console
from regard.core.printable import printable

CLIPBOARD = "\x1b]52;c;cm0gLXJmIH4=\x07"
EVIL = [CLIPBOARD, "\x1b[2J", "\x9b31m", "\u202etxt.exe", "\u2066", "\r", "\x08", "\x7f", "\u2028", "\ud800"]
SEEN = [
    "\\x1b]52;c;cm0gLXJmIH4=\\x07",
    "\\x1b[2J",
    "\\x9b31m",
    "\\u202etxt.exe",
    "\\u2066",
    "\\r",
    "\\x08",
    "\\x7f",
    "\\u2028",
    "\\ud800",
]
OBEYED = set("\x1b\x07\x9b\u202e\u2066\r\x08\x7f\u2028\ud800")


@pytest.mark.parametrize(("text", "seen"), zip(EVIL, SEEN, strict=True), ids=ascii)
def test_control_characters_are_escapes(text, seen):
    assert printable(f"a{text}b") == f"a{seen}b"
    out = io.StringIO()
    Printer(file=out, width=60).print(f"a{text}b", highlight=False, markup=False)
    assert not OBEYED & set(out.getvalue())


def test_letters_of_all_scripts_stay_and_lines_where_they_are_asked_for():
    for text in ("été [bold] 猫 नमस्ते 👩‍🔬 שלום", "a\\x1b"):
        assert printable(text) == text
    assert printable("a\nb\tc") == "a\\nb\\tc" and printable("a\nb\tc", lines=True) == "a\nb\\tc"


def test_tables_keep_their_lines_and_a_bar_its_cursor():
    out = io.StringIO()
    console = Printer(file=out, width=60, force_terminal=True, color_system="truecolor")
    table = Table("name")
    table.add_row(Text(CLIPBOARD, "bold"))
    table.add_row("two\nlines")
    console.print(table)
    with Progress(console=console) as bar:
        bar.add_task(CLIPBOARD, total=2)
    assert CLIPBOARD not in out.getvalue() and "\\x1b]52" in out.getvalue()
    assert "two" in out.getvalue() and "\\n" not in out.getvalue()
    assert "\x1b[?25l" in out.getvalue() and "\x1b[1m" in out.getvalue(), "what the console itself says passes"


@pytest.fixture
def evil(tmp_path):
    """A record whose every string is a sequence that a terminal obeys."""
    rec = regard.Record()
    for keep in ("qk", "stats"):
        with regard.record(keep=keep) as some:
            F.scaled_dot_product_attention(*torch.randn(3, 1, 2, 4, 8))
        for amap in some.maps.values():
            rec.maps._by_site[f"{CLIPBOARD}.layer.0"] = amap
        rec.stats.update({f"{CLIPBOARD}.stats": one for one in some.stats.values()})
    rec.about = {CLIPBOARD: CLIPBOARD, "name": "\u202e\x9b31m", "parameters": 3}
    rec.made, rec.missed[CLIPBOARD] = {CLIPBOARD: CLIPBOARD}, 2
    rec.label(tokens=["\x1b[2J", "\n", CLIPBOARD, "\u202ed"])
    return rec.save(tmp_path / "evil\x1b[2J.regard")


@pytest.mark.parametrize("command", ["info", "show", "show --head 0.1", "show --head 0.1 --row 2", "show --head 7.9"])
def test_no_string_of_a_record_is_obeyed_by_the_terminal(evil, command):
    name, *options = command.split()
    told = CliRunner().invoke(app, [name, str(evil), *options], env={"COLUMNS": "100", "TERM": "dumb"})
    assert not OBEYED & set(told.output), ascii(told.output)
    assert told.exit_code == (1 if "7.9" in command else 0) and (command == "show" or "\\x1b" in told.output)


def test_a_sentence_about_a_file_is_not_obeyed(evil, tmp_path):
    evil.write_bytes(b"no record")
    told = CliRunner().invoke(app, ["info", str(evil)], env={"TERM": "dumb"})
    assert told.exit_code == 1 and "is not a record" in " ".join(told.output.split())
    assert not OBEYED & set(told.output)


def test_sheets_of_studies_are_not_obeyed(monkeypatch, capsys):
    from regard.cli.output.tables import table_of
    from regard.studies.report import Sheet

    table_console().print(table_of(Sheet(CLIPBOARD, (CLIPBOARD, "mean"), ((CLIPBOARD, "0.5"),)), 80))
    said = capsys.readouterr().out
    assert "\\x1b]52" in said and not OBEYED & set(said)
