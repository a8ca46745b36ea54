"""What every test run starts from."""

import os
import signal

# A shell that runs tests in the background has them ignore Ctrl-C, and so would every command that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Some virtual machines announce AMX and then refuse it, and a 16-bit matrix product of torch dies there by an illegal
# instruction. It must be said before torch multiplies for the first time.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# Triton's kernels are interpreted where there is no GPU; they are decorated once, when Triton is first imported.
if not os.path.exists("/dev/nvidia0"):
    os.environ.setdefault("TRITON_INTERPRET", "1")

import pytest
import torch
from hypothesis import HealthCheck, settings
from tests.loadable_torchvision import declare_missing_operators
from tests.sampling import mark_the_slow

declare_missing_operators()
settings.register_profile(
    "regard", deadline=None, derandomize=True, print_blob=False, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("regard")
torch.set_num_threads(1)  # tests run side by side, and one thread adds in one order


ASKED = ("slow", "exhaustive", "ray", "integrations")  # markers whose tests run only where -m names them


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The exhaustive run takes ten hours of a core, and a Ray cluster is slow to start: they are for those who ask."""
    mark_the_slow(items)
    unasked = [name for name in ASKED if name not in config.option.markexpr]
    left = [item for item in items if any(item.get_closest_marker(name) for name in unasked)]
    if left:
        config.hook.pytest_deselected(items=left)
        gone = set(left)
        items[:] = [item for item in items if item not in gone]


@pytest.fixture(params=[True, False], ids=["fast path", "plain path"])
def either_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """The test runs twice: with cached plans and calls past the dispatcher, and without (REGARD_FAST_PATH=0)."""
    from regard.core import fast_path

    monkeypatch.setattr(fast_path, "enabled", request.param)
    return bool(request.param)


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """Each test draws the same numbers, whatever ran before it."""
    torch.manual_seed(0)
