"""The command `regard`, as someone types it."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
from tests.small_models import saved
from typer.testing import CliRunner

import regard
from regard.cli.app import app


def call(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_the_version_is_that_of_the_package():
    result = call("--version")
    assert result.exit_code == 0
    assert result.output.strip() == f"regard {regard.__version__}"


def test_out_that_is_a_file_is_refused_before_anything_is_trained(tmp_path: Path):
    taken = tmp_path / "taken"
    taken.write_text("mine")
    result = call("demo", "--out", str(taken))
    assert result.exit_code == 1
    assert "is a file" in result.output and "name a folder" in result.output
    assert taken.read_text() == "mine"


def test_a_missing_extra_is_named_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    for name in [name for name in sys.modules if name.startswith(("regard.lab.demo", "sklearn."))]:
        monkeypatch.delitem(sys.modules, name)
    result = call("demo")
    assert result.exit_code == 1
    assert "pip install 'regard[demo]'" in result.output


def test_no_seeds_are_refused():
    assert call("demo", "--seeds", "0").exit_code == 2


# records


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A small model and its tokenizer, as save_pretrained leaves them."""
    return saved(tmp_path_factory.mktemp("model") / "small-bert")


def test_record_writes_a_file_and_info_tells_what_is_in_it(folder, tmp_path):
    out = tmp_path / "run.regard"
    result = call("record", str(folder), "A cats sat.", "-o", str(out), "--store", "bfloat16")
    assert result.exit_code == 0, result.output
    rec = regard.load(out)
    assert rec.maps["*layer.1.*"].rows == ["[CLS]", "A", "cat", "s", "sat", ".", "[SEP]"]
    assert rec.about["name"] == "small-bert"
    told = call("info", str(out)).output
    words = (
        "encoder.layer.0",
        "1 x 2 x 7 x 7",
        "bf16",
        "BertModel",
        "nothing",
        "weights differ by up to",
        "transformers",
    )
    for word in words:
        assert word in told, word


def test_a_text_file_that_is_too_long_is_cut_and_said_so(folder, tmp_path):
    (tmp_path / "long.txt").write_text("a cat sat. " * 20, encoding="utf-8")
    result = call("record", str(folder), "--file", str(tmp_path / "long.txt"), "-o", str(tmp_path / "x.regard"))
    assert result.exit_code == 0 and "the first 12 of 82 tokens" in result.output
    (first, *_) = regard.load(tmp_path / "x.regard").maps.values()
    assert first.n == 12 and len(first.rows) == 12


def test_look_writes_one_page_that_is_safe_and_fetches_nothing(folder, tmp_path):
    out = tmp_path / "look.html"
    result = call("look", str(folder), "a cat </script> sat", "-o", str(out))
    assert result.exit_code == 0, result.output
    assert result.output.strip().splitlines()[-1] == str(out.resolve())
    page = out.read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script>"), "the text must not end the script"
    assert not re.search(r"(src|href)=[\"']?(https?:)?//|@import|fetch\(", page)
    assert "default-src 'none'" in page
    data = json.loads(re.search(r'id="regard-data">(.*?)</script>', page, re.DOTALL)[1])
    assert [site["site"] for site in data["sites"]] == [f"encoder.layer.{i}.attention.self" for i in (0, 1)]
    assert data["sites"][0]["rows"][3:6] == ["<", "/", "script"]


def test_look_sets_another_text_beside(folder, tmp_path):
    out = tmp_path / "look.html"
    result = call("look", str(folder), "a cat sat", "--beside", "a cat cat sat", "-o", str(out))
    assert result.exit_code == 0, result.output
    text = out.read_text(encoding="utf-8")
    assert '"names":["first","second"]' in text and re.search(r'"beside":\{"other":.*?"rows":"[=~+-]+"', text)


