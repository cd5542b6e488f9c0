"""Plain copies, the ceiling of everything here: the fastest one at hand is what counts."""

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


def compiled() -> Any:
    """stream_copy of stream_copy.c, or None where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        return None
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "stream_copy.so"
        command = [compiler, "-O2", "-shared", "-fPIC", "-pthread", str(_SOURCE), "-o"]
        done = subprocess.run([*command, str(library)], capture_output=True)
        if done.returncode:
            return None
        function = ctypes.CDLL(str(library)).stream_copy
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    function.restype = None
    return function


class Copies:
    """Copies of a number of bytes, half of them read and half written, by every means at hand."""

    def __init__(self, most: int, with_torch: bool) -> None:
        self._source = np.zeros(most // 2 + 64, np.uint8)
        self._target = np.zeros(most // 2 + 64, np.uint8)
        self._source[:] = np.arange(len(self._source)) % 251
        self._stream = compiled()
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
        if self._stream:
            where = (target.ctypes.data, source.ctypes.data, n, threads)
            found["non-temporal"] = lambda: self._stream(*where)
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
