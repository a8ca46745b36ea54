"""Compositions: what a mechanism is made of, in parts of this library, and which backends run those parts."""

from .since_2017 import COMPOSITIONS, RECURRENT, Composition, runs_on

__all__ = ["COMPOSITIONS", "RECURRENT", "Composition", "runs_on"]
