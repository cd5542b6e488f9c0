"""Where every way to compute a problem is forced in turns: on the CPU, and on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from arrays import Arrays, keep_touched_memory, numpy_arrays, poison
from contenders import cudml_calls
from measure import Call, wall_clock
from problems import Problem

import cudml


class OnCpu:
    """Its paths."""

    name = "cpu"
    goals = (1.02, 1.10)  # of regret: geometric mean and worst
    clock = staticmethod(wall_clock)

    def begin(self) -> None:
        keep_touched_memory()

    def arrays(self, problem: Problem) -> Arrays:
        return numpy_arrays(problem)

    def call(self, arrays: Arrays) -> Call:
        """A new one, which a clock can tell from others of the same problem."""
        return cudml_calls.ways(arrays)["out="]

    def set_threads(self, threads: int) -> None:
        cudml.set_num_threads(threads)

    def poison(self, arrays: Arrays) -> None:
        for name in arrays.problem.outputs:
            poison(arrays.base[name])

    def host(self, array: Any) -> np.ndarray:
        return np.asarray(array)


class OnCuda:
    """A GPU's kernels, on buffers that rotate through more than its L2."""

    name = "cuda"
    goals = (1.03, 1.15)

    def begin(self) -> None:
        from device_cuda import Cuda

        self._device = Cuda([])
        self.clock = self._device.clock

    def arrays(self, problem: Problem) -> Arrays:
        return self._device.arrays(problem)

    def call(self, arrays: Arrays) -> Call:
        return self._device.rotating("out=")

    def set_threads(self, threads: int) -> None:
        """There are none to set."""

    def poison(self, arrays: Arrays) -> None:
        self._device.poison(arrays)

    def host(self, array: Any) -> np.ndarray:
        from device_cuda import host

        return host(array)


PLACES: dict[str, Any] = {"cpu": OnCpu, "cuda": OnCuda}
CPU = OnCpu()
