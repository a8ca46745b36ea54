"""What the audit reports: weights that met values."""

from dataclasses import dataclass, field

from ..missed import Missed

LATE = "a product, divided by the sum of one factor"


@dataclass(frozen=True)
class Line:
    """A line of the model's code: the innermost one that is neither torch's nor ours."""

    file: str = ""
    line: int = 0

    @classmethod
    def running(cls) -> "Line":
        here = Missed.here("")
        return cls(here.file, here.line)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else "no line of Python"


@dataclass(eq=False)
class Start:
    """Where weights were made.

    operator    _softmax, "exp, divided by its sum", sigmoid ...
    length      the size of the normalised axis; 0 where none is known
    attends     whether that axis may index activations: not the columns of a linear layer, nor a constant
    """

    operator: str
    length: int
    attends: bool
    line: Line


@dataclass(eq=False)
class AuditEvent:
    """Weights that met values, as the dispatcher saw it.

    site        path of the module that ran
    operator    mm, bmm, sum, convolution ...
    starts      where the weights were made
    attention   whether values and the axis of the weights are activations; otherwise it is a router, a codebook,
                a class expectation
    captured    whether it ran inside a call that the recorder had read, or with weights from one: there is a map of it
    """

    site: str
    operator: str
    starts: tuple[Start, ...]
    attention: bool
    captured: bool
    line: Line = field(default_factory=Line)

    @property
    def late(self) -> bool:
        """Whether a product became attention when it was divided, at a later line."""
        return any(start.operator == LATE for start in self.starts)

    def entry(self) -> Missed:
        """As an entry of rec.missed or rec.other."""
        made = sorted({f"{start.operator} at {start.line}" for start in self.starts if start.line != self.line})
        reason = f"seen by the audit alone{': weights of ' + ', '.join(made[:2]) if made else ''}"
        return Missed(self.operator, reason, self.site, self.line.file, self.line.line)

    def is_in(self, entry: str) -> bool:
        """Whether an entry of a record speaks of this: its site, and, if it names a line, one of those of this."""
        if not isinstance(entry, Missed):
            return entry.startswith(f"{self.site}: ")
        if entry.site == self.site and self.late and entry.file == self.line.file:
            return True  # the product, before the division that makes it attention
        lines = [(line.file, line.line) for line in (self.line, *(start.line for start in self.starts))]
        return entry.site == self.site and (not entry.file or (entry.file, entry.line) in lines)
