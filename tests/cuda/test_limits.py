"""What hardware refuses or counts otherwise: shared memory, huge grids, kernels' first loads."""

from __future__ import annotations

import json
import mmap
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import _backend, _operators
from directml_support import desc_of, tensor
from folders import ROOT
from harness import data
from streams_support import COMPILED, Lent, logged, none_loaded, stream

MAP_NORESERVE = 0x4000
SHARED = 48 << 10  # bytes of a block that need no opt-in


class Sparse:
    """Zeros of any size, of which pages that are touched alone take memory."""

    def __init__(self, size: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
        self.size, self._pages = size, mmap.mmap(-1, size, flags=flags)
        self.address = self.bytes().ctypes.data

    def bytes(self) -> np.ndarray:
        return np.frombuffer(self._pages, np.uint8)


def sparse(shape: tuple[int, ...], dtype: str) -> Any:
    from device_array import InterfaceArray

    kind = np.dtype(dtype)
    steps = tuple(int(np.prod(shape[a + 1 :])) * kind.itemsize for a in range(len(shape)))
    size = int(np.prod(shape)) * kind.itemsize
    return InterfaceArray(Sparse(size), 0, shape, steps, kind)  # type: ignore[arg-type]


# --- shared memory ---


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_staged_rows_near_the_limit(dtype: str, simulated: Any) -> None:
    """Dynamic bytes below 48 KiB that a kernel's own variables carry beyond."""
    item = np.dtype(dtype).itemsize
    for bytes_of_row in (SHARED - 1024, SHARED - 768, SHARED - 752, SHARED - 16, SHARED,
                         SHARED + 16):  # fmt: skip
        length = bytes_of_row // item
        x = data((2, length + 1), dtype)[:, :length]  # rows that no vector fits
        got = _operators.mean_variance_normalization(simulated.to_device(x), axes=1)
        whole = np.ascontiguousarray(x)
        want = _operators.mean_variance_normalization(simulated.to_device(whole), axes=1)
        assert got.home().tobytes() == want.home().tobytes(), bytes_of_row


def test_variables_leave_room_below_the_opt_in() -> None:
    """Launches ask for nothing up to this many dynamic bytes, whatever a kernel's variables."""
    text = (ROOT / "csrc/cuda/launch.cuh").read_text()
    unasked = int(re.search(r"kMostUnaskedDynamic = (\d+) << 10", text)[1]) << 10  # type: ignore[index]
    kernels = json.loads((ROOT / "tools/kernel_budget.json").read_text())["kernels"]
    assert max(max(k.get("shared", [0])) for k in kernels.values()) + unasked <= SHARED


# --- huge grids ---


def test_grids_beyond_2_25_blocks(simulated: Any) -> None:
    """float16 rows that fit a large GPU; the simulated one runs blocks around powers of two."""
    shape, rows = (1_200_000_000, 8), 32  # of a block
    x, y = sparse(shape, "float16"), sparse(shape, "float16")
    last = (shape[0] - 1) // rows
    powers = [2**k + d for k in range(20, 28) for d in (-1, 0, 1) if 2**k + d < last]
    starts = [block * rows for block in [0, 1, *powers, last - 1, last]]
    few = data((len(starts), shape[1]), "float16")
    for start, row in zip(starts, few, strict=True):
        x.view()[start] = row
    _operators.mean_variance_normalization(x, axes=1, out=y)
    want = _operators.mean_variance_normalization(simulated.to_device(few), axes=1).home()
    wrong = [start for start, row in zip(starts, want, strict=True)
             if y.view()[start].tobytes() != row.tobytes()]  # fmt: skip
    assert not wrong


@pytest.mark.parametrize("shape", [(2**23 + 5, 3, 16), (2**28 + 5, 5, 3)], ids=str)
def test_short_columns_of_more_than_2_26_groups(
    shape: tuple[int, int, int], simulated: Any
) -> None:
    """They get the kernel of few groups, and so its bits, also with more than 2^30 rows in all."""
    x, y = sparse(shape, "float16"), sparse(shape, "float16")
    powers = range(20, shape[0].bit_length())  # a block for each of the first dimension
    starts = [0, 1, *(2**k + d for k in powers for d in (-1, 0, 1)), shape[0] - 1]
    few = data((len(starts), *shape[1:]), "float16")
    for start, part in zip(starts, few, strict=True):
        x.view()[start] = part
    kernel = cudml.explain("mean_variance_normalization", x, axes=1).kernel
    assert (
        kernel == cudml.explain("mean_variance_normalization", few, axes=1, device="sm_90").kernel
    )
    _operators.mean_variance_normalization(x, axes=1, out=y)
    want = _operators.mean_variance_normalization(simulated.to_device(few), axes=1).home()
    wrong = [start for start, part in zip(starts, want, strict=True)
             if y.view()[start].tobytes() != part.tobytes()]  # fmt: skip
    assert not wrong


PRODUCT = re.compile(
    r"\b(?:blockIdx|gridDim)\.\w\W*?\*|\*\s*(?:u?int64_t\s*[({]\s*)?(?:blockIdx|gridDim|blockDim)\."
)


def products(source: str) -> list[str]:
    """Lines with a product of the places or sizes of blocks."""
    code = re.sub(r"//.*", "", source)
    return [line.strip() for line in code.splitlines() if PRODUCT.search(line)]


def test_products_of_blocks_are_computed_in_one_place() -> None:
    """32 bits hold none of them in a grid of 2^31 blocks."""
    assert products("uint32_t i = blockIdx.x * blockDim.x;")
    assert products("n = int64_t(gridDim.x) * kThreads;")
    assert products("n = kThreads * blockIdx.x;")
    assert not products("g = blockIdx.x; // * blockDim.x") and not products("a = blockDim.x / n;")
    found = {
        path.name: lines
        for path in sorted((ROOT / "csrc/cuda").glob("*.cu*"))
        if (lines := products(path.read_text()))
    }
    assert set(found) == {"grid.cuh"}, found


# --- kernels that are loaded late ---


def last_first(*sizes: int) -> Any:
    """A tensor whose second dimension is the fastest one."""
    n, c, h, w = sizes
    return tensor([n, c, h, w], "FLOAT16", Strides=[c * h * w, 1, w * c, c])


WIDE = {"InputTensor": last_first(2, 8, 4, 4), "OutputTensor": last_first(2, 8, 3, 3)}
GRADIENT = {"InputGradientTensor": last_first(2, 8, 3, 3),
            "OutputGradientTensor": last_first(2, 8, 4, 4)}  # fmt: skip
# Operators with kernels for several widths of vectors: name and changed fields.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in COMPILED},
    "padding of bytes": ("Padding1", {
        "InputTensor": tensor([2, 3, 4, 32], "UINT8"), "PaddingValueDataType": "UINT8",
        "OutputTensor": tensor([2, 3, 4, 64], "UINT8"),
        "StartPadding": [0, 0, 0, 16], "EndPadding": [0, 0, 0, 16],
    }),
    "channels last": ("MaxPooling2", WIDE),
    "channels last, average": ("AveragePooling1", WIDE),
    "channels last, gradient": ("MaxPoolingGrad", {
        "InputTensor": last_first(2, 8, 4, 4), **GRADIENT,
    }),
    "channels last, average gradient": ("AveragePoolingGrad", GRADIENT),
}  # fmt: skip


