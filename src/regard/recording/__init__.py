"""Capture and intervene on any model; the record file."""

from . import interventions
from .intervene import Intervene, intervene
from .loading import load
from .record import Record, record

__all__ = ["Intervene", "Record", "intervene", "interventions", "load", "record"]
