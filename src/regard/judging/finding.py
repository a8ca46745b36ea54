"""A finding: one judged number with what is needed to believe it, or to doubt it."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from .statistics.comparison import Compared, PairedDifference
from .statistics.intervals import Estimate

Better = Literal["higher", "lower", "neither"]
Verdict = Literal["better", "worse", "not significantly different", "undefined"]
VERSION = 1
# Baselines that never saw the model: a measure is held against all of these first.
KNOW_NOTHING = ("random", "degree", "position", "diagonal", "first words", "last words")


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
    level      how often such an interval holds the truth
    method     how the interval was made: "Clopper-Pearson", "t and bootstrap-t", ...
    baselines  by name: "random", "uniform", ...; None for an undefined one
    differences  by name, the paired difference to a baseline with its interval and p (`compare`); a baseline without
               one is only shown beside the value
    undefined  how many instances were left out because the measure is undefined on them
    family     how many headlines of a report its verdict is corrected for; 0: it stands alone
    correction what each p is multiplied by for them (`correct`)

    Whatever says "better", "worse" or "not significantly different" of a finding asks `standing` or `against`, which
    ask the p of the paired difference: an interval of the value says nothing of a baseline that was drawn itself.
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
    method: str = ""
    differences: Mapping[str, PairedDifference] = field(default_factory=dict)
    family: int = 0
    correction: float = 1.0

    def __post_init__(self) -> None:
        if self.better not in ("higher", "lower", "neither"):
            raise ValueError(f"Finding(better={self.better!r}): expected 'higher', 'lower' or 'neither'.")
        if not self.name or not self.says:
            raise ValueError(f"Finding(name={self.name!r}, says={self.says!r}): both are told, neither may be empty.")
        if self.n < 0 or self.undefined < 0:
            raise ValueError(f"Finding(n={self.n}, undefined={self.undefined}): expected counts, 0 or more.")
        if strange := sorted(set(self.differences) - set(self.baselines)):
            raise ValueError(
                f"Finding(differences={{{strange[0]!r}: ...}}): expected differences to its baselines, "
                f"{', '.join(self.baselines) or 'of which it has none'}."
            )
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
    def of(
        cls,
        found: Estimate,
        *,
        name: str,
        says: str,
        better: Better,
        baselines: Mapping[str, float | None] | None = None,
        **rest: Any,
    ) -> "Finding":
        """A finding of an estimate: its value, interval, level and counts; of `compare` its differences too.

        baselines  more numbers to stand beside the value, which are not compared with it
        """
        tested = found if isinstance(found, Compared) else Compared(None, None, 0)
        return cls(
            name,
            found.value,
            says,
            better,
            found.n,
            interval=found.interval,
            level=found.level,
            undefined=found.undefined,
            method=found.method,
            baselines={**tested.baselines, **(baselines or {})},
            differences=tested.differences,
            **rest,
        )

    @property
    def decided(self) -> tuple[str | None, float | None]:
        """The baseline that decides and its p before any correction; None where there is no verdict.

        Those that know nothing of the model decide, else the first that was compared. Better means better than each of
        them, so that the largest p counts; worse means worse than one of them, the smallest p, times how many they are.
        """
        tested = {name: one for name, one in self.differences.items() if one.value is not None}
        names = [name for name in KNOW_NOTHING if name in tested] or list(tested)[:1]
        if not names or self.better == "neither" or self.value is None:
            return next(iter(names or self.baselines), None), None
        if without := next((name for name in names if tested[name].p is None), None):
            return without, None
        p = {name: float(tested[name].p or 0.0) for name in names}
        if behind := [name for name in names if not self._ahead(name)]:
            name = min(behind, key=p.__getitem__)
            return name, min(1.0, len(names) * p[name])
        name = max(names, key=p.__getitem__)
        return name, p[name]

    @property
    def standing(self) -> tuple[str | None, Verdict]:
        """The baseline that decides, and the verdict: the one that a report tells of this finding."""
        name, p = self.decided
        return (name, "undefined") if name is None or p is None else (name, self._verdict(name, p))

    def against(self, baseline: str) -> Verdict:
        """How the value stands against one baseline, by the p of their paired difference.

        Undefined where they were not compared, where either number is, where no direction is better, and for every
        baseline of a finding without a verdict: a report would otherwise say one thing above and another below.
        """
        if baseline not in self.baselines:
            raise ValueError(f"{self.name} has no baseline {baseline!r}; it has {', '.join(self.baselines) or 'none'}.")
        one = self.differences.get(baseline)
        if self.decided[1] is None or one is None or one.value is None or one.p is None:
            return "undefined"
        several = sum(name in KNOW_NOTHING and self.differences[name].value is not None for name in self.differences)
        times = several if baseline in KNOW_NOTHING and not self._ahead(baseline) else 1
        return self._verdict(baseline, times * one.p)

    @property
    def why(self) -> str:
        """Why there is no verdict; "" where there is one."""
        name, p = self.decided
        if p is not None:
            return ""
        if self.value is None:
            return self.says
        if self.better == "neither":
            return "no direction is better"
        one = None if name is None else self.differences.get(name)
        if one is None:
            return "what stands beside it is shown, not tested" if self.baselines else "it has no baseline"
        return one.why

    def _ahead(self, baseline: str) -> bool:
        """Whether the value lies on the better side of a baseline, or ties with it."""
        far = self.differences[baseline].value or 0.0
        return far == 0 or (far > 0) == (self.better == "higher")

    def _verdict(self, baseline: str, p: float) -> Verdict:
        if p * self.correction > 1 - self.level or not self.differences[baseline].value:
            return "not significantly different"
        return "better" if self._ahead(baseline) else "worse"

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
        plain["differences"] = {
            name: {key: _plainly(number) for key, number in one.items()} for name, one in plain["differences"].items()
        }
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
            "differences": {name: _difference(one) for name, one in plain.get("differences", {}).items()},
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


def _plainly(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_written(end) for end in value]
    return _written(value) if isinstance(value, float) else value


def _difference(plain: Mapping[str, Any]) -> PairedDifference:
    try:
        ends = plain["interval"]
        interval = None if ends is None else (float(ends[0]), float(ends[1]))
        return PairedDifference(_read(plain["value"]), interval, _read(plain["p"]), int(plain["n"]), str(plain["why"]))
    except (KeyError, TypeError, IndexError) as problem:
        raise ValueError(
            f"A difference was read that is not whole: {problem!r}; expected what to_json() writes."
        ) from problem


def _say(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4g}"
