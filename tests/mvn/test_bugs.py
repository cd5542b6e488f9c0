"""Normalization cases that broke other libraries, one test for each row of the table."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import pytest

import cudml
from folders import ROOT
from harness import check, data
from pool_support import FLOATS, bits, dtype_of, same_bits, sparse, strided

OP = "mean_variance_normalization"
FLAT = ("contiguous",)


def normalize(x: np.ndarray, *args: Any, **kwargs: Any) -> np.ndarray:
    return cudml.mean_variance_normalization(x, *args, **kwargs)


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("MVN-01")
@pytest.mark.decision("D-MVN-4")
@pytest.mark.parametrize("offset", [40000, 80000, 1e6, 1e7])
def test_four_consecutive_numbers_far_from_zero(offset: float) -> None:
    x = (offset + np.arange(4)).astype(np.float32)
    y = normalize(x, axes=0, epsilon=1e-5)
    want = [-1.34163542, -0.44721181, 0.44721181, 1.34163542]
    assert np.abs(y - np.array(want)).max() < 1e-6


@pytest.mark.small
@pytest.mark.bug("MVN-02")
@pytest.mark.decision("D-MVN-4")
def test_small_variance_is_neither_zero_nor_negative() -> None:
    rng = np.random.default_rng(2)
    x = (100 + 0.01 * rng.random(32768)).astype(np.float32)
    check(OP, x, axes=0, epsilon=0, layouts=FLAT)
    near = (1449.5 + np.arange(-8, 8) * 2.0**-13).astype(np.float32)
    check(OP, near, axes=0, epsilon=0, layouts=FLAT)
    check(OP, near, axes=0, layouts=FLAT)


@pytest.mark.small
@pytest.mark.bug("MVN-04")
@pytest.mark.decision("D-MVN-6")
@pytest.mark.parametrize(("n", "size"), [(64, 500), (64, 60000), (4096, 8000), (4096, 65504)])
def test_float16_variance_beyond_its_range(n: int, size: float) -> None:
    x = np.tile(np.array([size, -size], np.float16), n // 2)
    y = normalize(x, axes=0)
    assert (y == np.sign(x)).all()
    assert (normalize(x[:, None], axes=0)[:, 0] == np.sign(x)).all()


@pytest.mark.small
@pytest.mark.bug("MVN-05")
@pytest.mark.decision("D-MVN-21")
def test_overflow_stays_in_its_group() -> None:
    x = np.array([[1e30, -1e30, 2e30, 0], [1, -1, 2, 0]], np.float32)
    y = normalize(x, axes=1)
    want = [0.4472136, -1.3416408, 1.3416408, -0.4472136]
    assert np.allclose(y[1], want, atol=1e-5)
    assert bits(y[1]) == bits(normalize(x[1:], axes=1)[0])
    wide = normalize(x.astype("float64"), axes=1)
    assert np.allclose(wide[0], want, atol=1e-7)


@pytest.mark.small
@pytest.mark.bug("MVN-08")
@pytest.mark.decision("D-MVN-9")
@pytest.mark.parametrize("epsilon", [1e-8, 1e-45])
def test_tiny_epsilon(epsilon: float) -> None:
    for value in (0.0, 0.1, 1234.0):
        x = np.full((3, 40), value, np.float16)
        bias = np.array([[0.25]], np.float16)
        assert (normalize(x, None, bias, axes=1, epsilon=epsilon) == 0.25).all()


@pytest.mark.small
@pytest.mark.bug("MVN-09")
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_row_length_at_a_misaligned_base(dtype: str) -> None:
    """Rows of 1 to 1100 elements, one element off, dense and one element apart."""
    whole = data((2500,), dtype, 1)
    guard = np.full(2500, 0xEE, np.uint8).repeat(whole.itemsize).view(whole.dtype)
    for n in range(1, 1101):
        x = strided(whole[1:], (2, n), (n + 1, 1))
        out = strided(guard[1:], (2, n), (n + 1, 1))
        normalize(x, axes=1, out=out)
        assert bits(out) == bits(normalize(x.copy(), axes=1)), n
        assert set(guard[:1].tobytes() + guard[n + 1 : n + 2].tobytes()) == {0xEE}, n
        assert set(guard[2 * n + 2 : 2 * n + 40].tobytes()) == {0xEE}, n
        guard.view(np.uint8)[:] = 0xEE


@pytest.mark.small
@pytest.mark.bug("MVN-09")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 100, 255, 1100, 3584])
def test_row_lengths_against_the_reference(n: int, dtype: str) -> None:
    x, scale, bias = (data((k, n), dtype, k) for k in (3, 1, 1))
    check(OP, x, scale, bias, axes=1, layouts=("contiguous", "misaligned", "column-major"))


@pytest.mark.small
@pytest.mark.bug("MVN-10")
@pytest.mark.parametrize("shape", [(65536, 8), (65537, 3), (131073, 1), (1025, 3, 2)], ids=str)
def test_many_groups(shape: tuple[int, ...]) -> None:
    """Rows of consecutive integers: each gives what the first one gives."""
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    y = normalize(x, axes=-1)
    n = shape[-1]
    root = np.sqrt((n * n - 1) / 12 + 1e-5)
    want = (np.arange(n) - (n - 1) / 2) / root
    assert np.abs(y - want).max() < 1e-6
    columns = normalize(np.ascontiguousarray(np.moveaxis(x, -1, 0)), axes=0)
    assert np.abs(np.moveaxis(columns, 0, -1) - want).max() < 1e-6


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("MVN-11")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(64, 5), (64, 1000), (64, 3, 70)], ids=str)
def test_a_row_does_not_depend_on_the_rest(shape: tuple[int, ...], dtype: str) -> None:
    x = data(shape, dtype, 1)
    y = normalize(x, axes=-1)
    for k in (0, 31, 63):
        assert same_bits(normalize(x[k : k + 1], axes=-1), y[k : k + 1])
        changed = np.roll(x, 1, 0)
        changed[k] = x[k]
        assert same_bits(normalize(changed, axes=-1)[k], y[k])


@pytest.mark.small
@pytest.mark.bug("MVN-14")
@pytest.mark.decision("D-MVN-14")
@pytest.mark.parametrize("dtype", FLOATS)
def test_without_variance_epsilon_has_no_effect(dtype: str) -> None:
    x = data((3, 40), dtype, 1)
    x[1] = 5
    want = normalize(x, axes=1, use_variance=False)
    for epsilon in (0, 1e-45, 1, 1e30):
        assert same_bits(normalize(x, axes=1, use_variance=False, epsilon=epsilon), want)
    assert (want[1] == 0).all()


@pytest.mark.small
@pytest.mark.bug("MVN-15")
@pytest.mark.decision("D-MVN-12", "D-MVN-10")
@pytest.mark.parametrize("axes", [(), (0,), (0, 2), (-1,)], ids=str)
def test_groups_of_one_element(axes: Any) -> None:
    x = np.array([3e38, -3e38, 1e-45, 0, 7], np.float32).reshape(1, 5, 1)
    bias = np.array([0.1, -2, 3e38, 1e-45, 0], np.float32).reshape(1, 5, 1)
    assert same_bits(normalize(x, None, bias, axes=axes), bias)


PARAMETERS = {
    "linear": {"alpha": 2.0, "beta": 1.0},
    "parametric_softplus": {"alpha": 2.0, "beta": 0.5},
}
ACTIVATIONS = (
    "identity", "linear", "relu", "leaky_relu", "thresholded_relu", "elu", "celu", "scaled_elu",
    "sigmoid", "hard_sigmoid", "tanh", "scaled_tanh", "softplus", "parametric_softplus", "softsign",
    "shrink", "gelu", "swish", "hard_swish",
)  # fmt: skip


@pytest.mark.small
@pytest.mark.bug("MVN-17")
@pytest.mark.decision("D-ACT-5", "D-ACT-6")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_after_scale_and_bias(name: str, dtype: str) -> None:
    """The special arguments reach the activation through a scale of 2 and a bias of -1."""
    wanted = [-np.inf, -1, -0.0, 0.0, 1e-45, 1, 88, 89, np.inf, np.nan]
    x = ((np.array(wanted) + 1) / 2).astype(dtype_of(dtype))[None]
    scale, bias = (np.full((1, 10), v).astype(x.dtype) for v in (2, -1))
    fused = (name, PARAMETERS[name]) if name in PARAMETERS else name
    flags = {"axes": 1, "use_mean": False, "use_variance": False}
    check(OP, x, scale, bias, activation=fused, **flags)
    assert np.isnan(normalize(x, scale, bias, activation=fused, **flags)[0, -1].astype("f8"))


def rounding_is_default() -> bool:
    """Nearest even, with subnormal numbers."""
    one, tiny = np.float64(1), np.float64(5e-324)
    nearest = one + 2.0**-53 == one and one + 3 * 2.0**-54 > one and -one - 2.0**-53 == -one
    return bool(nearest and tiny > 0 and tiny * one == tiny and np.float32(1e-45) * one > 0)


@pytest.mark.core
@pytest.mark.bug("RUN-11")
def test_floating_point_state_is_left_alone() -> None:
    """After each operator, in this thread and in others, also with several workers."""
    seen = []

    def work() -> None:
        x = data((300, 999), "float32", 1)
        seen.append(rounding_is_default())
        for activation in (None, "softplus", "gelu"):
            normalize(x, axes=1, activation=activation)
            seen.append(rounding_is_default())
        cudml.padding(x, 3, 5, mode="wrap")
        seen.append(rounding_is_default())

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work()
    assert seen == [True] * 20


@pytest.mark.core
@pytest.mark.small
@pytest.mark.bug("RUN-12")
@pytest.mark.parametrize(
    ("dtype", "tiny"),
    [("float32", 1e-45), ("float64", 5e-324), ("float16", 6e-8), ("bfloat16", 1e-40)],
)
def test_subnormal_numbers_survive(dtype: str, tiny: float) -> None:
    kind = dtype_of(dtype)
    small = np.full((1, 100), tiny).astype(kind)
    assert (small != 0).all()
    x = np.full((2, 100), 3).astype(kind)
    assert same_bits(normalize(x, None, small, axes=1), np.broadcast_to(small, x.shape))
    flags = {"axes": 1, "use_mean": False, "use_variance": False}
    assert same_bits(normalize(small, **flags), small)
    assert same_bits(normalize(small, activation="relu", **flags), small)
    half = np.full((1, 1), 0.5).astype(kind)
    doubled = normalize(small + small, half, **flags)
    assert same_bits(doubled, small)


@pytest.mark.small
@pytest.mark.bug("IDX-02")
@pytest.mark.decision("D-TEN-6")
@pytest.mark.parametrize("axis", [0, 1])
def test_offsets_above_two_to_the_31(axis: int) -> None:
    """Both arrays reach beyond 2**31 elements; the groups lie along and across the stride."""
    packed = data((4, 6), "float16", 1)
    steps = (2**30 + 5, 1)
    x = strided(sparse(3 * 2**30 + 64, "float16"), packed.shape, steps)
    out = strided(sparse(3 * 2**30 + 64, "float16"), packed.shape, steps)
    x[...] = packed
    assert normalize(x, axes=axis, out=out) is out
    check(OP, packed, axes=axis, layouts=FLAT)
    assert np.allclose(out, normalize(packed, axes=axis), atol=2e-3)
    assert normalize(x, axes=axis).shape == packed.shape


@pytest.mark.small
@pytest.mark.bug("IDX-03")
def test_very_many_groups_of_an_odd_size() -> None:
    x = np.tile(np.array([1, 2, 3], np.float16), 2**21).reshape(-1, 3)
    y = normalize(x, axes=1)
    assert (y == normalize(x[:1], axes=1)).all()
    assert same_bits(normalize(x.reshape(-1, 1), axes=1), np.zeros((3 * 2**21, 1), np.float16))


@pytest.mark.bug("IDX-04")
@pytest.mark.decision("D-TEN-6")
def test_scale_far_away() -> None:
    """The index width must follow the largest of all the arrays."""
    x = data((3, 5), "float32", 1)
    scale = strided(sparse(2**31 + 64, "float32"), (3, 5), (2**30, 1))
    scale[...] = data((3, 5), "float32", 2)
    assert same_bits(normalize(x, scale, axes=1), normalize(x, scale.copy(), axes=1))
    assert same_bits(normalize(x, None, scale, axes=1), normalize(x, None, scale.copy(), axes=1))


def test_every_row_of_the_tables_has_a_test() -> None:
    """PAD-01 to PAD-14, MVN-01 to MVN-17 and the rows on run time and index width."""
    text = "".join(
        path.read_text()
        for room in ("pad", "mvn")
        for path in (ROOT / "tests" / room).glob("test_*.py")
    )
    marked = set(re.findall(r"[A-Z]+-\d\d", "".join(re.findall(r"mark\.bug\((.*?)\)", text))))
    rows = {f"PAD-{k:02}" for k in range(1, 15)} | {f"MVN-{k:02}" for k in range(1, 18)}
    assert rows | {"RUN-11", "RUN-12", "IDX-02", "IDX-03", "IDX-04", "IDX-05"} <= marked
