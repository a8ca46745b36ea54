"""Models as transformers' own tests build them: from a checkout of its repository, whose testers have tiny settings."""

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import TestCase
from unittest.mock import MagicMock

import torch
from torch import Tensor, nn


def names(checkout: Path) -> list[str]:
    """Every folder of its tests that has a model."""
    return sorted(file.parent.name for file in (checkout / "tests" / "models").glob("*/test_modeling_*.py"))


def models(checkout: Path, name: str) -> Iterator[tuple[str, nn.Module, dict[str, Any]]]:
    """(class, model, inputs) of each test class of a folder: the first of the classes that it tests."""
    sys.modules["tests"].__path__.insert(0, str(checkout / "tests"))
    sys.path.append(str(checkout / "utils"))
    for file in sorted((checkout / "tests" / "models" / name).glob("test_modeling_*.py")):
        module = _imported(f"tests.models.{name}.{file.stem}")
        for title, test in inspect.getmembers(module, inspect.isclass):
            if test.__module__ != module.__name__ or not issubclass(test, TestCase):
                continue
            if not (getattr(test, "all_model_classes", None) or getattr(test, "model_tester_class", None)):
                continue
            try:
                case = test("setUp")
                case.setUp()
                config, inputs = case.model_tester.prepare_config_and_inputs_for_common()
                kind = case.all_model_classes[0]  # testers of language models set it here
                inputs = case._prepare_for_class(inputs, kind)
                torch.manual_seed(0)
                model = kind(config).eval()
            except Exception as error:
                yield f"{title}: {type(error).__name__}: {str(error)[:120]}", nn.Identity(), {}
                continue
            yield kind.__name__, model, {key: value for key, value in inputs.items() if _is_input(value)}


def _imported(path: str) -> ModuleType:
    """A module of the checkout, which may be of another version: names that the installed one lacks are None."""
    for _ in range(30):
        try:
            return importlib.import_module(path)
        except ModuleNotFoundError as error:
            sys.modules[str(error.name)] = MagicMock()  # data sets, trainers: nothing that a tiny model needs
        except ImportError as error:
            lacking = re.search(r"cannot import name '(\w+)' from '([\w.]+)'", str(error))
            if lacking is None:
                raise
            setattr(sys.modules[lacking[2]], lacking[1], None)
    raise ImportError(f"{path} lacks more than 30 names.")


def _is_input(value: Any) -> bool:
    return isinstance(value, (Tensor, bool, int, float, str, list, tuple, dict)) and not isinstance(value, type)
