"""A user's own files, as someone types it: trained on, judged, moved, changed."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from regard.cli.app import app
from regard.models import open_run

pytest.importorskip("sklearn")
pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

WORDS = {"good": ("lovely", "great", "warm"), "bad": ("dull", "awful", "weak")}


def call(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def done(*arguments):
    said = call(*arguments)
    assert said.exit_code == 0, said.output
    return said


def refused(*arguments):
    said = call(*arguments)
    assert said.exit_code == 1 and "Traceback" not in said.output
    return " ".join(said.output.split())


def lines(rationale=False):
    """24 texts: one word decides."""
    rows = [(word, label, place) for label, words in WORDS.items() for word in words for place in range(4)]
    made = []
    for word, label, place in rows:
        text = ["a", "film", "we", "saw"]
        text.insert(place, word)
        row = {"text": " ".join(text) + ".", "label": label}
        made.append(json.dumps(row | ({"rationale": [[place, place + 1]]} if rationale else {})))
    return "\n".join(made)


@pytest.fixture
def texts(tmp_path, monkeypatch):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    (tmp_path / "mine.jsonl").write_text(lines(rationale=True))
    return tmp_path / "mine.jsonl"


@pytest.fixture
def run(texts, tmp_path):
    done("train", "classification", "--data", texts, "--small", "--seeds", 1, "--alone", "--out", tmp_path / "run")
    return tmp_path / "run"


def judged(tmp_path, *arguments):
    return json.loads(done("judge", *arguments, "-o", tmp_path / "report", "--json").stdout)


def test_a_run_on_own_texts_is_judged_on_its_test_part_with_their_words_and_marks(run, tmp_path):
    report = judged(tmp_path, run, "--tests", "task,rationales")
    trained = json.loads((run / "results.json").read_text())["rows"][0]["runs"][0]
    accuracy = next(one for one in report["tests"][0]["findings"] if one["name"] == "accuracy")
    assert accuracy["value"] == trained["accuracy"] and {"rationale", "marked"} <= trained.keys()
    assert report["about"]["classes"] == ["bad", "good"] and len(report["rows"]) == 4
    assert not report["tests"][1]["left_out"]
    weights = [len(row["rationales"][0]["soft_rationale_predictions"]) for row in report["rows"]]
    assert weights == [5] * 4  # words of the file: the full stop is a piece of the last


def test_a_file_that_was_moved_is_found_by_its_content_and_one_that_was_changed_is_refused(run, texts, tmp_path):
    before = judged(tmp_path, run, "--tests", "task")
    moved = texts.rename(tmp_path / "elsewhere.jsonl")
    assert f"was trained on {texts}, which no longer exists" in refused("judge", run, "-o", tmp_path / "r")
    assert judged(tmp_path, run, "--data", moved, "--tests", "task")["tests"] == before["tests"]
    assert open_run(run, data=str(moved)).task.texts
    moved.write_text(lines())
    assert "has different content" in refused("judge", run, "--data", moved, "-o", tmp_path / "r")
    texts.write_text(lines())
    assert "whose content has changed since" in refused("judge", run, "-o", tmp_path / "r")
    again = ("train", "classification", "--data", texts, "--small", "--seeds", 1, "--alone", "--out", run)
    assert "has a run on a different version" in refused(*again)


def test_a_run_on_own_texts_judges_other_texts_by_the_names_of_their_classes(run, tmp_path):
    (tmp_path / "other.csv").write_text("text,label\nA great film.,good\nAn awful film.,bad\n")
    assert len(judged(tmp_path, run, "--data", tmp_path / "other.csv", "--tests", "task")["rows"]) == 2
    (tmp_path / "other.csv").write_text("text,label\nA great film.,fine\n")
    said = refused("judge", run, "--data", tmp_path / "other.csv", "-o", tmp_path / "r")
    assert "has the class 'fine', which classification does not have: expected bad, good" in said
    for other in ("bad", "awful"):  # as many classes, of which one has another name, or both
        (tmp_path / "other.csv").write_text(f"text,label\nA great film.,fine\nAn awful film.,{other}\n")
        said = refused("judge", run, "--data", tmp_path / "other.csv", "-o", tmp_path / "r")
        assert "has the class" in said and "expected bad, good" in said


def test_classes_that_are_numbers_keep_their_numbers_in_other_texts(texts, tmp_path):
    """Class 7 is the second class of the model, and still 7 in a file that has it alone."""
    texts.write_text(lines().replace('"bad"', "3").replace('"good"', "7"))
    done("train", "classification", "--data", texts, "--small", "--seeds", 1, "--alone", "--out", tmp_path / "run")
    (tmp_path / "other.csv").write_text("text,label\nA great film we saw.,7\n")
    report = judged(tmp_path, tmp_path / "run", "--data", tmp_path / "other.csv", "--tests", "task")
    assert report["about"]["classes"] == ["3", "7"]
    assert report["tests"][0]["findings"][0]["value"] == 1


def test_reading_times_are_judged_and_measured(texts, run, tmp_path):
    rows = [f"{i},{word},{len(word)}" for i in range(6) for word in ("We", "saw", "a", "lovely", "film", "today.")]
    times = tmp_path / "times.csv"
    times.write_text("sentence,word,time\n" + "\n".join(rows))
    (test,) = judged(tmp_path, run, "--data", times, "--tests", "reading")["tests"]
    rank = test["findings"][0]
    assert rank["n"] == 6 and rank["baselines"]["word length"] == pytest.approx(1, abs=0.2)
    said = done("train", "classification", "--data", texts, "--reading", times, "--small", "--seeds", 1, "--json")
    rows = json.loads(said.stdout)["rows"]
    assert rows[0]["runs"][0]["reading"] == pytest.approx(rank["value"])
    assert "reading" not in rows[2]["runs"][0]  # without attention there is nothing to compare


def test_own_pairs_are_translated_and_their_links_judged(tmp_path):
    words = ["a", "b", "c", "d", "e", "f"]
    pairs = [(words[i % 6], words[(i // 6) % 6]) for i in range(36)]
    (tmp_path / "pairs.txt").write_text("".join(f"{x} {y} ||| {y}{y} {x}{x}\n" for x, y in pairs))
    (tmp_path / "gold.txt").write_text("2-1 1p2\n" * 36)
    done(
        *("train", "translation", "--data", tmp_path / "pairs.txt", "--gold", tmp_path / "gold.txt", "--first", 1),
        *("--small", "--seeds", 1, "--alone", "--out", tmp_path / "run"),
    )
    trained = json.loads((tmp_path / "run" / "results.json").read_text())
    report = judged(tmp_path, tmp_path / "run", "--tests", "alignment,translation")
    found = {one["name"]: one for test in report["tests"] for one in test["findings"]}
    assert found["alignment error rate"]["value"] == pytest.approx(100 * trained["rows"][0]["runs"][0]["aer"])
    assert found["BLEU"]["value"] == pytest.approx(trained["rows"][0]["runs"][0]["bleu"])


def graph(path, **other):
    draw = np.random.default_rng(0)
    y = np.arange(40) % 2
    pairs = draw.integers(40, size=(2, 200))
    edges = pairs[:, y[pairs[0]] == y[pairs[1]]]
    found = {"x": draw.normal(size=(40, 4)), "edge_index": np.concatenate([edges, edges[::-1]], 1), "y": y}
    np.savez(path, **(found | other))


def test_an_own_graph_is_trained_judged_moved_and_refused_once_it_has_changed(tmp_path):
    mine = tmp_path / "mine.npz"
    graph(mine)
    done("train", "gat", "--data", mine, "--seeds", 1, "--alone", "--out", tmp_path / "run", "--split", 2)
    before = judged(tmp_path, tmp_path / "run", "--tests", "task")
    moved = mine.rename(tmp_path / "moved.npz")
    assert "--data FILE" in refused("judge", tmp_path / "run", "-o", tmp_path / "r")
    assert judged(tmp_path, tmp_path / "run", "--data", moved, "--tests", "task")["tests"] == before["tests"]
    graph(mine, x=np.zeros((40, 4)))
    assert "whose content has changed" in refused("judge", tmp_path / "run", "-o", tmp_path / "r")


@pytest.mark.slow
def test_a_graph_of_types_is_trained_and_its_gat_judged(tmp_path):
    y = np.arange(40) % 2
    links = np.stack([np.arange(40), np.arange(40) % 10])
    arrays = {"x/p": np.random.default_rng(0).normal(size=(40, 3)), "num_nodes/a": np.array(10), "y/p": y}
    np.savez(tmp_path / "t.npz", **arrays, **{"edge_index/p/by/a": links})
    kinds = ("--kind", "gat", "--kind", "han", "--metapath", "p/by/a/rev_by/p")
    done("train", "hetero", "--data", tmp_path / "t.npz", *kinds, "--seeds", 1, "--out", tmp_path / "run", "--json")
    report = judged(tmp_path, tmp_path / "run" / "gat-0", "--tests", "task,fidelity")
    assert not any(test["left_out"] for test in report["tests"])
    assert "Networks of the kind han cannot be judged" in refused(
        "judge", tmp_path / "run" / "han-0", "-o", tmp_path / "r"
    )


def test_a_study_finds_data_beside_its_file_and_does_not_go_on_with_other_content(texts, tmp_path, monkeypatch):
    pytest.importorskip("sqlalchemy")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "s.toml").write_text(
        'name = "s"\nseeds = 1\nvariants = ["additive"]\n[[tasks]]\ntask = "classification"\nsmall = true\n'
        'options = {data = "../mine.jsonl"}\n[budget]\nepochs = 1\n'
    )
    run = ("study", "run", tmp_path / "sub" / "s.toml", "--out", tmp_path / "out", "--workers", 1, "--quiet", "--json")
    found = json.loads(done(*run).stdout)
    assert found["rows"]
    texts.write_text(lines())
    assert "has changed since this study began" in refused("study", "resume", tmp_path / "out", "--quiet")
    assert "is in this store with another content of" in refused(*run)
    texts.unlink()
    assert "there is no such file" in refused(*run)


def photographs(folder, count):
    """Grey images with a red spot, at which two people look."""
    image = pytest.importorskip("PIL.Image")
    draw, rows = np.random.default_rng(0), ["image,x,y,observer"]
    folder.mkdir()
    for i in range(count):
        x, y = draw.integers(8, 56, 2)
        pixels = draw.integers(90, 110, (64, 64, 3)).astype(np.uint8)
        pixels[y - 4 : y + 4, x - 4 : x + 4] = (250, 30, 30)
        image.fromarray(pixels).save(folder / f"{i}.png")
        rows += [f"{i}.png,{x + a},{y + b},{who}" for who in "ab" for a, b in draw.integers(-4, 5, (4, 2))]
    (folder / "fixations.csv").write_text("\n".join(rows))
    return folder


def test_attention_is_taught_by_own_fixations_and_judged_by_them(tmp_path):
    mine = photographs(tmp_path / "photos", 24)
    done("train", "fixations", "--data", mine, "--seeds", 1, "--out", tmp_path / "run")
    trained = json.loads((tmp_path / "run" / "results.json").read_text())
    report = judged(tmp_path, tmp_path / "run")
    (test,) = [one for one in report["tests"] if not one["left_out"]]
    found = {one["name"]: one for one in test["findings"]}
    assert test["name"] == "fixations" and report["about"]["unit"] == "photographs"
    assert report["summary"]["answer"].startswith("That cannot be said") and report["about"]["instances"] == 9
    for name, value in trained["rows"][0]["runs"][0].items():
        assert found[name]["value"] == pytest.approx(value, rel=1e-5), name
    beside = {row["says"]: row["runs"][0]["NSS"] for row in trained["baselines"]}
    assert beside == pytest.approx({name: found["NSS"]["baselines"][name] for name in beside})
    assert found["NSS"]["value"] > beside["other photographs"] and found["NSS"]["baselines"]["people"] > 0
    moved = mine.rename(tmp_path / "moved")
    assert "--data FILE" in refused("judge", tmp_path / "run", "-o", tmp_path / "r")
    assert judged(tmp_path, tmp_path / "run", "--data", moved)["tests"] == report["tests"]
    (moved / "fixations.csv").write_text("image,x,y\n0.png,1,1\n")
    assert "has different content" in refused("judge", tmp_path / "run", "--data", moved, "-o", tmp_path / "r")
    assert "has 1 photographs: expected 8 or more" in refused("train", "fixations", "--data", moved)


@pytest.mark.slow
def test_a_study_takes_graphs_of_types_and_photographs_of_ones_own(tmp_path):
    pytest.importorskip("sqlalchemy")
    Image = pytest.importorskip("PIL.Image")
    y, draw = np.arange(30) % 2, np.random.default_rng(0)
    links = {"num_nodes/a": np.array(6), "edge_index/p/by/a": np.stack([np.arange(30), np.arange(30) % 6])}
    np.savez(tmp_path / "t.npz", **links, **{"x/p": draw.normal(size=(30, 3)), "y/p": y})
    (tmp_path / "photos").mkdir()
    rows = ["image,x,y,observer"]
    for i in range(8):
        Image.fromarray(draw.integers(0, 255, (64, 64, 3)).astype(np.uint8)).save(tmp_path / "photos" / f"{i}.png")
        rows += [f"{i}.png,{x},{y},{who}" for who in "ab" for x, y in draw.integers(0, 64, (4, 2))]
    (tmp_path / "photos" / "fixations.csv").write_text("\n".join(rows))
    for task, options, variants, measure in (
        ("hetero", 'data = "t.npz", metapaths = ["p/by/a/rev_by/p"]', '"gat", "han"', "accuracy"),
        ("scenes", 'data = "./photos", parts = 2', '"attention", "picture"', "NSS"),
        ("fixations", 'data = "./photos"', '"attention", "picture"', "NSS"),
    ):
        (tmp_path / f"{task}.toml").write_text(
            f'name = "{task}"\nseeds = 1\nvariants = [{variants}]\n[[tasks]]\ntask = "{task}"\n'
            f"options = {{{options}}}\n[budget]\nepochs = 1\n"
        )
        run = ("study", "run", tmp_path / f"{task}.toml", "--out", tmp_path / task, "--workers", 1, "--quiet", "--json")
        found = json.loads(done(*run).stdout)
        assert {row["metric"] for row in found["rows"]} >= {measure}, found["rows"][0].keys()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["train", "classification", "--data", "none.csv"], "there is no such file"),
        (["train", "gat", "--data", "imdb"], "expected one of cora, citeseer, pubmed, or the path of an .npz file"),
        (["train", "tu", "--data", "AIDS"], "expected one of MUTAG"),
        (["train", "tu", "--data", "./AIDS"], "there is no such file"),
        (["train", "hetero", "--data", "a.npz"], "there is no such file"),
        (["judge", "align", "--gold", "a", "--hypothesis", "b"], "there is no such file"),
        (["people", "reading", "--data", "a.csv"], "there is no such file"),
        (["people", "scenes", "--data", "./a"], "there is no such file"),
        (["train", "fixations", "--data", "a"], "there is no such file"),
    ],
)
def test_a_path_that_leads_nowhere_is_a_sentence(tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(*arguments)


def test_links_are_judged_and_a_model_called_align_is_still_a_model(tmp_path, monkeypatch):
    (tmp_path / "gold").write_text("0-0 1p1\n0-0\n")
    (tmp_path / "mine").write_text("0-0 1-1\n0-1\n")
    said = done("judge", "align", "--gold", tmp_path / "gold", "--hypothesis", tmp_path / "mine", "--json")
    found = {one["name"]: one for one in json.loads(said.stdout)["findings"]}
    assert found["alignment error rate"]["value"] == pytest.approx(100 * (1 - 3 / 5))
    assert found["precision"]["value"] == pytest.approx(200 / 3) and found["recall"]["value"] == 50
    assert {"diagonal", "random"} == found["recall"]["baselines"].keys()
    monkeypatch.chdir(tmp_path)
    assert "is not a run of regard train" in refused("judge", "./align")
