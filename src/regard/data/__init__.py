"""Real data sets read from the folder that REGARD_DATA names, and planted tasks with known truth."""

from .lookup import Lookup, dictionary_lookup
from .nodes import NodeTask
from .planetoid import planetoid

__all__ = ["Lookup", "NodeTask", "dictionary_lookup", "planetoid"]
