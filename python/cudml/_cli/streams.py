"""Standard output and standard error, which may be closed, full, or read by nobody any more."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TextIO, cast

from .failure import Failure


def prepare() -> None:
    """Have both streams show what they cannot encode, as in names of files."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def check_output() -> None:
    """Refuse to work for nobody, where the process was started with it closed."""
    if sys.stdout is None:
        raise Failure("standard output is closed")


def flush() -> None:
    """Write out what waits, here and not when the interpreter ends and can only complain."""
    if sys.stdout is not None:
        sys.stdout.flush()


def discard_output() -> None:
    """Drop what waits and cannot be written, so that the interpreter's last flush succeeds."""
    _discard(sys.stdout)


def _discard(stream: TextIO | None) -> None:
    with contextlib.suppress(AttributeError, OSError, ValueError):  # closed, or no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), cast(TextIO, stream).fileno())


def complain(text: str) -> None:
    """One line on standard error, if there is one."""
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    if sys.stderr is None:
        return
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)  # or the interpreter ends with a status of its own


def reason(error: OSError) -> str:
    """What the system says, with the file where there is one."""
    text = error.strerror or str(error) or type(error).__name__
    return f"{os.fsdecode(error.filename)}: {text}" if error.filename else text
