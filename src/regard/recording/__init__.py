"""Capture and intervene on any model; the record file."""

from .interventions import interventions
from .interventions.intervene import Intervene, intervene
from .io.loading import load
from .record import Record, record

__all__ = ["Intervene", "Record", "intervene", "interventions", "load", "record"]
