"""A finding says what it was given, refuses what is no finding, and survives being written and read."""

import copy
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.judging import Estimate, Finding, PairedDifference, from_json, to_json
from regard.judging.finding import KNOW_NOTHING
from regard.judging.verdict import correct

numbers = st.none() | st.floats(allow_nan=False)


@st.composite
def findings(draw):
    value = draw(numbers)
    ends = draw(st.none() | st.tuples(st.floats(allow_nan=False), st.floats(allow_nan=False)))
    interval = None if value is None or ends is None else tuple(sorted(ends))
    baselines = draw(st.dictionaries(st.text(), numbers))
    compared = PairedDifference(draw(numbers), interval, draw(st.none() | st.floats(0, 1)), 3, draw(st.text()))
    return Finding(
        draw(st.text(min_size=1)),
        value,
        draw(st.text(min_size=1)),
        draw(st.sampled_from(["higher", "lower", "neither"])),
        draw(st.integers(0, 10**6)),
        interval=interval,
        baselines=baselines,
        differences=dict.fromkeys(list(baselines)[:1], compared),
        undefined=draw(st.integers(0, 9)),
        unit=draw(st.text()),
        test=draw(st.text()),
    )


@given(st.lists(findings(), max_size=3))
def test_findings_come_back_from_json_as_they_went(some):
    text = to_json(some)
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert from_json(text) == some
    assert to_json(from_json(text)) == text


def test_a_finding_can_be_copied():
    one = Finding("PSNR", math.inf, "Nothing differs.", "higher", 3, baselines={"mean": None})
    assert copy.deepcopy(one) == one


def made(better="higher", value=0.5, **differences):
    """A finding with baselines 0.1 away, by name (difference, p) or None."""
    compared = {
        name: PairedDifference(None if one is None else one[0], None, None if one is None else one[1], 10, "too few")
        for name, one in differences.items()
    }
    baselines = {name: None if one is None or value is None else value - one[0] for name, one in differences.items()}
    return Finding("overlap", value, "It overlaps.", better, 10, baselines=baselines, differences=compared)


@pytest.mark.parametrize(
    ("far", "p", "higher", "lower"),
    [
        (0.2, 0.04, "better", "worse"),
        (-0.2, 0.04, "worse", "better"),
        (0.2, 0.06, *["not significantly different"] * 2),
        (0.0, 0.0, *["not significantly different"] * 2),
        (0.2, None, *["undefined"] * 2),
    ],
)
def test_the_p_of_the_difference_decides(far, p, higher, lower):
    assert made("higher", chance=(far, p)).against("chance") == higher
    assert made("lower", chance=(far, p)).against("chance") == lower


def test_nothing_is_better_where_something_is_undefined_or_no_direction_is():
    assert made(chance=None).against("chance") == "undefined"
    assert made("neither", chance=(0.1, 0.0)).against("chance") == "undefined"
    assert made(value=None, chance=(0.1, 0.0)).against("chance") == "undefined"
    shown = Finding("overlap", 0.5, "It overlaps.", "higher", 10, interval=(0.4, 0.6), baselines={"chance": 0.1})
    assert shown.standing == ("chance", "undefined") and shown.why == "what stands beside it is shown, not tested"
    assert made(random=(0.1, None)).why == "too few"


def test_baselines_that_know_nothing_decide_together():
    both = made(gradient=(-0.2, 0.001), random=(0.2, 0.01), position=(0.1, 0.03))
    assert both.standing == ("position", "better") and both.against("gradient") == "worse"
    assert made(random=(0.2, 0.01), position=(0.1, 0.2)).standing == ("position", "not significantly different")
    assert made(random=(0.2, 0.01), position=(-0.1, 0.02)).standing == ("position", "worse")  # one of two: .04
    assert made(random=(0.2, 0.01), position=(-0.1, 0.03)).standing == ("position", "not significantly different")
    assert made(random=(0.2, 0.01), position=(0.1, None)).standing == ("position", "undefined")


def test_headlines_are_corrected_together_by_holm():
    some = [made(random=(0.2, p)) for p in (0.01, 0.04, 0.03)] + [made(random=(0.2, None))]
    after = correct(some)
    assert [one.family for one in after] == [3, 3, 3, 0]
    verdicts = [one.standing[1] for one in after]
    assert verdicts == ["better", "not significantly different", "not significantly different", "undefined"]
    assert correct(after) == after
    for one in correct([made(random=(0.2, p)) for p in (0.01, 0.02, 0.025)]):  # .03, .04, .04
        assert one.standing[1] == "better"


tested = st.tuples(st.sampled_from([-0.2, -0.1, 0.0, 0.1, 0.2]), st.none() | st.floats(0, 1))


@given(
    st.lists(st.dictionaries(st.sampled_from([*KNOW_NOTHING, "gradient", "chance"]), st.none() | tested), max_size=4),
    st.sampled_from(["higher", "lower"]),
)
def test_a_finding_never_says_one_thing_at_the_top_and_another_beside_its_baseline(several, better):
    for one in correct([made(better, **differences) for differences in several]):
        main, how = one.standing
        if main is not None:
            assert one.against(main) == how
        if how == "undefined":
            assert all(one.against(name) == "undefined" for name in one.baselines) and one.why
        if how == "better":
            assert {one.against(x) for x in one.differences if x in KNOW_NOTHING} <= {"better", "undefined"}


def test_an_undefined_value_is_told_as_undefined():
    one = Finding("AER", None, "There is no link to judge.", "lower", 0, unit="%", baselines={"random": 92.123})
    assert str(one) == "AER: undefined (random 92.12), n = 0. There is no link to judge."


def test_a_finding_of_an_estimate_carries_its_counts():
    one = Finding.of(
        Estimate(0.5, (0.4, 0.6), 7, 2, 0.9), name="F1", says="Half.", better="higher", baselines={"a": 0.1}
    )
    assert (one.value, one.interval, one.n, one.undefined, one.level) == (0.5, (0.4, 0.6), 7, 2, 0.9)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"value": math.nan}, "None"),
        ({"baselines": {"random": math.nan}}, "None"),
        ({"better": "up"}, "'higher', 'lower' or 'neither'"),
        ({"says": ""}, "empty"),
        ({"n": -1}, "counts"),
        ({"level": 95}, "share"),
        ({"differences": {"random": PairedDifference(0.1)}}, "has none"),
        ({"interval": (2, 1)}, "low <= high"),
        ({"value": None, "interval": (0, 1)}, "no interval"),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, dict) else "",
)
def test_what_is_no_finding_is_refused_with_the_next_step(change, says):
    with pytest.raises(ValueError, match=says):
        Finding(**{"name": "a", "value": 1.0, "says": "b", "better": "lower", "n": 1, **change})


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"version": 2, "findings": []}',
        '{"version": 1, "findings": [{"name": "a"}]}',
        '{"version": 1, "findings": [{"name": "a", "value": "b", "says": "c", "better": "lower", "n": 1}]}',
        '{"version": 1, "findings": [{"name": "a", "value": 1, "says": "c", "better": "lower", "n": 1, "colour": 1}]}',
    ],
    ids=["list", "version", "missing", "word", "strange"],
)
def test_text_that_holds_no_findings_is_refused(text):
    with pytest.raises(ValueError, match=r"expected"):
        from_json(text)


def test_asking_for_a_baseline_that_is_not_there_names_those_that_are():
    with pytest.raises(ValueError, match="it has chance"):
        made(chance=(0.1, 0.2)).against("random")
