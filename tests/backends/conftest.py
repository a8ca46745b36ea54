import pytest


@pytest.fixture
def small_tiles(monkeypatch):
    """Of pairs in fp32: a few dozen places are many tiles then, and a few are not sixty-four in the interpreter."""
    call = pytest.importorskip("regard.backends.triton_dense_call")
    for turn in ("forward", "backward", "once"):
        monkeypatch.setitem(call.TILES, ("fp32 pair", turn), (32, 32, 4, 2, None))
