"""The one exception of the commands: a line for the user."""

from __future__ import annotations


class Failure(Exception):
    """Ends a command with this line on standard error and status 2: nothing could be run."""
