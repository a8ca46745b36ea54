"""Widths that match parameters."""

from hypothesis import given
from hypothesis import strategies as st

from regard.models.training.parameter_matching import matched_width


@given(st.integers(1, 200), st.integers(1, 60), st.integers(1, 8))
def test_no_other_width_is_nearer(target_width, per_feature, multiple):
    def count(width):
        return width * width + per_feature * width

    target = target_width**2 + 3 * target_width
    found = matched_width(count, target, multiple)
    assert found % multiple == 0
    nearest = min(abs(count(times * multiple) - target) for times in range(1, 400))
    assert abs(count(found) - target) == nearest
