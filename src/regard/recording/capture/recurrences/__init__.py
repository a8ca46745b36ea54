"""Recurrences: linear attention, state space models and delta rules, whose implied map is what is recorded.

A step of decoding has its past in a state and not in keys: such a call is an entry of `missed`.
"""

from . import own, transformers_models

__all__ = ["own", "transformers_models"]
