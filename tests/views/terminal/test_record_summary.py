"""What a page and the terminal say of a record in one line."""

import io

import torch
from rich.console import Console
from torch import nn

from regard import load, record
from regard.recording.missed import Missed
from regard.views.terminal.record_summary import print_summary, record_facts
from regard.views.terminal.terminal_show import show_record


def a_record():
    layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True).eval()
    with torch.no_grad(), record(layer) as rec:
        layer(torch.randn(1, 3, 8))
    return rec


def test_a_record_of_which_nothing_is_missing_says_so():
    assert "nothing missed" in record_facts(a_record())


def test_calls_that_were_not_recorded_are_counted_with_their_reasons_and_lines():
    rec = a_record()
    rec.missed[Missed("softmax", "inside a transform", "layers.0", "model.py", 12)] += 2
    assert "2 calls not recorded: layers.0: softmax: inside a transform (model.py:12)" in record_facts(rec)
    for i in range(3):
        rec.missed[Missed("softmax", "another", f"layers.{i + 1}", "model.py", 12)] += 1
    assert "5 calls not recorded: " in record_facts(rec) and record_facts(rec).endswith("; and 1 more")


def test_a_text_that_is_cut_is_in_the_head_of_every_page():
    rec = a_record()
    rec.about["read"] = "the first 512 of 1,802 tokens"
    assert record_facts(rec).endswith("read the first 512 of 1,802 tokens: the model reads no more")


def test_the_terminal_shows_what_was_missed_with_its_line(tmp_path):
    rec = a_record()
    rec.missed[Missed("softmax", "inside a transform", "layers.0", "model.py", 12)] += 2
    file = rec.save(tmp_path / "run.regard")
    (entry,) = load(file).missed
    assert (entry.site, entry.operator, entry.file, entry.line) == ("layers.0", "softmax", "model.py", 12)
    for show in (print_summary, show_record):
        shown = Console(file=io.StringIO(), width=200)
        show(file, shown)
        assert "layers.0: softmax: inside a transform (model.py:12) (2)" in shown.file.getvalue()
