"""What a file says, as a terminal may be given it."""

import re

# What a terminal obeys or a reader is misled by: C0 and DEL, C1, line and paragraph separators, marks that turn the
# direction of writing, halves of surrogate pairs (which cannot be encoded).
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: object, lines: bool = False) -> str:
    r"""Text with its control characters as escapes: ESC ]52 stands there as \x1b]52, and no clipboard is written.

    lines   line feeds stay: for sentences of several lines, not for names
    """
    return CONTROL.sub(lambda found: "\n" if lines and found[0] == "\n" else ascii(found[0])[1:-1], str(text))
