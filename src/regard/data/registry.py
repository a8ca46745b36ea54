"""Data sets and tasks by name, declared by installed packages through the entry-point group `regard.plugins`.

    [project.entry-points."regard.plugins"]          # in the pyproject.toml of any package
    mine = "my_package.plugin"

The plugin module imports nothing heavy: it names each data set and task as "module:attribute".

    DATA = {"sst": "my_package.sst:sst"}                  regard.data.sst
    TASKS = {"retrieval": "my_package.tasks:Retrieval"}   an Experiment: `regard train retrieval`, studies
    STUDY_TASKS = {"gat": "my_package.study:OneGraph"}    a StudyTask: available in studies alone
    MOVED = {"my_package.old:run": "my_package.new:run"}  where a function that stored studies call is now

A plugin that cannot be imported is skipped with a warning. A name that two packages declare is refused when it is
used; all other names keep working.
"""

import warnings
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

GROUP = "regard.plugins"
HEADINGS = ("DATA", "TASKS", "STUDY_TASKS", "MOVED")


class Registry:
    """The entries of one heading in all plugins. An entry is imported when it is first used."""

    def __init__(self, heading: str):
        self.heading = heading

    def __iter__(self) -> Iterator[str]:
        return iter(_declarations()[self.heading])

    def __contains__(self, name: object) -> bool:
        return name in _declarations()[self.heading]

    def __getitem__(self, name: str) -> Any:
        packages = _declarations()[self.heading][name]  # place by package
        if len(set(packages.values())) > 1:
            raise ValueError(
                f"Two installed packages declare {name!r} in {self.heading}: {' and '.join(packages)}; uninstall one "
                "of them, or rename its entry."
            )
        package, place = next(iter(packages.items()))
        module, _, attribute = place.partition(":")
        if not attribute:
            raise ValueError(
                f"{package} declares {name!r} in {self.heading} as {place!r}: expected 'module:attribute'."
            )
        imported = import_module(module)
        if not hasattr(imported, attribute):
            raise ValueError(
                f"{package} declares {name!r} in {self.heading} as {place!r}: {module} has no {attribute!r}."
            )
        return getattr(imported, attribute)

    def packages(self, name: str) -> list[str]:
        """The installed packages that declare this name."""
        return list(_declarations()[self.heading][name])


DATA, TASKS, STUDY_TASKS, MOVED = (Registry(heading) for heading in HEADINGS)


@cache
def _declarations() -> dict[str, dict[str, dict[str, str]]]:
    """By heading and name: {package: "module:attribute"}."""
    declared: dict[str, dict[str, dict[str, str]]] = {heading: {} for heading in HEADINGS}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        package = _package(point)
        try:
            plugin = point.load()
        except Exception as error:  # third-party code, run at import
            warnings.warn(
                f"The plugin {point.value} of the package {package} cannot be imported and is skipped: "
                f"{type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
            continue
        for heading, names in declared.items():
            for name, place in getattr(plugin, heading, {}).items():
                names.setdefault(name, {})[package] = place
    return declared


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value
