"""The sample that `make test` runs of a product has every value; the rest is not lost."""

import itertools

from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import covering

pytest_plugins = ["pytester"]

SIZES = st.lists(st.integers(1, 7), min_size=1, max_size=3)


@given(SIZES, st.integers(1, 4), st.integers(0, 3))
def test_each_value_is_in_as_many_cases_as_asked_for_or_in_all_that_it_has(sizes, times, every):
    product = [tuple((f"p{i}", str(v)) for i, v in enumerate(case)) for case in itertools.product(*map(range, sizes))]
    cases = [case for place, case in enumerate(product) if every == 0 or place % (every + 1) == 0]
    taken = covering(cases, times)
    for value in {value for case in cases for value in case}:
        has = sum(value in case for case in cases)
        assert sum(value in cases[place] for place in taken) >= min(times, has)
    assert taken == covering(cases, times)


def test_a_product_of_two_needs_no_more_cases_than_the_longer_axis():
    cases = [(("score", str(i)), ("align", str(j))) for i in range(12) for j in range(5)]
    assert len(covering(cases)) == 12 and len(covering(cases, 3)) == 36


def test_make_test_runs_the_sample_and_make_test_slow_the_others(pytester):
    pytester.makepyfile(
        conftest="""
        from tests.conftest import pytest_collection_modifyitems
        """,
        test_it="""
        import pytest

        @pytest.mark.covered
        @pytest.mark.parametrize("b", [{"x": 1}, ("y",), "z"])
        @pytest.mark.parametrize("a", range(3))
        def test_product(a, b): pass

        @pytest.mark.parametrize("a", [1, pytest.param(2, marks=pytest.mark.slow)])
        def test_case(a): pass

        @pytest.mark.slow
        def test_whole(): pass
        """,
    )
    markers = [f"-omarkers={name}" for name in ()]
    pytester.makeini("[pytest]\nmarkers =\n    covered\n    slow\n")
    quick = {line for line in pytester.runpytest("-v", *markers).outlines if "PASSED" in line}
    slow = {line for line in pytester.runpytest("-v", "-m", "slow").outlines if "PASSED" in line}
    names = [{line.split()[0] for line in lines} for lines in (quick, slow)]
    assert len(names[0]) == 3 + 1 and len(names[1]) == 6 + 1 + 1 and names[0].isdisjoint(names[1])
    one = pytester.runpytest("test_it.py::test_product[2-z]")
    one.assert_outcomes(passed=1)  # a case that is named is run
