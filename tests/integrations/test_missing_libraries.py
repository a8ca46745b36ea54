"""Libraries that are absent or broken: `import regard` does without them, and what needs one says what is wrong."""

import subprocess
import sys
from pathlib import Path

import pytest

from regard.core.errors import as_tensor_hint, lacking

ABSENT = """
import sys
for name in {names!r}:
    sys.modules[name] = None
"""


def run(code: str, *absent: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ABSENT.format(names=absent) + code],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    return done.stdout + done.stderr


def test_every_name_is_imported_without_the_libraries_of_integrations():
    asked = "try:\n    register('regard:top_k=3')\nexcept ModuleNotFoundError as error:\n    print(error)"
    code = f"from regard import *\n{asked}"
    told = run(code, "transformers", "torch_geometric", "lightning", "onnx", "diffusers", "pandas", "networkx")
    assert "needs transformers 5, which is not installed: pip install 'regard[transformers]'" in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        (ModuleNotFoundError("none", name="transformers"), "which is not installed: pip install 'regard[models]'"),
        (ModuleNotFoundError("none", name="tokenizers"), "which needs tokenizers, which is not installed"),
        (RuntimeError("operator torchvision::nms does not exist"), "install both from the same index"),
        (OSError("libcudart.so.13: no such file"), "does not import: OSError: libcudart.so.13"),
    ],
)
def test_a_library_that_does_not_import_is_told_with_the_first_cause(reason, says):
    try:
        try:
            raise reason
        except Exception as first:
            raise ImportError("Could not import module 'AttentionInterface'.") from first
    except ImportError:
        told = lacking("TrainerMonitor", "transformers", "models")
    assert says in str(told) and told.name == "transformers"


def test_arrays_and_lists_are_told_how_they_become_tensors():
    import numpy as np

    assert as_tensor_hint("x", np.zeros(2)) == "; write torch.from_numpy(x)"
    assert as_tensor_hint("x", [[0, 1], [1, 2]]) == "; write torch.tensor(x)"
    assert as_tensor_hint("x", [(0, 1), (1, 2), (2, 3)]) == "; write torch.tensor(x).T"
    assert as_tensor_hint("x", object()) == ""
