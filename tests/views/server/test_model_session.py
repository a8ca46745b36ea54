"""A model that reads what is typed: its changes are those of regard.intervene, its output that of the model."""

import threading

import pytest
import torch
from tests import small_models
from torch.nn import functional as F

import regard
from regard.interventions import MaskTokens, Uniform
from regard.views.server.jobs import Job
from regard.views.server.model_session import Change, ModelSession
from regard.views.server.output_diff import model_output, output_diff

TEXT = "a cat sat. a script"  # [CLS] a cat sat . a script [SEP]


def job() -> Job:
    return Job("model", ("x",), "Reading", lambda _: None)


def live(kind: str = "BertModel", **sizes) -> ModelSession:
    return ModelSession("small", small_models.model(kind, **sizes), small_models.tokenizer())


def run(one: ModelSession, text: str = TEXT):
    with torch.no_grad():
        inputs = one.tokenizer(text, return_tensors="pt")
        if "Bert" not in type(one.model).__name__:
            inputs.pop("token_type_ids", None)
        return one.model(**inputs)


def test_as_it_is_the_model_gives_what_it_gives_alone():
    one = live()
    before, after = one.run(TEXT, (), job())
    assert after is None
    assert torch.equal(before.output.rows, run(one).last_hidden_state[0])


def test_a_masked_token_is_seen_by_nobody_and_the_output_is_that_of_intervene():
    one = live()
    before, after = one.run(TEXT, (Change(token=2),), job())
    with regard.intervene(one.model, MaskTokens([2])):
        expected = run(one).last_hidden_state[0]
    torch.testing.assert_close(after.output.rows, expected)
    for amap in after.rec.maps.values():
        assert torch.equal(amap.weights()[..., 2], torch.zeros(1, 2, 8))
        torch.testing.assert_close(amap.weights().sum(-1), torch.ones(1, 2, 8))
    assert not torch.allclose(before.output.rows, after.output.rows)


def test_a_uniform_head_is_that_head_of_that_site_alone():
    one = live()
    site = "encoder.layer.1.attention.self"
    before, after = one.run(TEXT, (Change(site=site, head=1),), job())
    torch.testing.assert_close(after.rec.maps[site].weights()[0, 1], torch.full((8, 8), 1 / 8))
    torch.testing.assert_close(after.rec.maps[site].weights()[0, 0], before.rec.maps[site].weights()[0, 0])
    with regard.intervene(one.model, {site: Uniform()}, heads=[1]):
        torch.testing.assert_close(after.output.rows, run(one).last_hidden_state[0])


def test_changes_stack_and_taking_one_back_gives_what_was_before_it():
    one = live()
    first, second = Change(token=2), Change(site="encoder.layer.0.attention.self", head=0)
    once = one.run(TEXT, (first,), job())[1]
    twice = one.run(TEXT, (first, second), job())[1]
    with regard.intervene(one.model, MaskTokens([2])), regard.intervene(one.model, {second.site: Uniform()}, heads=[0]):
        torch.testing.assert_close(twice.output.rows, run(one).last_hidden_state[0])
    assert one.run(TEXT, (first,), job())[1] is once, "it is not run again"


def test_a_module_that_runs_several_times_is_changed_the_time_that_was_chosen():
    one = live("AlbertModel", num_hidden_layers=3)
    before, _ = one.run(TEXT, (), job())
    names = list(before.rec.maps)
    assert len(names) == 3 and names[1].endswith(":1")
    for changed, name in enumerate(names):
        after = one.run(TEXT, (Change(site=name, head=0),), job())[1]
        uniform = [torch.allclose(after.rec.maps[x].weights()[0, 0], torch.tensor(1 / 8)) for x in names]
        assert uniform == [x == changed for x in range(3)]


@pytest.mark.parametrize(
    "change",
    [
        Change(token=8),
        Change(token=-1),
        Change(site="nowhere", head=0),
        Change(),
        Change(site="encoder.layer.0.attention.self", head=2),
        Change(site="encoder.layer.0.attention.self"),
    ],
)
def test_what_is_not_there_is_refused(change):
    with pytest.raises((IndexError, ValueError)):
        live().run(TEXT, (change,), job())


def test_a_run_stops_between_two_modules_and_leaves_the_model_as_it_was():
    one = live(num_hidden_layers=6)
    ran = []
    one.model.encoder.layer[5].register_forward_hook(lambda *_: ran.append(5))
    expected = run(one).last_hidden_state
    ran.clear()
    made = Job("model", ("x",), "Reading", lambda j: one.run(TEXT, (Change(token=1),), j))
    hook = one.model.encoder.layer[2].register_forward_hook(lambda *_: made.stop())
    made.run()
    hook.remove()
    assert made.state == "stopped" and not ran and 0 < made.done < made.of
    assert torch.equal(run(one).last_hidden_state, expected)
    assert one.run(TEXT, (), job())[0].output.rows is not None


