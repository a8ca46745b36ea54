"""Kernels written in Triton run where they can, and say why elsewhere."""

import pytest
import torch

from regard.backends.triton.runtime import device_support
from regard.backends.triton.runtime.device_support import device_refusal


@pytest.fixture
def card(monkeypatch):
    """A machine with one GPU, of this capability."""
    device_support.capability.cache_clear()
    monkeypatch.setattr(device_support, "HAS_TRITON", True)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    yield lambda *found: monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: found)
    device_support.capability.cache_clear()


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_a_gpu_that_is_new_enough_runs_them(device, card):
    card(8, 0)
    assert device_refusal(torch.device(device)) is None


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_an_older_one_says_what_it_has_and_what_is_needed(device, card):
    card(7, 5)
    assert (
        device_refusal(torch.device(device)) == "It needs a GPU of compute capability 8.0 or above; this one has 7.5."
    )


def test_a_card_of_another_maker_a_cpu_and_a_machine_without_triton_are_told(card, monkeypatch):
    card(9, 4)
    monkeypatch.setattr(torch.version, "cuda", None)
    assert "NVIDIA" in device_refusal(torch.device("cuda"))
    assert device_refusal(torch.device("cpu")) == "It runs on a CUDA device."
    monkeypatch.setattr(device_support, "HAS_TRITON", False)
    assert device_refusal(torch.device("cuda")) == "Triton is not installed."
