"""Compositions: mechanisms as parts of this library, and the backends that run those parts."""

from .since_2017 import COMPOSITIONS, RECURRENT, Composition, runs_on

__all__ = ["COMPOSITIONS", "RECURRENT", "Composition", "runs_on"]
