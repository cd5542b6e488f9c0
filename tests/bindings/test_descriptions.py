"""What `explain` reads of things that have a shape and a type, and the text it answers with."""

from __future__ import annotations

import dataclasses
import types
from typing import Any

import numpy as np
import pytest

import cudml
from cudml import _description
from harness import refused


def test_every_line_of_an_explanation() -> None:
    facts: dict[str, Any] = {
        "operator": "normalize", "device": "sm_90", "kernel": "b", "reason": "b: y; not a, which x",
        "bytes": 24, "workspace_bytes": 36, "grid": (3, 1, 1), "block": (64, 1, 1),
        "shared_bytes": 128, "cluster_blocks": 2, "pooled_axes": (1,),
    }  # fmt: skip
    lines = {
        "": "normalize on sm_90: b",
        "pooled_axes": "  pools      dimension 1",
        "reason": "  because    y\n  not        a, which x",
        "bytes": "  bytes      24, each input read once, each output written once",
        "grid": "  launch     3 blocks of 64 threads in clusters of 2, 128 bytes of shared memory",
        "workspace_bytes": "  workspace  36 bytes",
    }
    assert str(cudml.Explanation(**facts)) == "\n".join(lines.values())
    for field, nothing in (("pooled_axes", None), ("grid", None), ("workspace_bytes", 0)):
        less = cudml.Explanation(**{**facts, field: nothing})
        assert str(less) == "\n".join(line for f, line in lines.items() if f != field)
    alone = cudml.Explanation(**{**facts, "grid": (1, 1, 1), "cluster_blocks": 1})
    assert "  launch     1 block of 64 threads, 128 bytes of" in str(alone)
    assert " of 64 threads\n" in str(dataclasses.replace(alone, shared_bytes=0))


def test_explanations_and_kernels_are_values() -> None:
    x = np.zeros((1, 1, 4, 4), np.float32)
    for make_one in (lambda: cudml.explain("max_pooling", x, 2), lambda: cudml.kernels("pad")[0]):
        one, other = make_one(), make_one()
        assert one == other and hash(one) == hash(other)
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.kernel = "other"


@pytest.mark.parametrize("kind, device", [(1, -1), (2, 3), (3, -1), (13, 3)])
def test_where_described_arrays_live(kind: int, device: int) -> None:
    """On a GPU by DLPack's numbers of CUDA and of managed memory; the host's pinned one is not."""
    x = types.SimpleNamespace(shape=(2, 3), dtype="float32", __dlpack_device__=lambda: (kind, 3))
    assert _description.describe(x) == ("float32", (2, 3), None, 0, device)


@pytest.mark.parametrize("strides", [None, (0,), (-1,), (4,)])
@pytest.mark.parametrize(
    "dtype", ["S", "V", str, np.dtype("V0"), "i4,,f", "f4,(", "(9999999999,)f4"]
)
def test_types_without_size_or_sense(dtype: Any, strides: Any) -> None:
    """NumPy reads some as types of no bytes and fails at others in ways of its own."""
    more = {} if strides is None else {"strides": strides}
    x = types.SimpleNamespace(shape=(3,), dtype=dtype, **more)
    with refused(TypeError, "padding: InputTensor.DataType (x) is ", "it must be one of float16"):
        cudml.explain("padding", x, 1, 1)


@pytest.mark.parametrize("field", ["shape", "strides"])
def test_descriptions_of_other_than_whole_numbers(field: str) -> None:
    said = f"padding: InputTensor (x) has a description whose {field} is "
    for given, shown in (
        ((3.5,), "3.5"), (("3",), "'3'"), ("3", "'3'"), ((None,), "None"), (((3,),), "(3,)"),
        (3, "no tuple but 3"), (np.zeros((1, 1)), "array([0.])"),
    ):  # fmt: skip
        x = types.SimpleNamespace(**{"shape": (3,), "dtype": "float32", field: given})
        with refused(BufferError, said + shown):
            cudml.explain("padding", x, 1, 1)
    for wholes in ((np.int64(3),), [3], np.array([3])):
        x = types.SimpleNamespace(shape=wholes, dtype="float32")
        assert cudml.explain("padding", x, 1, 1).bytes == 4 * (3 + 5)
