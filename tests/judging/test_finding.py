"""A finding says what it was given, refuses what is no finding, and survives being written and read."""

import copy
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.judging import Estimate, Finding, from_json, to_json

numbers = st.none() | st.floats(allow_nan=False)


@st.composite
def findings(draw):
    value = draw(numbers)
    ends = draw(st.none() | st.tuples(st.floats(allow_nan=False), st.floats(allow_nan=False)))
    interval = None if value is None or ends is None else tuple(sorted(ends))
    return Finding(
        draw(st.text(min_size=1)),
        value,
        draw(st.text(min_size=1)),
        draw(st.sampled_from(["higher", "lower", "neither"])),
        draw(st.integers(0, 10**6)),
        interval=interval,
        baselines=draw(st.dictionaries(st.text(), numbers)),
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


def made(better="higher", interval=(0.4, 0.6), value=0.5, **baselines):
    return Finding("overlap", value, "It overlaps.", better, 10, interval=interval, baselines=baselines)


@pytest.mark.parametrize(
    ("beside", "higher", "lower"),
    [
        (0.3, "better", "worse"),
        (0.7, "worse", "better"),
        (0.45, *["not significantly different"] * 2),
        (0.4, *["not significantly different"] * 2),
    ],
)
def test_better_than_a_baseline_means_the_whole_interval_is(beside, higher, lower):
    assert made("higher", chance=beside).against("chance") == higher
    assert made("lower", chance=beside).against("chance") == lower


def test_nothing_is_better_where_something_is_undefined_or_no_direction_is():
    assert made(chance=None).against("chance") == "undefined"
    assert made("neither", chance=0.1).against("chance") == "undefined"
    assert made(value=None, interval=None, chance=0.1).against("chance") == "undefined"
    assert made(interval=None, chance=0.1).against("chance") == "not significantly different"


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
        made(chance=0.1).against("random")
