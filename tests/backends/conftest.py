"""What tests of backends share: smaller tiles, and a faster interpreter of Triton."""

import os
from importlib.util import find_spec

import pytest


@pytest.fixture
def small_tiles(monkeypatch):
    """Of pairs in fp32: a few dozen places are many tiles then, and a few are not sixty-four in the interpreter."""
    call = pytest.importorskip("regard.backends.triton.dense.launch_config")
    for turn in ("forward", "backward", "once"):
        monkeypatch.setitem(call.TILES, ("fp32 pair", turn), (32, 32, 4, 2, None))


@pytest.fixture(autouse=True, scope="session")
def _the_language_is_patched_once_a_launch():
    """Triton's interpreter patches its language anew whenever a kernel calls a function: a third of its time.

    Once a launch and module is enough, since nothing takes the patches back before the launch ends.
    """
    if os.environ.get("TRITON_INTERPRET") != "1" or find_spec("triton") is None:
        return
    from triton.runtime import interpreter

    patch, launch, patched = interpreter._patch_lang, interpreter.GridExecutor.__call__, set()

    def patch_once(fn):
        if id(fn.__globals__) in patched:
            return interpreter._LangPatchScope()
        patched.add(id(fn.__globals__))
        return patch(fn)

    def launch_and_forget(*args, **kwargs):
        try:
            return launch(*args, **kwargs)
        finally:
            patched.clear()

    interpreter._patch_lang, interpreter.GridExecutor.__call__ = patch_once, launch_and_forget
