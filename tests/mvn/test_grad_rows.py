"""The gradient of normalization over packed rows: lengths, types, totals of many rows, each row by
itself."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from harness import check, data
from mvn_support import bits
from placed_gradients import check_alone
from pool_support import FLOATS, dtype_of

OP = "mean_variance_normalization_grad"
gradient: Any = cudml.mean_variance_normalization_grad
PATH = "mvn_grad/rows"
PACKED = ("contiguous",)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "length", [32, 33, 49, 63, 64, 65, 95, 128, 129, 768, 1030, 4097, 5000, 16385]
)
def test_lengths(length: int, dtype: str) -> None:
    """Whole vectors and parts of one, by all flags; more than a batch of rows."""
    scale, bias = data((1, length), dtype, 1), data((1, length), dtype, 2)
    for count, flags in ((1, (True, True)), (3, (False, True)), (17, (True, False))):
        x, grad = data((count, length), dtype, count), data((count, length), dtype, 9)
        more = dict(zip(("use_mean", "use_variance"), flags, strict=True))
        check(OP, x, grad, scale, bias, axes=1, layouts=PACKED, **more)
    for name in ("relu", "gelu"):
        check(OP, x, grad, scale, bias, axes=1, activation=name, layouts=PACKED)
    e = cudml.explain(OP, x, grad, scale, bias, axes=1)
    assert (e.kernel == PATH) == (dtype != "float64"), e


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("middle", [0.0, 3.0, -1000.0])
@pytest.mark.parametrize("length", [37, 64, 180, 17000])
def test_means_far_from_the_first_numbers(length: int, middle: float, dtype: str) -> None:
    """A guess at the mean from the first numbers of a row, which may be anywhere; in each place of
    a batch of rows, and of the rows that are read together."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((21, length)) + middle
    x[:, :4] += np.resize([0, 40, -3000, 1e4, 0], 21)[:, None]
    kind = dtype_of(dtype)
    grad, scale = data((21, length), dtype, 2), data((1, length), dtype, 3)
    check(OP, x.astype(kind), grad, scale, axes=1, layouts=PACKED)


@pytest.mark.decision("D-GRAD-16")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_misleading_rows_have_the_same_bits_alone(dtype: str) -> None:
    """Where a guess was far from the mean, a row is summed up again, in the same order: dx without
    a variance takes no other sums off where statistics are found for the scale's gradient."""
    for length in (32, 40, 96, 128, 129, 300):
        x = data((20, length), dtype, 1)
        x[::2, :4] += 100
        given = {"x": x, "grad": data((20, length), dtype, 2)}
        given |= {name: data((1, length), dtype, k) for k, name in enumerate(("scale", "bias"))}
        check_alone(given, {"axes": 1, "use_variance": False})


@pytest.mark.decision("D-GRAD-19")
def test_constant_and_infinite_rows() -> None:
    """As any other group: constant rows are divided by the root of epsilon, infinite ones NaN."""
    x = data((6, 50), "float32", 1)
    x[1], x[2] = 0.1, 3.3e7
    x[4, 7] = np.inf
    grad, scale = data((6, 50), "float32", 2), data((1, 50), "float32", 3)
    check(OP, x, grad, scale, axes=1, layouts=PACKED)
    dx = gradient(x, grad, scale, axes=1)[0]
    assert np.isnan(dx).all(1).tolist() == [False] * 4 + [True, False]
    assert np.isnan(gradient(x, grad, scale, axes=1, epsilon=0)[0][1:3]).all()


@pytest.mark.decision("D-GRAD-2")
@pytest.mark.parametrize("count", [1, 4])
def test_a_bias_of_one_element_beside_a_long_scale(count: int) -> None:
    """Its gradient adds up rows of a million elements: no chain of additions goes all along."""
    length = 1 << 20
    x, grad = data((count, length), "float32", 1), np.full((count, length), 0.1, np.float32)
    scale, bias = np.ones((1, length), np.float32), np.zeros((1, 1), np.float32)
    e = cudml.explain(OP, x, grad, scale, bias, axes=1, device="cpu")
    assert str(e.kernel) == PATH
    found = gradient(x, grad, scale, bias, axes=1, outputs=("bias",))[2].item()
    want = grad.astype(np.float64).sum()
    assert abs(found - want) <= 256 * 2.0**-24 * want


