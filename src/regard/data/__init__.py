"""Real data sets read from the folder that REGARD_DATA names, and planted tasks with known truth."""

from .acm import acm
from .lookup import Lookup, dictionary_lookup
from .nodes import NodeTask
from .planetoid import planetoid
from .typed import TypedTask

__all__ = ["Lookup", "NodeTask", "TypedTask", "acm", "dictionary_lookup", "planetoid"]
