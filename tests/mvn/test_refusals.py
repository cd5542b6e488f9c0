"""What normalization refuses, by message; an array passed as `out` keeps its contents."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cudml
from harness import named, refused
from pool_support import FLOATS, dtype_of, strided

OP = "mean_variance_normalization"
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
INF, NAN = float("inf"), float("nan")


def refuse(exc: type[Exception], *fragments: str, x: Any = X, **kwargs: Any) -> None:
    """The call is refused with these words, and an `out` of the right size is not touched."""
    out = kwargs.pop("out", None)
    if out is None:
        out = np.full(x.shape, 5, x.dtype)
    kwargs.setdefault("axes", (1, 2))
    before = out.tobytes() if isinstance(out, np.ndarray) else None
    with refused(exc, OP, *fragments):
        cudml.mean_variance_normalization(x, out=out, **kwargs)
    if before is not None:
        assert out.tobytes() == before


@pytest.mark.bug("MVN-16")
@pytest.mark.decision("D-MVN-11")
@pytest.mark.parametrize("flags", [(True, True), (False, True), (True, False), (False, False)])
def test_axes_out_of_range_or_twice(flags: tuple[bool, bool]) -> None:
    given = {"use_mean": flags[0], "use_variance": flags[1]}
    for axes, index, value in (
        ((1, 3), 1, "3"), ((-4, 0), 0, "-4"), ((0, 1, 2, 9), 3, "9"), ([0, 2**32], 1, str(2**32)),
        ((1, -(2**70)), 1, str(-(2**70))), ((0, 1, 0), 2, "0"), ((2, 1, -1), 2, "2"),
    ):  # fmt: skip
        refuse(ValueError, f"Axes[{index}]", value, axes=axes, **given)
    refuse(ValueError, "Axes[0] is 3; it must be between -3 and 2", axes=3, **given)
    refuse(ValueError, "Axes[0] is -4; it must be between -3 and 2", axes=-4, **given)
    refuse(ValueError, "Axes", axes=(0, 1, 2, 0, 1), **given)


@pytest.mark.core
@pytest.mark.bug("MVN-16")
@pytest.mark.decision("D-MVN-11")
@pytest.mark.parametrize("axis", [8, 9, -9])
def test_axes_beside_eight_dimensions(axis: int) -> None:
    """No operator looks behind the last of eight sizes for them."""
    x = np.ones((2, 1, 2, 1, 3, 1, 1, 2), np.float32)
    calls = {
        OP: lambda: cudml.mean_variance_normalization(x, axes=axis, return_statistics=True),
        "normalization_statistics": lambda: cudml.normalization_statistics(x, axes=axis),
        f"{OP}_grad": lambda: cudml.mean_variance_normalization_grad(x, x, axes=axis),
    }
    for op, call in calls.items():
        with refused(ValueError, op, "Axes", str(axis)):
            call()


@pytest.mark.parametrize("axis", [1.0, "1", None, True, np.False_, 1j, np.float32(1)], ids=repr)
def test_kind_of_axes(axis: Any) -> None:
    refuse(TypeError, "Axes", axes=axis)
    refuse(TypeError, "Axes[1]", axes=(0, axis))


def test_axes_must_be_given() -> None:
    with refused(TypeError, OP, "axes"):
        cudml.mean_variance_normalization(X)


@pytest.mark.bug("MVN-08")
@pytest.mark.decision("D-MVN-8", "D-MVN-9", "D-MVN-14")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("use_variance", [True, False])
def test_values_of_epsilon(use_variance: bool, dtype: str) -> None:
    x = X.astype(dtype_of(dtype))
    values = [-1, -1e-5, NAN, INF, -INF, np.float32(-1), 10**400]
    values += [-1e-60, -5e-324] if dtype == "float64" else [1e39, 3.5e38, -1e-45, -1e39]
    for epsilon in values:
        refuse(ValueError, "Epsilon", x=x, epsilon=epsilon, use_variance=use_variance)
    must = "it must be finite and not" if dtype == "float64" else "it must be finite as a FLOAT and"
    refuse(ValueError, "Epsilon is -1;", must, x=x, epsilon=-1, use_variance=use_variance)


@pytest.mark.parametrize("epsilon", ["1e-5", None, 1j, [1e-5], object()], ids=named)
def test_kind_of_epsilon(epsilon: Any) -> None:
    refuse(TypeError, "Epsilon", epsilon=epsilon)


@pytest.mark.decision("D-TEN-4", "D-MVN-14")
@pytest.mark.parametrize("flags", [(True, True), (False, True), (True, False), (False, False)])
def test_zero_sized_reduced_dimension(flags: tuple[bool, bool]) -> None:
    given = {"use_mean": flags[0], "use_variance": flags[1]}
    x = np.empty((2, 0, 3), np.float32)
    refuse(ValueError, "InputTensor.Sizes[1] is 0", x=x, axes=1, **given)
    refuse(ValueError, "InputTensor.Sizes[1] is 0", x=x, axes=(0, -2), **given)


@pytest.mark.bug("MVN-13")
@pytest.mark.parametrize("name", ["scale", "bias"])
def test_sizes_of_parameters(name: str) -> None:
    field = f"{name.title()}Tensor"
    for sizes, index in (((1, 2, 4), 1), ((2, 3, 5), 2), ((3, 1, 1), 0), ((1, 1, 0), 2)):
        refuse(ValueError, f"{field}.Sizes[{index}]", str(sizes[index]),
               **{name: np.ones(sizes, np.float32)})  # fmt: skip
    for sizes in ((4,), (3, 4), (1, 2, 3, 4), (), (1,) * 9):
        refuse(ValueError, field, **{name: np.ones(sizes, np.float32)})


WRONG = {
    "float32": ("float64", "float16", "bfloat16", "int32"),
    "float64": ("float32", "float16", "int64"),
    "float16": ("float64", "bfloat16", "int8"),
    "bfloat16": ("float64", "float16", "uint16"),
}


@pytest.mark.decision("D-MVN-15")
@pytest.mark.parametrize("name", ["scale", "bias"])
@pytest.mark.parametrize("dtype", WRONG)
def test_types_of_parameters(dtype: str, name: str) -> None:
    for other in WRONG[dtype]:
        parameter = np.ones((1, 1, 4), dtype_of(other))
        x = X.astype(dtype_of(dtype))
        refuse(TypeError, f"{name.title()}Tensor", other, dtype, x=x, **{name: parameter})


@pytest.mark.parametrize("name", ["scale", "bias"])
@pytest.mark.parametrize("value", [1.0, [1.0], "1", object()], ids=named)
def test_kind_of_parameters(name: str, value: Any) -> None:
    refuse(TypeError, name, **{name: value})


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint32", "complex64", "O", ">f4"])
def test_element_types(dtype: str) -> None:
    with refused(TypeError, OP):
        cudml.mean_variance_normalization(np.zeros((2, 2), dtype), axes=1)


@pytest.mark.parametrize("rank", [0, 9, 20])
def test_ranks(rank: int) -> None:
    with refused(ValueError, OP, str(rank), "8"):
        cudml.mean_variance_normalization(np.ones((1,) * rank, np.float32), axes=())


@pytest.mark.parametrize("x", [None, 3.0, [1.0, 2.0], "abc", object()], ids=named)
def test_kind_of_input(x: Any) -> None:
    with refused(TypeError, OP):
        cudml.mean_variance_normalization(x, axes=0)


@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 12), (1, 2, 3, 4), (24,), ()], ids=str)
def test_sizes_of_out(shape: tuple[int, ...]) -> None:
    refuse(ValueError, "OutputTensor", out=np.full(shape, 5, np.float32))


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32"])
def test_type_of_out(dtype: str) -> None:
    refuse(TypeError, "float32", dtype, out=np.full(X.shape, 5, dtype))


def test_read_only_reversed_or_overlapping_out() -> None:
    out = np.full(X.shape, 5, np.float32)
    refuse(ValueError, "out", out=out[:, ::-1])
    out.flags.writeable = False
    refuse(ValueError, "out", out=out)
    shared = strided(np.full(99, 5.0, "f4"), X.shape, (3, 1, 1))
    refuse(ValueError, "OutputTensor", out=shared)


@pytest.mark.parametrize(
    "call",
    [{"eps": 1}, {"axis": 1}, {"p": 2}, {"stream": None, "size": 3}],
    ids=lambda c: next(iter(c)),
)
def test_unknown_keywords(call: dict[str, Any]) -> None:
    refuse(TypeError, next(k for k in call if k != "stream"), **call)


def test_flags_and_axes_are_keywords() -> None:
    with refused(TypeError, OP):
        cudml.mean_variance_normalization(X, None, None, (1, 2))


@pytest.mark.parametrize("flag", ["use_mean", "use_variance"])
@pytest.mark.parametrize("value", ["yes", None, 1.0, []], ids=repr)
def test_kind_of_flags(flag: str, value: Any) -> None:
    field = {"use_mean": "UseMean", "use_variance": "UseVariance"}[flag]
    refuse(TypeError, field, **{flag: value})


@pytest.mark.parametrize("stream", [0, 1, 2])
def test_a_stream_is_for_cuda_arrays(stream: int) -> None:
    refuse(ValueError, "stream", stream=stream)


@pytest.mark.decision("D-MVN-19", "D-TEN-2")
def test_partial_overlap_is_refused() -> None:
    base = np.arange(60, dtype=np.float32)
    x = base[4:28].reshape(2, 3, 4)
    refuse(ValueError, "overlap", x=x, out=base[5:29].reshape(2, 3, 4))
    refuse(ValueError, "overlap", x=x, out=base[16:40].reshape(2, 3, 4))
    square = np.arange(16, dtype=np.float32).reshape(4, 4)
    refuse(ValueError, "overlap", x=square, out=square.T, axes=1)
    wide = np.arange(32, dtype=np.float32)
    refuse(ValueError, "overlap", x=wide[:16].reshape(4, 4), axes=1,
           out=strided(wide, (4, 4), (5, 1)))  # fmt: skip


@pytest.mark.decision("D-TEN-2")
@pytest.mark.parametrize("name", ["scale", "bias"])
def test_overlap_with_scale_or_bias_is_refused(name: str) -> None:
    out = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    refuse(ValueError, "overlap", out=out, **{name: out[1:, :1]})
    refuse(ValueError, "overlap", out=out, **{name: out})
    x = X.copy()
    refuse(ValueError, "overlap", x=x, out=x, **{name: x[:1]})


@pytest.mark.small
@pytest.mark.decision("D-TEN-2")
def test_inputs_may_overlap_each_other_and_views_may_interleave() -> None:
    want = cudml.mean_variance_normalization(X, X.copy(), X[:1].copy(), axes=1)
    assert (cudml.mean_variance_normalization(X, X, X[:1], axes=1) == want).all()
    base = np.arange(48, dtype=np.float32).reshape(2, 3, 8)
    x, out = base[..., ::2], base[..., 1::2]
    want = cudml.mean_variance_normalization(x.copy(), axes=2)
    assert cudml.mean_variance_normalization(x, axes=2, out=out) is out
    assert np.allclose(out, want, atol=1e-6)
    assert (x == np.arange(0, 48, 2).reshape(2, 3, 4)).all()


IN_PLACE: dict[str, tuple[tuple[int, ...], Any]] = {
    "short rows": ((37, 5), 1),
    "long rows": ((3, 70001), 1),
    "columns": ((3001, 67), 0),
    "one group of 2**20": ((2**20,), 0),
    "one group of two axes": ((1030, 1021), (0, 1)),
    "planes": ((2, 3, 65, 66), (2, 3)),
    "batch": ((3, 5, 40, 41), (0, 2, 3)),
    "no axes": ((50, 60), ()),
    "the outer axes of three": ((40, 50, 33), (0, 1)),
}


@pytest.mark.core
@pytest.mark.small
@pytest.mark.decision("D-MVN-19", "D-TEN-2")
@pytest.mark.parametrize("case", IN_PLACE)
def test_in_place_equals_out_of_place(case: str) -> None:
    shape, axes = IN_PLACE[case]
    values = np.random.default_rng(1).standard_normal(shape, np.float32)
    options = ({}, {"use_mean": False}, {"use_variance": False, "activation": "gelu"})
    for dtype, flags in itertools.product(FLOATS, options):
        x = values.astype(dtype_of(dtype))
        scale = x[tuple(slice(0, 1) for _ in shape[1:])].copy()
        want = cudml.mean_variance_normalization(x, scale, scale, axes=axes, **flags)
        y = x.copy()
        assert cudml.mean_variance_normalization(y, scale, scale, axes=axes, out=y, **flags) is y
        assert y.tobytes() == want.tobytes(), (dtype, flags)


@pytest.mark.small
@pytest.mark.decision("D-MVN-19", "D-TEN-2")
@pytest.mark.parametrize("strides", [(1, 40), (41, 1), (2, 80)], ids=str)
def test_in_place_in_a_strided_view(strides: tuple[int, int]) -> None:
    base = np.random.default_rng(2).standard_normal(4000).astype(np.float32)
    before = base.copy()
    x = strided(base, (30, 40), strides)
    twin = strided(base, (30, 40), strides)
    want = cudml.mean_variance_normalization(x, axes=1)
    cudml.mean_variance_normalization(x, axes=1, out=twin)
    assert (twin == want).all()
    touched = np.zeros(4000, bool)
    strided(touched, (30, 40), strides)[...] = True
    assert (base[~touched] == before[~touched]).all()
