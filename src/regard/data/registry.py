"""Data sets and tasks by name, declared by installed packages through the entry-point group `regard.plugins`.

    [project.entry-points."regard.plugins"]          # in the pyproject.toml of any package
    mine = "my_package.plugin"

The module says what there is and imports nothing of it, each as "module:attribute":

    DATA = {"sst": "my_package.sst:sst"}                  regard.data.sst
    TASKS = {"retrieval": "my_package.tasks:Retrieval"}   an Experiment: `regard train retrieval`, studies
    STUDY_TASKS = {"gat": "my_package.study:OneGraph"}    a StudyTask: what only studies run
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

GROUP = "regard.plugins"


class Registry:
    """What plugins declare under one heading. A part is imported when it is first asked for."""

    def __init__(self, heading: str):
        self.heading = heading

    def __iter__(self) -> Iterator[str]:
        return iter(_declared()[self.heading])

    def __contains__(self, name: object) -> bool:
        return name in _declared()[self.heading]

    def __getitem__(self, name: str) -> Any:
        module, _, attribute = _declared()[self.heading][name].partition(":")
        return getattr(import_module(module), attribute)


DATA, TASKS, STUDY_TASKS = Registry("DATA"), Registry("TASKS"), Registry("STUDY_TASKS")


@cache
def _declared() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {"DATA": {}, "TASKS": {}, "STUDY_TASKS": {}}
    owner: dict[tuple[str, str], str] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        plugin = point.load()
        for heading, names in found.items():
            for name, place in getattr(plugin, heading, {}).items():
                if names.setdefault(name, place) != place:
                    raise ValueError(
                        f"Two installed packages declare {name!r} in {heading}: {owner[heading, name]} and "
                        f"{point.value}; uninstall one of them, or rename its entry."
                    )
                owner[heading, name] = point.value
    return found
