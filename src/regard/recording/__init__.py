"""Capture and intervene on any model; the record file."""

from .record import Record, record

__all__ = ["Record", "record"]