def test_another_thread_that_runs_a_model_is_not_counted():
    one, other = live(), small_models.model()
    counted, go = job(), threading.Event()

    def work():
        with torch.no_grad():
            other(torch.tensor([[2, 4, 3]]))
        go.set()

    with one._reporting_progress(counted, 1):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert go.is_set() and counted.done == 0


def test_only_the_last_readings_are_kept():
    one = live()
    for x in range(20):
        one.run("a cat" + " sat" * (x % 7) + "." * (x // 7), (), job())
    assert len(one._runs) == 12


# what the model gave


def both(kind: str, text: str = TEXT, **sizes):
    one = live(kind, **sizes)
    before, after = one.run(text, (Change(token=2),), job())
    with torch.no_grad():
        plain = run(one, text)
        with regard.intervene(one.model, MaskTokens([2])):
            changed = run(one, text)
    return one, output_diff(before.output, after.output), plain, changed


def test_an_encoder_tells_cosine_and_norm_of_its_mean_and_how_far_tokens_moved():
    _, made, plain, changed = both("BertModel")
    a, b = plain.last_hidden_state[0], changed.last_hidden_state[0]
    numbers = {one["name"]: one for one in made["numbers"]}
    assert numbers["norm of the mean"]["before"] == pytest.approx(float(a.mean(0).norm()), rel=1e-5)
    assert numbers["norm of the mean"]["after"] == pytest.approx(float(b.mean(0).norm()), rel=1e-5)
    near = float(F.cosine_similarity(a.mean(0), b.mean(0), dim=0))
    assert numbers["cosine to the embedding before"]["after"] == pytest.approx(near, rel=1e-5)
    far = [1 - float(x @ y / x.norm() / y.norm()) for x, y in zip(a, b, strict=True)]
    assert made["tokens"] == pytest.approx(far, abs=1e-5)
    assert f"{near:.4f}" in made["says"]


def test_a_model_that_writes_on_tells_the_next_token():
    _, made, plain, changed = both("GPT2LMHeadModel")
    p, q = (x.logits[0].softmax(-1) for x in (plain, changed))
    (bars,) = made["bars"]
    for bar in bars["bars"]:
        i = small_models.WORDS.index(bar["name"]) if bar["name"] in small_models.WORDS else None
        if i is not None:
            assert (bar["before"], bar["after"]) == pytest.approx((float(p[-1, i]), float(q[-1, i])), abs=1e-6)
    assert [bar["before"] for bar in bars["bars"][:8]] == pytest.approx(p[-1].topk(8).values.tolist(), abs=1e-6)
    assert made["tokens"] == pytest.approx(((p - q).abs().sum(-1) / 2).tolist(), abs=1e-6)
    assert max(made["tokens"][:2]) < 1e-7 < made["tokens"][3], "tokens before the masked one cannot know of it"


def test_a_model_that_guesses_tells_what_stands_at_each_mask():
    one, made, plain, changed = both("BertForMaskedLM", "a [MASK] sat [MASK]")
    at = [i for i, x in enumerate(one.tokenizer("a [MASK] sat [MASK]")["input_ids"]) if x == 13]
    assert [bars["at"] for bars in made["bars"]] == [f"at {i}" for i in at] and len(at) == 2
    for i, bars in zip(at, made["bars"], strict=True):
        best = plain.logits[0, i].softmax(-1).topk(8)
        assert [bar["before"] for bar in bars["bars"][:8]] == pytest.approx(best.values.tolist(), abs=1e-6)
        assert bars["bars"][0]["name"].replace(" ", "") == one.tokenizer.decode([int(best.indices[0])]).replace(" ", "")
        assert bars["bars"][0]["after"] == pytest.approx(
            float(changed.logits[0, i].softmax(-1)[best.indices[0]]), abs=1e-6
        )
    assert "[MASK]" in output_diff(one.run("a cat", (), job())[0].output, None)["title"], "it says how to ask"


def test_a_classifier_tells_its_classes():
    _, made, plain, changed = both("BertForSequenceClassification", num_labels=3)
    p, q = (x.logits[0].softmax(-1) for x in (plain, changed))
    found = {bar["name"]: (bar["before"], bar["after"]) for bar in made["bars"][0]["bars"]}
    assert set(found) == {"LABEL_0", "LABEL_1", "LABEL_2"}
    for i in range(3):
        assert found[f"LABEL_{i}"] == pytest.approx((float(p[i]), float(q[i])), abs=1e-6)
    assert f"LABEL_{int(p.argmax())}" in made["says"]


def test_labels_of_tokens_tell_how_far_each_moved():
    _, made, plain, changed = both("BertForTokenClassification", num_labels=3)
    p, q = (x.logits[0].softmax(-1) for x in (plain, changed))
    assert made["tokens"] == pytest.approx(((p - q).abs().sum(-1) / 2).tolist(), abs=1e-6)


def test_without_a_change_there_is_no_after():
    made = output_diff(live("BertForSequenceClassification").run(TEXT, (), job())[0].output, None)
    assert (
        [bar["after"] for bar in made["bars"][0]["bars"]] == [None, None]
        and made["tokens"] is None
        and made["says"] == ""
    )


def test_long_texts_keep_the_chances_of_the_last_token_alone(monkeypatch):
    from regard.views.server import output_diff as module

    monkeypatch.setattr(module, "MAX_TOKEN_PROBABILITIES", 10)
    one = live("GPT2LMHeadModel")
    made = model_output(one.model, one.tokenizer, one_run(one))
    assert made.rows is None and len(made.probabilities) == 1


def one_run(one: ModelSession):
    from regard.recording.pretrained import run as ran

    return ran(one.model, one.tokenizer, TEXT)


def test_a_text_that_is_cut_is_said_so_in_the_terminal_the_answer_and_the_record(caplog):
    from regard.views.server.wire_format import View

    one = live()  # reads 12 tokens
    long = " ".join(["a cat sat."] * 6)  # 6 * 4 and [CLS], [SEP]
    before, after = one.run(long, (Change(token=2),), job())
    sentence = "The text was cut: the first 12 of 26 tokens, the model reads no more."
    assert before.notes == (sentence,)
    assert [record.message for record in caplog.records] == [sentence], "once, though it ran twice"
    for reading in (before, after):
        assert reading.rec.about["read"] == "the first 12 of 26 tokens"
        assert (
            View(reading.rec, "small")
            .about()["facts"]
            .endswith("read the first 12 of 26 tokens: the model reads no more")
        )


def test_a_text_that_fits_is_read_without_a_word(caplog):
    before, _ = live().run(TEXT, (), job())
    assert not before.notes and not caplog.records and "read" not in before.rec.about


def test_the_answer_of_the_server_has_the_sentence(tmp_path):
    from regard.views.server.app_state import AppState

    state = AppState(tmp_path)
    try:
        state.session = live()
        state.loading = state.jobs.submit("model", ("load",), "Loading", lambda _: {})
        made = state.run_model(" ".join(["a cat sat."] * 6), ())
        made._ended.result(30)
        assert made.state == "done" and made.result["notes"] == made.notes
        assert "the first 12 of 26 tokens, the model reads no more" in made.notes[0]
    finally:
        state.close()


def test_a_cell_says_why_and_a_cut_moves_its_weight_and_the_output():
    one = live()
    before, _ = one.run(TEXT, (), job())
    site = "encoder.layer.1.attention.self"
    told = one.why(before.rec, site, 1, 3, 5)
    assert told["sentence"].startswith("Head 1.1 hardly looks from") and told["cell"] == [3, 5]
    assert {share["name"] for share in told["key"]} >= {"embedding", "head 0.0"}
    writer = told["key"][0]["name"]
    foretold = regard.why(before.rec, site, 1, 3, 5).cut(writer, "key").weight
    after = one.run(TEXT, (Change(site=site, head=1, cut=(3, 5, "key", writer)),), job())[1]
    assert float(after.rec.maps[site].weights()[0, 1, 3, 5]) == pytest.approx(foretold, abs=1e-5)
    assert not torch.equal(after.output.rows, before.output.rows)
    torch.testing.assert_close(after.rec.maps[site].weights()[0, 0], before.rec.maps[site].weights()[0, 0])
    with pytest.raises(ValueError, match="no writer"):
        one.run(TEXT, (Change(site=site, head=1, cut=(3, 5, "key", "nobody")),), job())


def test_a_run_is_taken_apart_before_the_first_question_and_one_at_a_time():
    one = live()
    first, _ = one.run(TEXT, (), job())
    one.prepare(first.rec, job())
    apart = first.rec.__dict__["_traced"]
    one.why(first.rec, "encoder.layer.1.attention.self", 1, 3, 5)
    assert first.rec.__dict__["_traced"] is apart
    second, _ = one.run("a cat sat", (), job())
    one.prepare(second.rec, job())
    assert "_traced" not in first.rec.__dict__ and "_traced" in second.rec.__dict__
