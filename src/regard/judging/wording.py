"""Numbers in sentences: what is 0 is called 0, and what is not never reads so."""

import math


def amount(value: float | None, digits: int = 3) -> str:
    """0.042; "less than 0.001" where that many digits would show nothing, and 0 where there is nothing."""
    if value is None:
        return "an undefined share"
    if not math.isfinite(value):
        return "infinitely much" if value > 0 else "minus infinity"
    shown = f"{value:.{digits}f}"
    if value != 0 and float(shown) == 0:
        least = f"{10.0**-digits:.{digits}f}"
        return f"less than {least}" if value > 0 else f"more than -{least}"
    return shown.lstrip("-") if float(shown) == 0 else shown


def percent(share: float) -> str:
    """A share in whole percent: 0 % and 100 % are said of nothing and of all, and of nothing else."""
    shown = f"{share:.0%}"
    if shown == "0%" and share > 0:
        return "less than 1%"
    if shown == "100%" and share < 1:
        return "more than 99%"
    return shown.replace("-0%", "0%") if share >= 0 else shown


def sentence(words: str) -> str:
    """With a capital: "less than 1% of it" begins a sentence as "Less than 1% of it"."""
    return words[:1].upper() + words[1:]


def three_digits(value: float) -> str:
    """Three digits that count; what is a little less than 1 is not called 1."""
    if not math.isfinite(value):
        return amount(value)
    shown = f"{value:.3g}"
    return "more than 0.999" if shown == "1" and value < 1 else shown


def loses(value: float | None) -> str:
    """What a class loses: "loses 0.042 of probability"; of -0.042 "gains 0.042 of probability"."""
    if value is None:
        return "loses an undefined share of probability"
    if value == 0:
        return "loses no probability"
    return f"{'loses' if value > 0 else 'gains'} {amount(abs(value))} of probability"


def more(share: float | None) -> str:
    """How many more are right: "1.5% more", "1.5% fewer", "as many"."""
    if share is None:
        return "an undefined share more"
    if share == 0:
        return "as many"
    shown = f"{abs(share):.1%}"
    shown = "less than 0.1%" if shown == "0.0%" else shown
    return f"{shown} {'more' if share > 0 else 'fewer'}"


def moves(value: float, digits: int = 3) -> str:
    """How far something moves: "moves by 0.042", and of 0 "does not move"."""
    return "does not move" if value == 0 else f"moves by {amount(value, digits)}"
