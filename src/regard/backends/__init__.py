"""Backends: how a plan runs. Importing this package enlists them, in the order in which "auto" tries them."""

from ..core.registry import enlist
from .chunked import Chunked
from .linear import Linear
from .reference import Reference
from .sdpa import Sdpa

for _backend in (Sdpa(), Linear(), Chunked(), Reference()):
    enlist(_backend)
