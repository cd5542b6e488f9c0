"""A progress bar on standard error: tqdm's, or a line of our own where it is not installed."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any


class Bar:
    """Drawn only on a terminal. Of `total` steps `done` are past when it begins."""

    def __init__(self, total: int, done: int = 0) -> None:
        self._total, self._done, self._bar = total, done, None
        self._shown = sys.stderr.isatty()
        if self._shown and importlib.util.find_spec("tqdm"):
            from tqdm import tqdm

            self._bar = tqdm(total=total, initial=done, unit="row", leave=False, dynamic_ncols=True)

    def step(self, label: str) -> None:
        """Before the work on `label` begins."""
        if self._bar:
            self._bar.set_description_str(label[:48], refresh=True)
        elif self._shown:
            sys.stderr.write(f"\r\x1b[K{self._done}/{self._total} {label}")
            sys.stderr.flush()

    def done(self, line: str) -> None:
        """Prints a line above the bar, unless it is empty."""
        self._done += 1
        if self._bar:
            self._bar.update()
        if not line:
            return
        if self._bar:
            self._bar.write(line, file=sys.stdout)
        else:
            self.clear()
            print(line, flush=True)

    def clear(self) -> None:
        if self._bar:
            self._bar.clear()
        elif self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._bar:
            self._bar.close()
        self.clear()
