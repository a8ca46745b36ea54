"""A finding: one judged number with what is needed to believe it, or to doubt it."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from .statistics.intervals import Estimate

Better = Literal["higher", "lower", "neither"]
VERSION = 1
DISTANCES = ("total variation", "JSD")  # units of which no value lies below 0


@dataclass(frozen=True)
class Finding:
    """One judged number: a value, its interval, the baselines beside it, the direction that is better, and a sentence.

    name       what was measured: "alignment error rate"
    value      the number; None says that it is undefined (then `says` tells why), infinity is a value
    says       one plain sentence for a reader who knows no formula
    better     "higher", "lower", or "neither" where no direction is better
    n          how many instances stand behind the value
    test       the test that it belongs to; a report groups by it
    unit       "%", "JSD (max 0.69)", ...
    interval   (low, high), or None where there is none: one instance, or an undefined value
    level      how much of the resampled values the interval holds
    baselines  by name: "random", "uniform", ...; None for an undefined one
    undefined  how many instances were left out because the measure is undefined on them

    A value is never reported without its interval: `against` calls a value better than a baseline only when the whole
    interval is.
    """

    name: str
    value: float | None
    says: str
    better: Better
    n: int
    test: str = ""
    unit: str = ""
    interval: tuple[float, float] | None = None
    level: float = 0.95
    baselines: Mapping[str, float | None] = field(default_factory=dict)
    undefined: int = 0

    def __post_init__(self) -> None:
        if self.better not in ("higher", "lower", "neither"):
            raise ValueError(f"Finding(better={self.better!r}): expected 'higher', 'lower' or 'neither'.")
        if not self.name or not self.says:
            raise ValueError(f"Finding(name={self.name!r}, says={self.says!r}): both are told, neither may be empty.")
        if self.n < 0 or self.undefined < 0:
            raise ValueError(f"Finding(n={self.n}, undefined={self.undefined}): expected counts, 0 or more.")
        if not 0 < self.level < 1:
            raise ValueError(f"Finding(level={self.level}): expected a share between 0 and 1, such as 0.95.")
        put = object.__setattr__  # the way a frozen dataclass tidies what it was given
        put(self, "value", _number("value", self.value))
        put(self, "baselines", {name: _number(f"baseline {name!r}", beside) for name, beside in self.baselines.items()})
        if self.interval is not None:
            low, high = (_number("interval", end) for end in self.interval)
            if low is None or high is None or low > high:
                raise ValueError(f"Finding(interval={self.interval}): expected (low, high) with low <= high.")
            if self.value is None:
                raise ValueError(f"Finding(value=None, interval={self.interval}): an undefined value has no interval.")
            put(self, "interval", (low, high))

    @classmethod
    def of(cls, found: Estimate, *, name: str, says: str, better: Better, **rest: Any) -> "Finding":
        """A finding of an estimate: its value, interval, level and counts."""
        return cls(
            name,
            found.value,
            says,
            better,
            found.n,
            interval=found.interval,
            level=found.level,
            undefined=found.undefined,
            **rest,
        )

    def against(self, baseline: str) -> Literal["better", "worse", "not significantly different", "undefined"]:
        """How the value stands against a baseline: better or worse only when the whole interval lies on that side.

        Without an interval no difference is significant. A comparison is undefined where either number is, where no
        direction is better, and for a distance against no change, which is never below 0.
        """
        if baseline not in self.baselines:
            raise ValueError(f"{self.name} has no baseline {baseline!r}; it has {', '.join(self.baselines) or 'none'}.")
        beside = self.baselines[baseline]
        if self.value is None or beside is None or self.better == "neither":
            return "undefined"
        if baseline == "no change" and self.unit.startswith(DISTANCES):
            return "undefined"
        if self.interval is None:
            return "not significantly different"
        low, high = self.interval
        above, below = low > beside, high < beside
        if self.better == "lower":
            above, below = below, above
        return "better" if above else "worse" if below else "not significantly different"

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        parts = [f"{self.name}: {_say(self.value)}{unit if self.value is not None else ''}"]
        if self.interval is not None:
            parts.append(f"[{_say(self.interval[0])}, {_say(self.interval[1])}]")
        if self.baselines:
            parts.append("(" + ", ".join(f"{name} {_say(value)}" for name, value in self.baselines.items()) + ")")
        return " ".join(parts) + f", n = {self.n}. {self.says}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which knows no infinity: that is written as "inf" and "-inf"."""
        plain = asdict(self)
        plain["value"] = _written(self.value)
        plain["interval"] = None if self.interval is None else [_written(end) for end in self.interval]
        plain["baselines"] = {name: _written(value) for name, value in self.baselines.items()}
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Finding":
        known = {each.name for each in fields(cls)}
        strange = sorted(set(plain) - known)
        missing = [name for name in ("name", "value", "says", "better", "n") if name not in plain]
        if strange or missing:
            what = f"has no {missing[0]!r}" if missing else f"has {strange[0]!r}, which no finding has"
            raise ValueError(f"A finding was read that {what}: expected {', '.join(sorted(known))}.")
        ends = plain.get("interval")
        numbers = {
            "value": _read(plain["value"]),
            "interval": None if ends is None else tuple(map(_read, ends)),
            "baselines": {name: _read(value) for name, value in plain.get("baselines", {}).items()},
        }
        return cls(**{**plain, **numbers})


def to_json(findings: Iterable[Finding], indent: int | None = 2) -> str:
    """Findings as JSON text; the same findings give the same bytes, and `from_json` gives equal findings back."""
    plain = {"version": VERSION, "findings": [each.as_dict() for each in findings]}
    return json.dumps(plain, indent=indent, ensure_ascii=False, allow_nan=False)


def from_json(text: str) -> list[Finding]:
    """What `to_json` wrote."""
    plain = json.loads(text)
    if not isinstance(plain, dict) or plain.get("version") != VERSION or not isinstance(plain.get("findings"), list):
        raise ValueError(f"This text holds no findings of version {VERSION}: expected what to_json() writes.")
    return [Finding.from_dict(each) for each in plain["findings"]]


def _number(name: str, value: float | None) -> float | None:
    if value is None:
        return None
    value = float(value)
    if math.isnan(value):
        raise ValueError(f"Finding({name}=NaN): an undefined number is None, and `says` tells why.")
    return value


def _written(value: float | None) -> float | str | None:
    return str(value) if value is not None and math.isinf(value) else value


def _read(value: float | str | None) -> float | None:
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)) or value in ("inf", "-inf"):
        return None if value is None else float(value)
    raise ValueError(f"A finding was read with {value!r} where a number belongs: expected a number, null or 'inf'.")


def _say(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4g}"