def test_look_ends_with_what_stands_out_and_opens_the_page_when_asked(folder, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    out = tmp_path / "look.html"
    said = " ".join(call("look", str(folder), "a cat sat . a cat sat", "-o", str(out)).output.split())
    assert "4 heads at 2 sites, 9 tokens. What stands out is head " in said and "--open does it" in said and not opened
    assert call("look", str(folder), "a cat", "-o", str(out), "--open").exit_code == 0
    assert opened == [out.resolve().as_uri()]


def test_what_stands_out_is_the_largest_weight_of_the_head_that_looks_farthest():
    q, k = torch.zeros(1, 2, 7, 7), torch.eye(7).repeat(1, 2, 1, 1)
    q[0, 1, 1, 5], q[0, 0, :, 0] = 30.0, 30.0  # head 1: token 1 to token 5; head 0: all to the first
    with regard.record() as rec:
        torch.nn.functional.scaled_dot_product_attention(q, k, k)
    rec.label(tokens=list("abcdefg"))
    from regard.views.terminal.what_stands_out import describe_record

    said = describe_record(rec)
    assert "head 0.1, where “b” attends to “f” with 1.00" in said, said
    assert "1 head puts most of its weight on the first token" in said


def test_a_pair_of_sentences_is_read_as_one_input(folder, tmp_path):
    out = tmp_path / "pair.regard"
    result = call("record", str(folder), "a cat", "--pair", "sat .", "-o", str(out))
    assert result.exit_code == 0, result.output
    names = list(next(iter(regard.load(out).maps.values())).rows)
    assert [name.strip() for name in names] == ["[CLS]", "a", "cat", "[SEP]", "sat", ".", "[SEP]"]


def test_what_the_decoder_reads_attends_to_the_source(tmp_path):
    """--pair of an encoder-decoder: cross-attention from the second text to the first."""
    transformers = pytest.importorskip("transformers")
    from tests.small_models import WORDS, tokenizer

    from regard.recording.pretrained import record_run

    config = transformers.BartConfig(
        vocab_size=len(WORDS), d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=16,
        pad_token_id=0, bos_token_id=2, eos_token_id=3, decoder_start_token_id=3, forced_eos_token_id=3,
    )  # fmt: skip
    model = transformers.BartForConditionalGeneration(config).eval()
    rec, _ = record_run(model, tokenizer(), "a cat sat .", "bart", pair="cat sat")
    (cross,) = (amap for site, amap in rec.maps.items() if "encoder_attn" in site)
    assert (cross.n, cross.m) == (4, 6)
    assert [name.strip() for name in cross.rows] == ["[CLS]", "cat", "sat", "[SEP]"]
    assert [name.strip() for name in cross.columns] == ["[CLS]", "a", "cat", "sat", ".", "[SEP]"]


@pytest.fixture(scope="module")
def vision(tmp_path_factory) -> Path:
    """A small vision transformer with its image processor."""
    transformers = pytest.importorskip("transformers")
    place = tmp_path_factory.mktemp("model") / "small-vit"
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, image_size=32, patch_size=8
    )
    transformers.ViTModel(config).save_pretrained(place)
    how = {"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}, "do_resize": True}
    (place / "preprocessor_config.json").write_text(json.dumps(how))
    return place


def test_look_draws_the_attention_of_a_picture(vision, folder, tmp_path):
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "page.png").write_text("<html>")
    image.new("RGB", (40, 20), (200, 10, 10)).save(tmp_path / "red.png")
    out = tmp_path / "look.html"
    result = call("look", str(vision), str(tmp_path / "red.png"), "-o", str(out), "--dtype", "bfloat16")
    assert result.exit_code == 0, result.output
    page = json.loads(re.search(r'id="regard-data">(.*?)</script>', out.read_text(), re.DOTALL)[1])
    assert page["image"]["grid"] == [4, 4] and page["image"]["skip"] == 1 and len(page["sites"]) == 2
    for arguments, says in (
        ((str(vision), str(tmp_path / "none.png")), "There is no image"),
        ((str(vision), str(tmp_path / "page.png")), "is no picture that can be read"),
        ((str(vision), "some text"), "give it the name of a picture's file"),
        ((str(folder), str(tmp_path / "red.png")), "reads no pictures: give it a text"),
        ((str(vision), str(tmp_path / "red.png"), "--generate", "3"), "leave out --generate"),
    ):
        said = call("look", *arguments, "-o", str(out))
        assert said.exit_code == 1 and says in " ".join(said.output.split()), said.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("look", "{folder}", "a", "--device", "gpu"), "expected cpu, cuda"),
        (("look", "{folder}", "a", "--device", "cuda:99"), "Leave --device out"),
        (("look", "{folder}", "a", "--pair", "cat", "--generate", "2"), "leave out --generate, or --pair"),
        (("look", "./nowhere-at-all/model", "text"), "There is no folder"),
        (("look", "{folder}", ""), "The text is empty"),
        (("look", "{folder}"), "give either a text"),
        (("look", "{folder}", "a", "--file", "x.txt"), "give either a text"),
        (("look", "{folder}", "a cat", "--sites", "nothing.*"), "No attention was recorded"),
        (("look", "{folder}", "a cat", "-o", "/nowhere-at-all/page.html"), "There is no folder"),
        (("look", "{folder}", "a cat", "--generate", "3"), "does not generate text"),
        (("look", "{folder}", "a cat", "-o", "{folder}"), "is a folder; name a file"),
        (("record", "{folder}", "--file", "nowhere.txt"), "nowhere.txt"),
        (("info", "nowhere.regard"), "nowhere.regard"),
        (("info", "{folder}/config.json"), "is not a record: it is a JSON text"),
    ],
)
def test_what_can_be_put_right_is_said_in_a_sentence(folder, arguments, says):
    result = call(*(argument.format(folder=folder) for argument in arguments))
    assert result.exit_code == 1, result.output
    assert says in " ".join(result.output.split()) and "Traceback" not in result.output