@pytest.mark.decision("D-GRAD-17a")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_totals_of_long_rows(dtype: str) -> None:
    """Some shares of 16 rows, each longer than is staged; what the shares add up to may not follow
    from whether dx is wanted."""
    length = 70_001
    x, grad = data((37, length), dtype, 1), data((37, length), dtype, 2)
    given = {"x": x, "grad": grad}
    given |= {name: data((1, length), dtype, k) for k, name in enumerate(("scale", "bias"))}
    check(OP, axes=1, layouts=PACKED, **given)
    check_alone(given, {"axes": 1})
    assert str(cudml.explain(OP, **given, axes=1, device="cpu").kernel) == PATH


@pytest.mark.decision("D-GRAD-17a")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_totals_of_many_rows(dtype: str) -> None:
    """Each of 64 shares adds more rows than the 1024 that it stages."""
    kind = dtype_of(dtype)
    x = np.resize(data((7, 48), dtype, 1), (70_000, 48))
    grad = np.full((70_000, 48), 0.1, kind)
    scale, bias = data((1, 48), "float32" if dtype == "bfloat16" else dtype, 2), np.ones((1, 48))
    check(OP, x, grad, scale, bias.astype(scale.dtype), axes=1, layouts=PACKED)


@pytest.mark.small
@pytest.mark.decision("D-GRAD-17a")
@pytest.mark.parametrize(
    "dtype", ["float32", pytest.param("float16", marks=pytest.mark.core), "bfloat16"]
)
@pytest.mark.parametrize("shape", [(2100, 9), (401, 72), (263, 260)])
def test_totals_of_rows_in_parts(shape: tuple[int, int], dtype: str) -> None:
    """Lanes with and without a tail, a last part that is shorter, one total without the other."""
    x, grad = data(shape, dtype, 1), data(shape, dtype, 2)
    row, layouts = (1, shape[1]), ("contiguous", "misaligned")
    scale, bias = data(row, dtype, 3), data(row, dtype, 4)
    check(OP, x, grad, scale, bias, axes=1, layouts=layouts)
    check(OP, x, grad, scale, axes=1, use_mean=False, layouts=PACKED)
    check(OP, x, grad, scale, bias, axes=1, activation="sigmoid", layouts=PACKED)


@pytest.mark.small
@pytest.mark.parametrize("n", [40, 80])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_parameters_that_rows_do_not_share(dtype: str, n: int) -> None:
    """Each batch has its own scale, and its own part of dscale; a bias may be one number."""
    x, grad = data((3, 7, n), dtype, 1), data((3, 7, n), dtype, 2)
    for scale in ((3, 1, n), (1, 7, n), (3, 7, n)):
        for bias in ((3, 1, n), (1, 7, 1), (1, 1, 1)):
            call = data(scale, dtype, 3), data(bias, dtype, 4)
            check(OP, x, grad, *call, axes=2, layouts=PACKED)
            check(OP, x, grad, *call, axes=2, activation="relu", layouts=PACKED)


@pytest.mark.decision("D-GRAD-16")
@pytest.mark.parametrize("n", [32, 80])
def test_each_total_is_the_same_without_the_other(n: int) -> None:
    """One is given away for each row, the other for many."""
    x, grad = data((300, n), "float32", 1), data((300, n), "float32", 2)
    scale, bias = data((1, n), "float32", 3), data((300, 1), "float32", 4)
    both = gradient(x, grad, scale, bias, axes=1)
    for k, name in ((1, "scale"), (2, "bias")):
        one = gradient(x, grad, scale, bias, axes=1, outputs=(name,))
        assert bits(one[k]).tolist() == bits(both[k]).tolist()


