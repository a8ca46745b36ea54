"""Perplexity of a language model under other alignments: the same sequences, before and after a tune."""

import gzip
import json
import math

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install 'regard[models]'")
tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed: pip install 'regard[models]'")

from typer.testing import CliRunner  # noqa: E402

from regard.cli.app import app  # noqa: E402
from regard.lab.pretrained import Survival, TuneSetting, survive  # noqa: E402
from regard.lab.pretrained.survival_figure import survival_sheet  # noqa: E402

WORDS = [f"w{i}" for i in range(20)]
SMALL = {"steps": 2, "tokens": 12, "sequences": 8, "rate": 0.01}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A random Llama with a tokeniser of words, and texts for it: (model folder, data folder)."""
    room = tmp_path_factory.mktemp("survival")
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate([*WORDS, "<unk>"])}, unk_token="<unk>")
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>").save_pretrained(room / "model")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=21, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "proj" in name:
                p.mul_(20)  # so that weights are far from even
    model.save_pretrained(room / "model")
    (room / "text").mkdir()
    draw = torch.Generator().manual_seed(1)
    for part in ("valid", "test"):
        words = [WORDS[i] for i in torch.randint(0, 20, (120,), generator=draw).tolist()]
        (room / "text" / f"wikitext2_{part}.txt.gz").write_bytes(gzip.compress(" ".join(words).encode()))
    return str(room / "model"), room


def test_a_window_as_wide_as_the_text_is_softmax_and_another_alignment_is_not(data):
    model, folder = data
    names = ("softmax", "softmax,window=12", "sparsemax")
    (softmax, wide, sparse), unigram = survive(TuneSetting(model, **SMALL), names, folder=folder)
    assert wide.before == pytest.approx(softmax.before, rel=1e-5)
    assert wide.after == pytest.approx(softmax.after, rel=1e-4)
    assert sparse.before != pytest.approx(softmax.before, rel=1e-3)
    assert softmax.before != softmax.after and len(softmax.losses) == 2
    assert wide.ratio(softmax, after=False)[0] == pytest.approx(1, rel=1e-4)
    value, ends = sparse.ratio(softmax, after=True)
    assert ends[0] < value < ends[1]
    assert softmax.perplexity(False)[0] == pytest.approx(math.exp(sum(softmax.before) / 8))
    assert 10 < unigram < 21  # about twenty words, evenly


def test_every_alignment_starts_from_the_same_weights(data):
    model, folder = data
    setting = TuneSetting(model, **SMALL)
    alone, _ = survive(setting, ("sparsemax",), folder=folder)
    second, _ = survive(setting, ("softmax", "sparsemax"), folder=folder)
    assert second[1].before == alone[0].before and second[1].after == alone[0].after


def test_what_is_written_is_not_run_again(data, tmp_path):
    model, folder = data
    setting = TuneSetting(model, **SMALL)
    first, _ = survive(setting, ("softmax",), tmp_path, folder=folder)
    (path,) = tmp_path.glob("*.json")
    stored = json.loads(path.read_text())
    path.write_text(json.dumps(stored | {"before": [1.0, 2.0, 3.0]}))
    again, _ = survive(setting, ("softmax",), tmp_path, folder=folder)
    assert again[0].before == (1.0, 2.0, 3.0) and again[0].after == first[0].after
    other, _ = survive(TuneSetting(model, **SMALL | {"steps": 0}), ("softmax",), tmp_path, folder=folder)
    assert other[0].before == first[0].before and other[0].after == ()
    path.write_text("{}")
    with pytest.raises(ValueError, match="delete it"):
        survive(setting, ("softmax",), tmp_path, folder=folder)


def test_the_command_prints_a_row_for_each_alignment(data, tmp_path, monkeypatch):
    model, folder = data
    monkeypatch.setenv("REGARD_DATA", str(folder))
    out = tmp_path / "out"
    words = ["study", "alignments", "--model", model, "--align", "softmax", "--align", "top_k=3", "--steps", "1"]
    result = CliRunner().invoke(app, [*words, "--tokens", "12", "--sequences", "3", "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert "top_k=3" in result.output and "unigram model" in result.output
    assert {path.name for path in out.glob("alignments.*")} == {"alignments.png", "alignments.md"}
    result = CliRunner().invoke(app, ["study", "alignments", "--align", "entmx15", "-o", str(out)])
    assert result.exit_code == 1 and "did you mean" in result.output


def test_the_table_has_softmax_as_the_peer():
    found = [Survival("softmax", (1.0, 2.0)), Survival("relu", (2.0, 3.0))]
    sheet = survival_sheet(found, 9.0, TuneSetting(sequences=2, steps=0))
    assert [row[0] for row in sheet.rows] == ["softmax", "relu", "unigram model"]
    assert sheet.rows[0][2] == "-" and sheet.rows[1][2].startswith("2.72") and sheet.rows[1][3] == "-"


@pytest.mark.parametrize(
    ("options", "message"),
    [({"tuned": "none"}, "'attention' or 'all'"), ({"tokens": 1}, "expected 2 or more"), ({"steps": -1}, "0 or more")],
)
def test_settings_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        TuneSetting(**options)


def test_sequences_that_would_overlap_are_refused(data):
    model, folder = data
    with pytest.raises(ValueError, match="at most 10"):
        survive(TuneSetting(model, tokens=12, sequences=11), ("softmax",), folder=folder)