def test_code_that_comes_with_a_model_does_not_run_unasked(folder, tmp_path):
    bad = tmp_path / "own-code"
    shutil.copytree(folder, bad)
    config = json.loads((bad / "config.json").read_text()) | {
        "model_type": "own",
        "auto_map": {"AutoConfig": "own.Own"},
    }
    (bad / "config.json").write_text(json.dumps(config))
    (bad / "own.py").write_text("raise SystemExit('code ran')")
    result = call("look", str(bad), "a cat")
    assert result.exit_code == 1 and "--trust-remote-code" in result.output and "code ran" not in result.output


def test_a_model_from_a_package_is_found_without_importing_it(tmp_path, monkeypatch, folder):
    package = tmp_path / "some_weights"
    shutil.copytree(folder, package / "inside")
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    from regard.recording.pretrained import where

    assert where("some-weights") == (str(package / "inside"), {})


def test_show_draws_all_heads_one_head_or_one_row(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    torch.manual_seed(0)
    with regard.record() as rec:
        for _ in range(2):
            q = torch.randn(1, 3, 4, 4)
            torch.nn.functional.scaled_dot_product_attention(q, q, q)
    file = str(rec.label(tokens=["one", "two", "three", "four"]).save(tmp_path / "run.regard"))
    assert "2 sites × 3 heads" in call("show", file).output
    head = call("show", file, "--head", "1.2").output
    w = list(rec.maps.values())[1].weights()[0, 2]
    assert f"→ {['one', 'two', 'three', 'four'][int(w[0].argmax())]} {float(w[0].max()):.2f}" in head
    row = call("show", file, "--head", "1.2", "--row", "3", "--top", "2").output
    assert [line.split()[0] for line in row.splitlines() if "#" in line] == [f"{x:.4f}" for x in w[3].topk(2).values]
    for wrong, said in (
        (["--head", "1.3"], "has 3 heads"),
        (["--head", "7.0"], "0 sites fit '7'"),
        (["--row", "1"], "--row needs --head"),
        (["--head", "1.2", "--row", "4"], "has 4 rows"),
        (["--head", "x"], "expected SITE.HEAD"),
        (["--item", "1"], "this batch has 1 items"),
    ):
        result = call("show", file, *wrong)
        assert result.exit_code == 1 and said in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("page.html", "<html></html>", "a page: open it in a browser"),
        ("page", "<!DOCTYPE html>\n<p>", "a page: open it in a browser"),
        ("study.toml", "name = 'x'\n", "`regard study run`"),
        ("store.sqlite", "SQLite format 3\0", "`regard study status FOLDER`"),
        ("last.safetensors", "x" * 99, "`regard judge` takes the folder"),
        ("notes", "Attention, looked at.", "it is a text"),
        ("[bold].zip", "PK", "a zip archive"),
        ("runs", None, "a folder."),
    ],
)
@pytest.mark.parametrize("command", ["info", "show"])
def test_a_file_that_is_no_record_is_told_with_what_it_is_and_what_to_type(command, name, content, says, tmp_path):
    path = tmp_path / "folder" / name
    path.parent.mkdir()
    path.mkdir() if content is None else path.write_text(content)
    said = call(command, str(path))
    assert said.exit_code == 1 and said.exception.__class__ is SystemExit
    told = said.output.replace("\n", "")
    assert f"{path} is not a record: " in told and says in told and "regard record minilm" in told
    assert "header" not in told


def test_a_record_that_is_damaged_or_not_there_is_told_as_such(tmp_path):
    (tmp_path / "run.regard").write_bytes(bytes(range(200, 255)))
    assert "cannot be read as a record" in call("info", str(tmp_path / "run.regard")).output
    assert f"-o {tmp_path / 'none.regard'}" in call("info", str(tmp_path / "none.regard")).output.replace("\n", "")