def placed_like(described: Any, seed: int, lead: int) -> Any:
    """A tensor's array, at an odd multiple of `lead` bytes."""
    from device_array import InterfaceArray

    kind = np.dtype(described.DataType.name.lower())
    steps = described.Strides or packed(described.Sizes)
    strides = tuple(s * kind.itemsize for s in steps)
    made = InterfaceArray.empty(tuple(described.Sizes), kind, strides, lead)
    made.view()[...] = data(made.shape, kind.name, seed)
    return made


def packed(sizes: Any) -> list[int]:
    return [int(np.prod(sizes[d + 1 :])) for d in range(len(sizes))]


@pytest.mark.parametrize("name", VARIANTS)
def test_compile_loads_the_kernels_of_every_alignment(name: str, simulated: Any) -> None:
    """All that a capture may meet, since the driver loads a kernel by waiting for the device."""
    core = _backend.core
    operator, fields = VARIANTS[name]
    desc = desc_of(operator, **fields)
    given = [getattr(desc, f, None) for f in ("InputTensor", "InputGradientTensor")]
    result = desc.OutputGradientTensor if operator.endswith("Grad") else desc.OutputTensor
    item = np.dtype(result.DataType.name.lower()).itemsize
    leads = [lead for lead in (1, 2, 4, 8, 16, 32, 64, 128, 256) if lead % item == 0]
    for lead, out_lead in [*((n, n) for n in leads), *((n, 256) for n in leads),
                           *((256, n) for n in leads)]:  # fmt: skip
        inputs = [placed_like(t, i, lead) for i, t in enumerate(given) if t is not None]
        out = placed_like(result, 9, out_lead)
        with none_loaded(), stream() as on:
            run = cudml.Operator(desc).compile("cuda:0")
            with logged() as log:
                core.simt_begin_capture(on)
                run(*inputs, out=out, stream=on)
                graph = core.simt_end_capture(on)
            assert log.launches and not log.of("load"), (lead, out_lead)
            core.simt_launch_graph(graph, on)
            core.simt_destroy_graph(graph)


def test_kernels_that_a_test_has_forgotten_come_back(simulated: Any) -> None:
    """The library, which loads a kernel once, may launch them in a capture."""
    call, core = Lent("max_pooling"), _backend.core
    call()
    with none_loaded(), logged() as log:
        call()
    assert log.of("load")
    with stream() as on, logged() as log:
        core.simt_begin_capture(on)
        call(stream=on)
        core.simt_destroy_graph(core.simt_end_capture(on))
    assert log.launches and not log.of("load")


FIRST = """
import sys
sys.path[:0] = sys.argv[1:]
from cudml import _backend
import simt_build
core = _backend.core = simt_build.module()
from streams_support import Lent, logged, stream
for label in ("max_pooling", "padding", "mean_variance_normalization"):
    call = Lent(label)
    with stream() as on:
        with logged() as log:
            core.simt_begin_capture(on)
            call(stream=on)
            graph = core.simt_end_capture(on)
        assert log.of("load") and call.is_poison(), label
        core.simt_launch_graph(graph, on)
        assert not call.is_poison(), label
"""


def test_functions_that_are_first_called_in_a_capture(simulated: Any) -> None:
    """Their kernels are loaded without breaking it."""
    command = [sys.executable, "-c", FIRST, str(ROOT / "tests"), str(ROOT / "tests/support")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