@pytest.mark.decision("D-GRAD-16")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("activation", [None, "gelu"])
def test_totals_do_not_follow_from_dx(dtype: str, activation: Any) -> None:
    """They are added up in the pass that writes dx, or by themselves, and from the same sums."""
    x, grad = data((130, 77), dtype, 1), data((130, 77), dtype, 2)
    scale, bias = data((1, 77), dtype, 3), data((1, 77), dtype, 4)
    more = {"axes": 1, "activation": activation}
    every = gradient(x, grad, scale, bias, **more)
    for outputs in (("scale", "bias"), ("scale",), ("x", "bias")):
        some = gradient(x, grad, scale, bias, outputs=outputs, **more)
        for one, other in zip(some, every, strict=True):
            assert one is None or bits(one).tolist() == bits(other).tolist()


@pytest.mark.decision("D-GRAD-19")
@pytest.mark.parametrize("size", [1e-30, 1e-12, 1.0, 1e12, 1e18])
def test_factors_at_the_ends_of_the_range(size: float) -> None:
    """Deviations so small or large that r, r^2 or a product with them leaves the range of float."""
    x = (data((5, 80), "float32", 1).astype("f8") * size).astype("f4")
    for scale in (1.0, 1e-20, 1e15):
        grad = data((5, 80), "float32", 2)
        call = np.full((1, 80), scale, "f4"), np.zeros((1, 80), "f4")
        check(OP, x, grad, *call, axes=1, epsilon=0, layouts=PACKED)


@pytest.mark.decision("D-TEN-9")
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_row_is_the_same_among_others(dtype: str) -> None:
    x, grad = data((37, 95), dtype, 1), data((37, 95), dtype, 2)
    scale, bias = data((1, 95), dtype, 3), data((1, 95), dtype, 4)
    every = gradient(x, grad, scale, bias, axes=1, activation="swish")[0]
    for first, end in ((0, 1), (5, 7), (16, 36), (36, 37)):
        some = gradient(x[first:end], grad[first:end], scale, bias, axes=1, activation="swish")[0]
        assert bits(some).tolist() == bits(every[first:end]).tolist()


# Rows with one scale and bias each: of a group alone, of a channel, of all groups.
OWN = ((3, 7, 1), (1, 7, 1), (3, 1, 1), (1, 1, 1))
OWN_ACTIVATIONS = (None, "relu", "swish", "gelu", ("linear", {"alpha": -1.5, "beta": 1}))


@pytest.mark.small
@pytest.mark.decision("D-GRAD-2", "D-GRAD-13")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sizes", OWN, ids=str)
def test_parameters_of_rows(sizes: tuple[int, ...], dtype: str) -> None:
    for n, activation in itertools.product((48, 75, 1030), OWN_ACTIVATIONS):
        x, grad = data((3, 7, n), dtype, 1), data((3, 7, n), dtype, 2)
        scale, bias = data(sizes, dtype, 3), data(sizes, dtype, 4)
        how: dict[str, Any] = {"axes": 2, "activation": activation, "layouts": PACKED}
        assert (cudml.explain(OP, x, grad, scale, bias, axes=2).kernel == PATH) == (
            dtype != "float64"
        )
        check(OP, x, grad, scale, bias, **how)
        check(OP, x, grad, scale, use_mean=False, **how)
        check(OP, x, grad, scale, bias, use_variance=False, **how)
        mean, variance = data((3, 7, 1), "float64", 7), np.abs(data((3, 7, 1), "float32", 8))
        check(OP, x, grad, scale, bias, mean=mean, variance=variance, **how)
        check(OP, x, grad, scale, bias, mean=mean, use_variance=False, **how)
        call = (x, grad, mean, variance, scale, bias)
        sums = (data((3, 7, 1), "float64", 5), data((3, 7, 1), "float64", 6))
        how.pop("axes")
        check("normalize_grad", *call, count=np.full((1, 1, 1), float(n)), sums=sums, **how)


