"""Capture and intervene on any model; the record file."""

from .decomposition.dictionary import FeatureDictionary
from .decomposition.why import Why, why
from .interventions import interventions
from .interventions.intervene import Intervene, intervene
from .io.loading import load
from .monitor.alarms import AttentionAlarm, Watch
from .monitor.logger import Logger
from .monitor.monitor import Monitor
from .record import Record, record

__all__ = [
    "AttentionAlarm",
    "FeatureDictionary",
    "Intervene",
    "Logger",
    "Monitor",
    "Record",
    "Watch",
    "Why",
    "intervene",
    "interventions",
    "load",
    "record",
    "why",
]
