"""Processes that run problems, watched: what dies or stands still is noted and gone on from."""

from __future__ import annotations

import json
import mmap
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import worker
from problem import Problem

HERE = Path(__file__).resolve().parent
STILL = 60.0  # seconds after which a problem counts as one that never ends


@dataclass
class Setup:
    """What all processes run under: more environment variables."""

    environment: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def sanitized() -> Setup:
        """The module built under AddressSanitizer and UndefinedBehaviorSanitizer."""
        import sanitized

        return Setup(sanitized.environment("core", ""))

    def variables(self, more: dict[str, str]) -> dict[str, str]:
        found = {**os.environ, **self.environment, **more}
        if worker.ON_DEVICE in found:  # that module has one instruction set
            found.pop("CUDML_CPU_ISA", None)
        paths = [str(HERE), str(HERE.parent / "support"), *filter(None, [found.get("PYTHONPATH")])]
        return {**found, "PYTHONPATH": os.pathsep.join(paths)}


class Lane:
    """Runs every `jobs`-th chunk of a family's problems, one process at a time."""

    def __init__(
        self, setup: Setup, family: str, seed: int, first: int, jobs: int, until: float
    ) -> None:
        self.setup, self.family, self.seed, self.until = setup, family, seed, until
        self.jobs, self.next = jobs, first
        self.end = (first // worker.CHUNK + 1) * worker.CHUNK
        self.problems = self.calls = 0
        self.faults: list[tuple[int, str]] = []
        self._finished_problems = self._finished_calls = 0
        self._file = tempfile.NamedTemporaryFile()  # noqa: SIM115
        self._file.truncate(worker.NUMBERS.size)
        self.shared = mmap.mmap(self._file.fileno(), worker.NUMBERS.size)
        self.process: subprocess.Popen[str] | None = None

    def _start(self) -> None:
        self.begun = self.next
        self.shared[:] = worker.NUMBERS.pack(self.next, 0, time.time())
        words = [self.family, self.seed, self.next, self.end, self.until, self._file.name]
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(HERE / "worker.py"), *map(str, words)],
            env=self.setup.variables(worker.settings(self.next)),
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )

    def poll(self) -> bool:
        """Notes what has happened; whether there is more to come."""
        if self.process is None:
            if time.time() >= self.until:
                return False
            self._start()
        assert self.process
        number, calls, since = worker.NUMBERS.unpack(self.shared[:])
        ended = self.process.poll() is not None
        if not ended and time.time() - since > STILL:
            self.process.kill()
        self._read(wait=ended)
        if ended:
            number, calls, since = worker.NUMBERS.unpack(self.shared[:])
        self.problems = self._finished_problems + number - self.begun
        self.calls = self._finished_calls + calls
        if ended:
            self._ended(number)
        return True

    def _read(self, wait: bool) -> None:
        assert self.process and self.process.stdout
        while wait or select.select([self.process.stdout], [], [], 0)[0]:
            line = self.process.stdout.readline()
            if not line:
                return
            found = json.loads(line)
            self.faults.append((found["number"], found["fault"]))

    def _ended(self, number: int) -> None:
        assert self.process
        status, self.process = self.process.returncode, None
        self._finished_problems, self._finished_calls = self.problems, self.calls
        if status:
            self.log.seek(0)
            self.faults.append((number, died(status, self.log.read())))
        self.next = number + 1 if status else max(number, self.begun + 1)
        if self.next >= self.end:
            self.next = self.end + (self.jobs - 1) * worker.CHUNK
            self.end = self.next + worker.CHUNK

    def stop(self) -> None:
        self.until = 0.0
        if self.process:
            self.process.terminate()
            self.process.wait()
            self._read(wait=True)
            number, self.calls = worker.NUMBERS.unpack(self.shared[:])[:2]
            self.calls += self._finished_calls
            self.problems = self._finished_problems + number - self.begun
            self.process = None


def died(status: int, log: str) -> str:
    """What ended a process, with the sanitizer's word or the last line that it left."""
    name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    lines = [line for line in log.splitlines() if line.strip()]
    told = [line for line in lines if "ERROR: AddressSanitizer" in line or "runtime error" in line]
    told += [line for line in lines if line.lstrip().startswith("#") and "csrc" in line][:3]
    return f"the process ended by {name}: {' '.join(told or lines[-1:])[:600]}"


class Server:
    """A process that judges problems given to it, started again where one ends it."""

    def __init__(self, setup: Setup, settings: dict[str, str]) -> None:
        self.variables = setup.variables(settings)
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: Any) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()

    def fault(self, problem: Problem) -> str:
        """What is wrong with it, or nothing."""
        if self.process is None:
            self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
            self.process = subprocess.Popen(
                [sys.executable, "-W", "ignore", str(HERE / "serve.py")],
                env=self.variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.log,
                text=True,
            )
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(problem.to_json() + "\n")
            self.process.stdin.flush()
            if not select.select([self.process.stdout], [], [], STILL)[0]:
                self.process.kill()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            return str(json.loads(line))
        status, self.process = self.process.wait(), None
        self.log.seek(0)
        return died(status, self.log.read())
