"""Capture and intervene on any model; the record file."""

from .files.loading import load
from .intervening import interventions
from .intervening.intervene import Intervene, intervene
from .record import Record, record

__all__ = ["Intervene", "Record", "intervene", "interventions", "load", "record"]
