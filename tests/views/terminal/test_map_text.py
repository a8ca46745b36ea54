"""Maps drawn with characters: read back letter by letter."""

import io
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.cells import cell_len
from rich.console import Console

import regard
from regard.core.maps.stored import StoredMap
from regard.views.terminal import map_text
from regard.views.terminal.map_text import DENSE, RAMP, plain, row_lines

WORDS = ["[CLS]", "das", "猫猫", "é" + "́", "##ing", "\x1b[31mred", "a\nb", "unbelievably-long-token", "[SEP]"]


def head(weights, names=None) -> StoredMap:
    made = StoredMap((), torch.as_tensor(weights, dtype=torch.float32)[None])
    made.rows = made.columns = names
    return made


def recorded(layers=2, heads=3, n=9) -> regard.Record:
    torch.manual_seed(0)
    with regard.record() as rec:
        for _ in range(layers):
            q = torch.randn(1, heads, n, 4)
            torch.nn.functional.scaled_dot_product_attention(q, q, q)
    return rec


def coloured(what, width=80, **how) -> str:
    file = io.StringIO()
    Console(file=file, force_terminal=True, color_system="truecolor", width=width, **how).print(what)
    return file.getvalue()


def test_print_writes_a_letter_as_dense_as_the_root_of_each_weight():
    weights = np.array([[1.0, 0.25, 0.0], [0.04, 0.0001, 0.5]])
    first, numbers, *rows, legend = str(head(weights)).split("\n")
    assert first == "StoredMap(shape=(2, 3))" and numbers.split() == ["0", "1", "2"]
    for row, line in zip(weights, rows, strict=True):
        drawn = line.ljust(8)[2:8]
        for j, weight in enumerate(row):
            level = int(np.ceil(np.sqrt(weight) * (len(DENSE) - 1)))
            assert drawn[2 * j : 2 * j + 2] == 2 * DENSE[level]
    assert legend == f"0 [{DENSE}] 1  weight, root scale"
    assert rows[0].endswith("→ 0 1.00") and rows[1].endswith("→ 2 0.50")


def test_wide_and_hostile_names_keep_the_columns_straight():
    torch.manual_seed(0)
    text = str(head(torch.rand(9, 9).softmax(-1), WORDS))
    assert "\x1b" not in text and "·[31mred" in text and "a⏎b" in text
    body = [line for line in text.split("\n") if "→" in line]
    starts = {cell_len(line.partition("  →")[0]) for line in body}
    assert len(body) == 9 and starts == {map_text.MAX_LABEL + 1 + 18}


@pytest.mark.parametrize("width", [20, 40, 80, 132])
@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (300, 1), (9, 9), (130, 170), (1100, 1100)])
def test_nothing_is_wider_than_the_terminal(width, shape):
    amap = head(torch.rand(shape).softmax(-1))
    lines = plain(amap, width).split("\n")[1:]
    assert max(cell_len(line) for line in lines[:-1]) <= width
    assert len(lines) <= map_text.MAX_ROWS + 3


def test_a_map_larger_than_the_terminal_shows_the_largest_weight_of_each_cell():
    weights = np.full((80, 200), 0.01)
    weights[41, 117] = 1.0
    lines = str(head(weights)).split("\n")
    assert "largest weight of 2 × 6" in lines[-1]
    (line,) = [line for line in lines if "@@" in line]
    assert line.startswith("40–41") and (line.index("@@") - len("40–41") - 1) // 2 == 117 // 6


def test_in_colour_the_ground_of_a_cell_is_its_weight():
    text = coloured(head([[1.0, 0.0]]))
    grounds = re.findall(r"\x1b\[48;2;(\d+);(\d+);(\d+)m  ", text)
    ends = [tuple(str(int(colour[x : x + 2], 16)) for x in (1, 3, 5)) for colour in (RAMP[-1], RAMP[0])]
    assert grounds == ends


def test_without_colour_rich_prints_what_print_does(monkeypatch):
    amap = head(torch.rand(4, 4).softmax(-1))
    file = io.StringIO()
    Console(file=file, width=80).print(amap)
    assert [line.rstrip() for line in file.getvalue().rstrip().split("\n")] == str(amap).split("\n")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "48;2" not in coloured(amap) and "@@" in coloured(amap)


def test_a_record_draws_every_head_in_small():
    rec = recorded()
    text = str(rec)
    assert text.startswith("Record(2 maps, 0 missed)\n2 sites × 3 heads\n")
    assert re.findall(r"\d\.\d", text) == [f"{site}.{head}" for site in range(2) for head in range(3)]
    assert "▀" in coloured(rec) and max(map(cell_len, text.split("\n"))) <= 80


def test_sharp_heads_in_small_show_their_diagonal():
    text = str(StoredMap((2,), torch.eye(12).expand(2, 12, 12))).split("\n")
    tile = [line[2:14] for line in text[3:9]]
    assert tile == [" " * (2 * y) + "@@" + " " * (10 - 2 * y) for y in range(6)]


def test_a_row_has_its_largest_weights_as_bars():
    amap = head([[0.5, 0.1, 0.4]], None)
    amap.rows, amap.columns = ["it"], ["the", "cat", "sat"]
    said = [line.plain for line in row_lines(amap, 0, 2, 60, False)]
    assert said[0] == "row 0 'it' attends to" and said[1].split() == ["the", "cat", "sat"]
    assert [line.split()[:3] for line in said[3:]] == [["0.5000", "the", "0"], ["0.4000", "sat", "2"]]
    long, short = (line.count("#") for line in said[3:])
    assert short == round(0.8 * long)


def test_weights_below_zero_and_not_numbers_are_drawn():
    lines = str(head([[-1.0, float("nan"), 0.5]])).split("\n")
    assert "-@" in lines[2] and "→ 0 -1.00" in lines[2]
    assert str(StoredMap((1,), torch.zeros(1, 3, 0))) == "StoredMap(shape=(1, 3, 0))"
    assert "@" not in str(head(torch.zeros(2, 2))).split("\n", 2)[2].partition("[")[0]


def test_a_print_never_computes_a_map_of_any_size(monkeypatch):
    monkeypatch.setattr(map_text, "MAX_WEIGHTS", 100)
    amap = head(torch.rand(20, 20))
    assert str(amap).split("\n")[1].startswith("Too many weights for print(): call amap.pyramid() first")
    amap.pyramid()
    assert "root scale" in str(amap)


def test_the_page_about_terminals_shows_what_its_code_prints(capsys):
    text = (Path(__file__).parents[3] / "docs/see/terminal.md").read_text(encoding="utf-8")
    code, shown = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL).groups()
    exec(compile(code, "docs/see/terminal.md", "exec"), {})
    assert capsys.readouterr().out == shown
