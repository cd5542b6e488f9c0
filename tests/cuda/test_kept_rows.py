"""Long rows that stay in shared memory, of one block or of a cluster, beside the kernel that reads
them twice: whoever keeps a part of a row, its bits are the same, and right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backends
import cudml
import harness
from expected import expected
from kernel_case import environment

OP = "mean_variance_normalization"
KEPT = ("mvn_cluster", "mvn_shared")
ACCESS = 16  # bytes
TILE = 256 * 4 * ACCESS  # bytes that the threads of a part take at once
SEEDS = ("0", "1", "2", "3")


def length(dtype: str, tiles: float, more: int = 0) -> int:
    """Elements of a row of so many tiles, and some."""
    return int(tiles * TILE) // np.dtype(dtype).itemsize + more


# Parts of a row are whole tiles, of which the last may be broken; clusters have 2, 4 or 8 blocks of
# one part each, or 8 of several, whose teams take them in turn.
LENGTHS = {
    "less than an access": (0, 3),
    "one part": (1, 5),
    "two parts": (2, 0),
    "three parts of four": (3.3, 1),
    "five parts of eight": (5, 7),
    "eight parts": (8, 0),
    "nine parts, two a block": (9.4, 2),
    "as many as one block keeps": (13, 0),
    "thirty parts": (30, 11),
}
PARAMETERS: dict[str, tuple[tuple[int, ...], ...]] = {
    "none": (),
    "one of each row": ((2, 1),),
    "packed": ((1, 0), (1, 0)),
    "bias alone": ((), (1, 0)),
}


def call_of(dtype: str, size: int, given: str, **more: Any) -> dict[str, Any]:
    """Two rows far from zero, of which the second has another mean."""
    x = harness.data((2, size), "float64", size % 97)
    x = (x + np.array([[30.0], [-7.0]])).astype(dtype)
    call: dict[str, Any] = {"x": x, "axes": 1}
    for name, shape in zip(("scale", "bias"), PARAMETERS[given], strict=False):
        if shape:
            sizes = tuple(n or size for n in shape)
            call[name] = harness.data(sizes, dtype, len(name))
    return {**call, **more}


def run(kernel: str, call: dict[str, Any], seed: str = "0") -> list[bytes] | str:
    """Bits of the results, or what the kernel needs and has not."""
    device = backends.current()
    with environment(CUDML_KERNEL=kernel, CUDML_SIMT_SEED=seed):
        sent = {k: device.to(v) for k, v in harness.arrays_of(call).items()}
        try:
            result = harness.called(device, OP, harness.with_arrays(call, sent))
        except ValueError as error:
            return str(error).partition("which needs that ")[2]
    results = result if isinstance(result, tuple) else (result,)
    return [device.back(y).tobytes() for y in results if y is not None]


def takers(call: dict[str, Any]) -> dict[str, list[bytes]]:
    """Bits by each of the kernels that can take the call."""
    said = {kernel: run(kernel, call) for kernel in ("mvn_split", *KEPT)}
    return {kernel: found for kernel, found in said.items() if not isinstance(found, str)}


@pytest.mark.device
@pytest.mark.parametrize("size", LENGTHS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_whoever_keeps_the_parts_the_bits_are_those_of_split(dtype: str, size: str) -> None:
    for given in PARAMETERS:
        call = call_of(dtype, length(dtype, *LENGTHS[size]), given, return_statistics=True)
        found = takers(call)
        assert "mvn_cluster" in found
        assert ("mvn_shared" in found) == (size != "thirty parts")
        assert ("mvn_split" in found) == (size != "less than an access")
        assert len({tuple(bits) for bits in found.values()}) == 1, given


@pytest.mark.device
@pytest.mark.parametrize("size", ["three parts of four", "nine parts, two a block"])
@pytest.mark.parametrize("flags", [
    {"use_mean": False}, {"use_variance": False}, {"use_mean": False, "use_variance": False},
    {"activation": "sigmoid"}, {"activation": ("leaky_relu", {"alpha": 0.25}), "epsilon": 2.0},
])  # fmt: skip
def test_flags_and_activations(flags: dict[str, Any], size: str) -> None:
    call = call_of("float16", length("float16", *LENGTHS[size]), "packed", **flags)
    want, found = expected(OP, **call), takers(call)
    assert len({tuple(bits) for bits in found.values()}) == 1
    # Without statistics both rows are one group.
    assert "mvn_cluster" in found and ("mvn_shared" in found or len(flags) == 2)
    for kernel in set(KEPT) & set(found):
        with environment(CUDML_KERNEL=kernel):
            for order in ("A", "C"):
                arrays = harness.arrays_of(call)
                harness.run(backends.current(), OP, call, arrays, want, order)


@pytest.mark.device
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layout", ["misaligned", "sliced", "pieces"])
def test_rows_of_any_layout_have_the_bits_of_packed_ones(layout: str, dtype: str) -> None:
    """x, y or both where no vector fits: rows pass through shared memory element by element."""
    size = length(dtype, 5, 7 if layout != "pieces" else 0)
    call = call_of(dtype, size, "none")
    if layout == "pieces":  # of a row, apart from each other
        piece = length(dtype, 1)
        call = {"x": call["x"].reshape(2, size // piece, piece), "axes": (1, 2)}
    want = expected(OP, **call)
    packed = run("mvn_split", call)
    device = backends.current()
    x = call["x"]
    wide = np.zeros((*x.shape[:-1], x.shape[-1] + 3), x.dtype)
    moved = {
        "misaligned": harness.LAYOUTS["misaligned"],
        "sliced": lambda a: np.copyto(wide[..., 3:], a) or wide[..., 3:],
        "pieces": lambda a: np.copyto(wide[..., :-3], a) or wide[..., :-3],
    }[layout](x)
    for kernel in KEPT:
        assert run(kernel, {**call, "x": moved}) == packed, kernel
        for order in ("A", "C"):
            with environment(CUDML_KERNEL=kernel):
                harness.run(device, OP, call, {"x": moved}, want, order)


@pytest.mark.device("simt")
@pytest.mark.parametrize("seed", SEEDS)
def test_no_order_of_threads_changes_a_bit(seed: str) -> None:
    for size in ("five parts of eight", "nine parts, two a block"):
        call = call_of("float32", length("float32", *LENGTHS[size]), "packed")
        assert run("mvn_cluster", call, seed) == run("mvn_split", call), size
    staged = call_of("float32", length("float32", 2.5, 1), "packed")
    staged["x"] = harness.LAYOUTS["misaligned"](staged["x"])
    assert run("mvn_cluster", staged, seed) == run("mvn_split", staged)
    assert run("mvn_shared", staged, seed) == run("mvn_split", staged)


def chosen(row_bytes: int, dtype: str, device: str) -> cudml.Explanation:
    x = np.broadcast_to(np.zeros(1, dtype), (3, row_bytes // np.dtype(dtype).itemsize))
    return cudml.explain(OP, np.ascontiguousarray(x), axes=1, device=device)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_who_takes_rows_of_which_length(dtype: str) -> None:
    """Registers up to 64 KiB, then a cluster where the GPU has them, else a block, then split."""
    pytest.importorskip("ml_dtypes")
    kib = 1 << 10
    kernels = {
        ("sm_90", 64): "mvn_block",
        ("sm_90", 65): "mvn_cluster",
        ("sm_90", 1700): "mvn_cluster",
        ("sm_90", 1800): "mvn_split",
        ("sm_120", 768): "mvn_cluster",  # 99 KiB of a block
        ("sm_120", 800): "mvn_split",
        ("sm_80", 65): "mvn_shared",
        ("sm_80", 150): "mvn_shared",
        ("sm_80", 170): "mvn_split",
        ("sm_75", 65): "mvn_split",
    }
    for (device, size), kernel in kernels.items():
        assert chosen(size * kib, dtype, device).kernel == kernel, (device, size)


def test_clusters_are_said() -> None:
    found = chosen(128 << 10, "float32", "sm_90")
    assert (found.grid, found.block, found.cluster_blocks) == ((24, 1, 1), (256, 1, 1), 8)
    assert found.shared_bytes == 16 << 10
    assert "24 blocks of 256 threads in clusters of 8, 16384 bytes of shared memory" in str(found)
    alone = chosen(128 << 10, "float32", "sm_80")
    assert alone.cluster_blocks == 1 and "clusters" not in str(alone).split("because")[0]
    assert "not        mvn_cluster, which needs that the GPU runs blocks in clusters" in str(alone)
    on_cpu = cudml.explain(OP, np.zeros((2, 3), "f4"), axes=1)
    assert on_cpu.cluster_blocks is None
