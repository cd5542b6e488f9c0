"""Whole numbers among the words of a command."""

from __future__ import annotations

_MOST_DIGITS = 640  # that int() reads, whatever its limit is set to


def is_number(text: str) -> bool:
    """Whether a word is a whole number of at least 0, written in digits alone."""
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
