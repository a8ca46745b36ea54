"""What a person should be told of a run while it goes on: sentences with the layer's name."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .head_statistics import HeadStatistics


class AttentionAlarm(UserWarning):
    """The warning of a Monitor: `warnings.simplefilter("error", AttentionAlarm)` ends a run at the first one."""


@dataclass(frozen=True)
class Alarm:
    """Something is wrong with the attention of one site at one step; `says` is a sentence for people."""

    step: int
    site: str
    kind: str
    says: str

    def __str__(self) -> str:
        return self.says


@dataclass
class Watch:
    """When to raise an alarm. Each is raised once, and again only after the site was well in between.

    logit      "exploding logits": the largest score is above it
    entropy    "entropy collapse": heads whose rows have less than this share of the entropy of equal weights, and had
               `fall` times as much when they were first seen
    """

    logit: float = 100.0
    entropy: float = 0.02
    fall: float = 2.0

    def __post_init__(self) -> None:
        self._first: dict[str, list[float]] = {}
        self._raised: set[tuple[str, str]] = set()

    def look(self, step: int, sites: Mapping[str, HeadStatistics]) -> list[Alarm]:
        """The alarms of one step that were not raised before."""
        found = []
        for site, seen in sites.items():
            first = self._first.setdefault(site, seen.relative.tolist())
            now = dict(self._kinds(step, site, seen, first))
            found += [Alarm(step, site, kind, says) for kind, says in now.items() if (site, kind) not in self._raised]
            self._raised -= {key for key in self._raised if key[0] == site and key[1] not in now}
            self._raised |= {(site, kind) for kind in now}
        return found

    def _kinds(self, step: int, site: str, seen: HeadStatistics, first: list[float]) -> Iterator[tuple[str, str]]:
        if seen.broken:
            yield "not a number", f"{site}, step {step}: {_heads(seen.broken)} weights that are not numbers (NaN)."
        peaks = seen.max_logit.tolist()
        high = [h for h, x in enumerate(peaks) if x > self.logit]
        if high:
            worst = max(peaks[h] for h in high)
            yield (
                "exploding logits",
                f"{site}, step {step}: {_heads(high)} scores up to {worst:,.0f}, above {self.logit:g} (exploding "
                "logits): normalise queries and keys, cap the scores (SoftCap), or lower the learning rate.",
            )
        now = seen.relative.tolist()
        low = [
            h
            for h, x in enumerate(now)
            if x < self.entropy and h < len(first) and not math.isnan(first[h]) and first[h] >= self.fall * x
        ]
        low = [h for h in low if first[h] >= self.entropy]
        if low:
            before = sum(first[h] for h in low) / len(low)
            after = sum(now[h] for h in low) / len(low)
            yield (
                "entropy collapse",
                f"{site}, step {step}: {_heads(low)} {after:.2%} of the entropy of equal weights, {before:.0%} when "
                "first seen: nearly all weight of a row is on one key (entropy collapse).",
            )


def _heads(which: list[int]) -> str:
    """Heads by number, at most six, and the verb that goes with them."""
    named = ", ".join(map(str, which[:6])) + (f" and {len(which) - 6} more" if len(which) > 6 else "")
    return f"head {named} has" if len(which) == 1 else f"heads {named} have"