@pytest.mark.decision("D-GRAD-16", "D-GRAD-19")
@pytest.mark.parametrize("size", [1e-30, 1e-12, 1.0, 1e12, 1e18])
def test_own_parameters_at_the_ends_of_the_range(size: float) -> None:
    """One row's factors may not be joined, those beside it may; wanted in part and all."""
    x = data((5, 80), "float32", 1)
    x[1] = (x[1].astype("f8") * size).astype("f4")
    grad = data((5, 80), "float32", 2)
    scale = np.array([[1], [1e-20], [0], [1e15], [-2]], "f4")
    given = {"x": x, "grad": grad, "scale": scale, "bias": np.zeros_like(scale)}
    check(OP, axes=1, epsilon=0, layouts=PACKED, **given)
    for activation in (None, "swish"):
        every = check_alone(given, {"axes": 1, "epsilon": 0, "activation": activation})
        for r in range(5):
            alone = {name: v[r : r + 1] for name, v in given.items()}
            one = gradient(**alone, axes=1, epsilon=0, activation=activation)
            for part, all_of in zip(one, every, strict=True):
                assert bits(part).tolist() == bits(all_of[r : r + 1]).tolist()


# Threads, whether dx is written past the caches, and where in a line it begins, do not reach the
# bits.
DIGEST = """
import hashlib, sys
import numpy as np
import cudml
from harness import data
digest = hashlib.sha256()
for dtype in ("float32", "bfloat16", "float64"):
    for count, length in ((700, 96), (130, 1024), (65, 77), (50, 16400)):
        x, grad = (data((count, length), dtype, k) for k in (1, 2))
        scale, bias = (data((1, length), dtype, k) for k in (3, 4))
        call = x, grad, scale, bias
        parts = cudml.mean_variance_normalization_grad(*call, axes=1)
        for part in parts:
            digest.update(np.ascontiguousarray(part).view(np.uint8))
        for skipped in (1, 8, 28):
            dx = np.empty(x.size + skipped, x.dtype)[skipped:].reshape(x.shape)
            out = dx, *map(np.empty_like, parts[1:])
            cudml.mean_variance_normalization_grad(*call, axes=1, out=out)
            for part, placed in zip(parts, out):
                assert (part.view(np.uint8) == placed.view(np.uint8)).all(), (dtype, skipped)
print(digest.hexdigest())
"""


@pytest.mark.decision("D-GRAD-1")
def test_threads_and_caches_do_not_reach_the_bits() -> None:
    said = {
        child_says(DIGEST, CUDML_NUM_THREADS=str(threads), CUDML_STREAM_BYTES=limit)
        for threads, limit in ((1, "0"), (2, "1"), (5, "1000000000000"), (1, "1"))
    }
    assert len(said) == 1


# Rows of whole lines that begin within lines, in blocks with others' memory between them. One has
# factors that may not be joined, and is written by itself.
SEAMS = """
import numpy as np
import cudml
from harness import data
for dtype, length in (("float32", 16), ("float32", 48), ("float32", 1040), ("bfloat16", 64)):
    x, grad = (data((3, 41, length), dtype, k) for k in (1, 2))
    if dtype == "float32":
        x[1, 17] *= np.float32(1e30)
    call = x, grad, data((1, 1, length), dtype, 3), data((1, 1, length), dtype, 4)
    for outputs in (("x", "scale", "bias"), ("x",)):
        how = {"axes": 2, "epsilon": 0, "outputs": outputs}
        plain = cudml.mean_variance_normalization_grad(*call, **how)
        for skipped in (0, 1, 8, 15, 16, 28):
            room = np.full(4 * 50 * length, 7, x.dtype)
            dx = room[skipped:][: 3 * 50 * length].reshape(3, 50, length)[:, :41]
            others = [None if part is None else np.empty_like(part) for part in plain[1:]]
            cudml.mean_variance_normalization_grad(*call, out=(dx, *others), **how)
            assert (dx.view(np.uint8) == plain[0].view(np.uint8)).all(), (dtype, length, skipped)
            dx[...] = 7
            assert (room == 7).all(), (dtype, length, skipped)
print("done")
"""


@pytest.mark.core
@pytest.mark.parametrize("threads", ["1", "3"])
def test_lines_that_rows_share(threads: str) -> None:
    """Each is put together of two rows' elements; nothing between blocks of rows is written."""
    assert child_says(SEAMS, CUDML_STREAM_BYTES="0", CUDML_NUM_THREADS=threads) == "done"
