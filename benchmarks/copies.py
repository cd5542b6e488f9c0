"""Memory moved and nothing else, the ceiling of everything here: copies, of which the fastest one
at hand is what counts, and reads beside writes of other sizes."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import cudml

Call = Callable[[], Any]
_SOURCE = Path(__file__).resolve().parent / "stream_copy.c"
_LINE = 64  # bytes


class Moves(ctypes.Structure):
    """Reads and writes, in bytes that are multiples of 64. If `run` is not 0, blocks of `rows` rows
    that are `stride` apart are read `run` bytes of each row at a time, and read again while as
    many are written."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("written", "read", "run", "rows", "stride")]
    _fields_ += [("is_streamed", ctypes.c_int)]


def lines(size: int) -> int:
    """Bytes, rounded up to whole lines."""
    return -(-size // _LINE) * _LINE


def compiled() -> Any:
    """The functions of stream_copy.c, or None where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream_copy.so"
        command = [compiler, "-O2", "-shared", "-fPIC", "-pthread", str(_SOURCE), "-o"]
        done = subprocess.run([*command, str(path)], capture_output=True)
        if done.returncode:
            return None
        library = ctypes.CDLL(str(path))
    at, size = ctypes.c_void_p, ctypes.c_size_t
    library.stream_copy.argtypes = [at, at, size, ctypes.c_int]
    library.stream_copy.restype = None
    library.traffic.argtypes = [at, at, Moves, ctypes.c_int]
    library.traffic.restype = ctypes.c_uint64
    return library


def _uneven(count: int) -> np.ndarray:
    """Bytes of which no sum or exclusive or over whole lines is likely to be zero."""
    return np.resize(np.arange(1, 252, dtype=np.uint8), count)


class Traffic:
    """Reads of some bytes and writes of others, both below `most`; needs a C compiler."""

    def __init__(self, most: int) -> None:
        self._library = compiled()
        if self._library is None:
            raise ImportError("there is no C compiler: plain reads and writes cannot be timed")
        # What is written is the exclusive or of what was read: lines of zeros would be cheaper.
        self._source = _uneven(most + 2 * _LINE)
        self._target = np.ones(most + 2 * _LINE, np.uint8)

    def calls(self, moves: Moves, threads: int) -> dict[str, Call]:
        """The moves with both ways to write."""
        to, source = (a.ctypes.data + -a.ctypes.data % _LINE for a in (self._target, self._source))

        def way(is_streamed: bool) -> Call:
            values = {name: getattr(moves, name) for name, _ in Moves._fields_}
            how = Moves(**{**values, "is_streamed": is_streamed})
            return lambda: self._library.traffic(to, source, how, threads)

        return {"past the caches": way(True), "through the caches": way(False)}


class Copies:
    """Copies of a number of bytes, half of them read and half written, by every means at hand."""

    def __init__(self, most: int, with_torch: bool) -> None:
        self._source = _uneven(most // 2 + 64)
        self._target = np.zeros(most // 2 + 64, np.uint8)
        self._library = compiled()
        self._with_torch = with_torch and importlib.util.find_spec("torch") is not None
        self._others = ThreadPoolExecutor()

    def calls(self, size: int, threads: int) -> dict[str, Call]:
        n = max(size // 2 // 4 * 4, 4)
        source, target = self._source[:n], self._target[:n]
        words = (source.view(np.float32), target.view(np.float32))
        found: dict[str, Call] = {
            "cudml padding by zero": lambda: cudml.padding(words[0], 0, 0, out=words[1]),
            "NumPy": self._parts(source, target, threads),
        }
        if self._library:
            where = (target.ctypes.data, source.ctypes.data, n, threads)
            found["non-temporal"] = lambda: self._library.stream_copy(*where)
        if not self._with_torch:
            return found
        import torch

        a, b = (torch.from_numpy(w) for w in words)
        return {**found, "PyTorch": lambda: b.copy_(a)}

    def _parts(self, source: np.ndarray, target: np.ndarray, threads: int) -> Call:
        if threads == 1:
            return lambda: np.copyto(target, source)
        parts = list(
            zip(np.array_split(target, threads), np.array_split(source, threads), strict=True)
        )

        def copy() -> None:
            waiting = [self._others.submit(np.copyto, *part) for part in parts[1:]]
            np.copyto(*parts[0])
            for one in waiting:
                one.result()

        return copy
