"""Escapes control characters of untrusted text for a terminal."""

import re

# Control characters: C0 and DEL, C1, line and paragraph separators, bidirectional marks, lone surrogates (which cannot
# be encoded).
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: object, lines: bool = False) -> str:
    r"""Text with its control characters as escapes: ESC ]52 becomes \x1b]52, so that it cannot write to the clipboard.

    lines   keep line feeds: for multi-line text, not for names
    """
    return CONTROL.sub(lambda found: "\n" if lines and found[0] == "\n" else ascii(found[0])[1:-1], str(text))
