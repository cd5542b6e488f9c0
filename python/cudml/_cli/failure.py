"""The one exception of the commands: a line for the user and the exit status that goes with it."""

from __future__ import annotations


class Failure(Exception):
    """Ends a command with one line on standard error; 2 means that nothing could be run."""

    def __init__(self, line: str, status: int = 2) -> None:
        super().__init__(line)
        self.status = status
