"""What tests of backends share: smaller tiles, and a faster interpreter of Triton."""

import os
from importlib.util import find_spec

import pytest
from tests.fuzz.interpreted import patched_once_a_launch


@pytest.fixture
def small_tiles(monkeypatch):
    """Of pairs in fp32: a few dozen places are many tiles then, and a few are not sixty-four in the interpreter."""
    call = pytest.importorskip("regard.backends.triton.dense.launch_config")
    for turn in ("forward", "backward", "once"):
        monkeypatch.setitem(call.TILES, ("fp32 pair", turn), (32, 32, 4, 2, None))


@pytest.fixture(autouse=True, scope="session")
def _the_language_is_patched_once_a_launch():
    if os.environ.get("TRITON_INTERPRET") != "1" or find_spec("triton") is None:
        yield
        return
    with patched_once_a_launch():
        yield
