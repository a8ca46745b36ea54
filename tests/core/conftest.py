"""Tests here are small; "auto" must still mean what it means for problems of the usual size."""

import pytest

from regard.backends.chunked import backend as chunked


@pytest.fixture(autouse=True)
def as_for_large_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked, "SMALL", -1)
