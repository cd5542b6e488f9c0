"""A progress bar on standard error, drawn only where a person watches: on a terminal."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TextIO

_WIDTH = 24


class Progress:
    """Counts steps and says which one is at work; a plain file or pipe sees nothing of it."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._stream: TextIO | None = sys.stderr if stream is None else stream
        self._total = max(total, 1)
        self._done = 0
        self._shown = self._stream is not None and self._stream.isatty()

    def step(self, label: str) -> None:
        """Announce the next step, before its work begins."""
        if self._stream and self._shown:
            filled = _WIDTH * self._done // self._total
            bar = "━" * filled + "·" * (_WIDTH - filled)
            if not _can_encode(self._stream, bar):
                bar = "#" * filled + "-" * (_WIDTH - filled)
            self._stream.write(f"\r\x1b[K{bar} {self._done}/{self._total} {label}")
            self._stream.flush()
        self._done += 1

    def clear(self) -> None:
        """Take the bar away, so that an ordinary line can be printed in its place."""
        if self._stream and self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()


def _can_encode(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
