"""The gradient of normalization by short planes: how many in turn, and which of them cannot be."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from backends import CPU
from harness import check, data
from mvn_support import bits
from placed_gradients import arrays_of_gradient, check_alone
from pool_support import dtype_of

OP = "mean_variance_normalization_grad"
PATH = "mvn_grad/short_planes"
gradient: Any = cudml.mean_variance_normalization_grad
NARROW = ("float16", "bfloat16", "float32")
ACTIVATIONS: tuple[Any, ...] = (
    "relu", "swish", ("leaky_relu", {"alpha": -0.5}), ("thresholded_relu", {"alpha": 0.25}),
    ("swish", {"sigmoid_input_scale": -0.5}),
)  # fmt: skip
FLAT = ("contiguous",)


def takes(given: dict[str, Any], **more: Any) -> bool:
    return str(cudml.explain(OP, **given, **more, device="cpu").kernel) == PATH


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-GRAD-2")
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("n", [16, 17, 31, 32, 33, 49, 63, 80, 255, 1000, 1024])
def test_planes_of_every_length(n: int, dtype: str) -> None:
    """Channels of a group, and of a batch."""
    for shape, axes, sizes in (
        ((2, 3, 5, n), (2, 3), (1, 3, 5, 1)), ((5, 3, n), (0, 2), (1, 3, 1)),
    ):  # fmt: skip
        given = arrays_of_gradient(shape, sizes, dtype)
        for activation in (None, "swish", ACTIVATIONS[n % 5]):
            assert takes(given, axes=axes, activation=activation)
            check(
                OP, axes=axes, activation=activation, layouts=FLAT, backend=CPU, out=False, **given
            )


@pytest.mark.core
@pytest.mark.decision("D-GRAD-13", "D-GRAD-15", "D-GRAD-16", "D-GRAD-18")
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_activations_and_statistics(activation: Any, dtype: str) -> None:
    """Own statistics and given ones; with infinities and NaN among the numbers."""
    for axes, sizes in (((0, 2), (1, 19, 1)), ((1, 2), (5, 1, 1))):
        given = arrays_of_gradient((5, 19, 75), (1, 19, 1), dtype)
        how = {"axes": axes, "activation": activation}
        check_alone(given, how)
        given["x"][0, 2, 5], given["x"][1, 3, 48] = np.inf, np.nan
        given["grad"][3, 5, 3], given["grad"][2, 6, 74] = -np.inf, np.nan
        check(OP, layouts=FLAT, backend=CPU, out=False, **given, **how)
        how |= {"mean": data(sizes, "float64", 5), "variance": np.abs(data(sizes, "float32", 6))}
        assert takes(given, **how)
        check(OP, layouts=FLAT, backend=CPU, out=False, **given, **how)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-GRAD-2")
@pytest.mark.parametrize("dtype", NARROW)
def test_as_many_cells_and_planes_as_lanes(dtype: str) -> None:
    """Fewer, as many and more than 4, 8 and 16; chains of sums that are cut, and their rests."""
    for count in (2, 3, 4, 5, 8, 9, 15, 16, 17, 40):
        for n in (16, 50, 400):
            given = arrays_of_gradient((3, 2, count, n), (1, 2, count, 1), dtype)
            how = {"activation": ("relu", "swish", None)[count % 3]}
            assert takes(given, axes=(2, 3), **how)
            check(OP, axes=(2, 3), layouts=FLAT, backend=CPU, out=False, **given, **how)
            given = arrays_of_gradient((7, count, n), (1, count, 1), dtype)
            assert takes(given, axes=(0, 2), **how)
            check(OP, axes=(0, 2), layouts=FLAT, backend=CPU, out=False, **given, **how)


@pytest.mark.decision("D-GRAD-1", "D-GRAD-2", "D-GRAD-13")
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize(
    ("n", "planes"), [(16, (63, 64, 65, 129)), (49, (20, 21, 41)), (600, (3,))]
)
def test_every_plane_counts_once(n: int, planes: tuple[int, ...], dtype: str) -> None:
    for count in planes:
        given = arrays_of_gradient((count, 2, n), (1, 2, 1), dtype)
        given["x"][count - 1, 1, n - 1] = given["grad"][count // 2, 0, 1] = 9
        assert takes(given, axes=(0, 2))
        check(OP, axes=(0, 2), backend=CPU, layouts=FLAT, **given)
        given = arrays_of_gradient((2, count, n), (1, count, 1), dtype)
        given["x"][1, count - 1, n - 1] = given["grad"][0, count // 2, 1] = 9
        assert takes(given, axes=(1, 2))
        check(OP, axes=(1, 2), backend=CPU, layouts=FLAT, **given)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-TEN-9")
@pytest.mark.parametrize("dtype", NARROW)
def test_cells_apart_in_memory(dtype: str) -> None:
    """Gaps and orders of dimensions that differ between x, grad and dx; more dimensions than two
    tell the planes of a cell and the cells apart."""
    shape = (2, 3, 2, 5, 40)
    for axes, sizes in (((0, 2, 4), (1, 3, 1, 5, 1)), ((3, 4), (2, 3, 1, 5, 1))):
        given = arrays_of_gradient(shape, sizes, dtype)
        x = np.full((2, 4, 3, 6, 48), 7).astype(dtype_of(dtype))[:, 1:, :2, :5, 3:43]
        grad = np.full((3, 2, 2, 7, 44), 7).astype(dtype_of(dtype)).transpose(1, 0, 2, 3, 4)
        grad = grad[:, :, :, 2:, :40]
        x[...], grad[...] = given["x"], given["grad"]
        apart = {**given, "x": x, "grad": grad}
        assert takes(apart, axes=axes)
        room = np.full((2, 3, 2, 5, 56), 7).astype(x.dtype)
        dx = room[..., 9:49]
        got = gradient(**apart, axes=axes, out=(dx, None, None))
        for one, other in zip(got, gradient(**given, axes=axes), strict=True):
            assert bits(one).tolist() == bits(other).tolist()
        assert (room[..., :9] == 7).all() and (room[..., 49:] == 7).all()
        check(OP, axes=axes, layouts=FLAT, backend=CPU, out=False, **apart)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-16", "D-GRAD-19")
@pytest.mark.parametrize("dtype", NARROW)
def test_only_what_is_wanted(dtype: str) -> None:
    """The same bits as among others, where some cells' factors may not be joined, too."""
    for shape, axes, sizes in (
        ((3, 19, 50), (1, 2), (1, 19, 1)), ((3, 2, 49), (1, 2), (1, 2, 1)),
        ((5, 19, 50), (0, 2), (1, 19, 1)),
    ):  # fmt: skip
        given = arrays_of_gradient(shape, sizes, dtype)
        assert takes(given, axes=axes) and takes(given, axes=axes, outputs=("bias",))
        check_alone(given, {"axes": axes})
        if dtype != "float16":
            given["x"][1, 1] *= 1e30
            given["grad"][2] *= 1e-30
        check_alone(given, {"axes": axes, "epsilon": 1e-30})
        given["x"][...] = np.nan
        got = gradient(**given, axes=axes, outputs=("bias",))[2]
        assert np.isfinite(got.astype("f8")).all()  # x is not read


@pytest.mark.core
@pytest.mark.decision("D-MVN-4")
@pytest.mark.parametrize("dtype", NARROW)
def test_cells_far_from_where_their_mean_is_guessed(dtype: str) -> None:
    """One of several: the others keep their bits."""
    for n, (axes, count) in itertools.product((40, 392), (((0, 2), 19), ((1, 2), 6))):
        given = arrays_of_gradient((6, 19, n), (1, 19, 1), dtype)
        assert takes(given, axes=axes)
        before = gradient(**given, axes=axes)[0]
        x = given["x"].astype("f8")
        far = (slice(None), count // 2) if axes == (0, 2) else (count // 2,)
        plane = (0, count // 2) if axes == (0, 2) else (count // 2, 0)
        x[far] = x[far] * 0.01 + 10
        x[plane][:: (n - 1) // 7] = 60
        given["x"] = x.astype(dtype_of(dtype))
        check(OP, axes=axes, layouts=FLAT, backend=CPU, **given)
        after = gradient(**given, axes=axes)[0]
        same = bits(after) == bits(before)
        others = np.ones(same.shape, bool)
        others[far] = False
        assert same[others].all() and not same[far].all()


@pytest.mark.core
@pytest.mark.decision("D-GRAD-13", "D-GRAD-19")
@pytest.mark.parametrize("dtype", NARROW)
def test_parameters_of_different_sizes(dtype: str) -> None:
    """A scale for all planes of a group and a bias for each, the other way round, and one alone."""
    arrays = arrays_of_gradient((3, 2, 19, 50), (1, 2, 19, 1), dtype)
    one = data((1, 2, 1, 1), dtype, 7)
    for names in (("bias",), ("scale",), ("scale", "bias")):
        for narrow in ((), ("scale",), ("bias",)):
            given = {name: arrays[name] for name in ("x", "grad", *names)}
            given |= {name: one for name in narrow if name in names}
            assert takes(given, axes=(2, 3)) == any(given[name] is not one for name in names)
            check(OP, axes=(2, 3), layouts=FLAT, backend=CPU, out=False, **given)


def test_the_largest_group() -> None:
    for planes in (8192, 8193):
        given = arrays_of_gradient((1, planes, 16), (1, planes, 1), "float32")
        assert takes(given, axes=(1, 2)) == (planes == 8192)
        check(OP, axes=(1, 2), layouts=FLAT, backend=CPU, out=False, **given)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-16", "D-GRAD-18")
@pytest.mark.parametrize("dtype", NARROW)
def test_statistics_that_are_data(dtype: str) -> None:
    """As they are, whatever x says: with a low part of the mean, infinities and NaN among them."""
    for axes, sizes in (((0, 2), (1, 19, 1)), ((1, 2), (5, 1, 1))):
        given = arrays_of_gradient((5, 19, 75), (1, 19, 1), dtype)
        mean, variance = data(sizes, "float64", 5) * (1 + 1e-9), np.abs(data(sizes, "float32", 6))
        how = {"axes": axes, "mean": mean, "variance": variance}
        assert takes(given, **how)
        check(OP, layouts=FLAT, backend=CPU, out=False, **given, **how)
        check_alone(given, how)
        mean.flat[1], mean.flat[2], variance.flat[3] = np.inf, np.nan, np.nan
        check(OP, layouts=FLAT, backend=CPU, out=False, **given, **how)


@pytest.mark.core
@pytest.mark.decision("D-MVN-4")
@pytest.mark.parametrize("dtype", NARROW)
def test_constant_cells(dtype: str) -> None:
    """Their deviations are 0 exactly, whatever they are made of."""
    for axes in ((0, 2), (1, 2)):
        given = arrays_of_gradient((4, 9, 49), (1, 9, 1), dtype)
        for one in (1 / 3, 1 / 7, 1e4 / 9, *np.linspace(0.5, 1, 40)):
            given["x"][...] = np.float32(one)
            assert (gradient(**given, axes=axes, epsilon=1e-12)[1] == 0).all()
        check(OP, axes=axes, layouts=FLAT, backend=CPU, **given)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-2", "D-MVN-21")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("activation", [None, "relu", "swish"])
def test_where_exponents_end(activation: Any, dtype: str) -> None:
    """In one cell of several: it is taken by itself, and the others keep their bits."""
    kind = dtype_of(dtype)
    how = {"activation": activation, "epsilon": 1e-30}
    for axes in ((0, 2), (1, 2)):
        own: Any = (slice(None), 3) if axes == (0, 2) else (3,)
        usual = arrays_of_gradient((5, 7, 75), (1, 7, 1), dtype)
        before = gradient(**usual, axes=axes, **how)[0]
        for of_x, of_grad in ((12, 0), (-12, 0), (-9, -30), (9, 30), (0, 30), (0, -30), (-15, 9)):
            given = dict(usual)
            for name, power in (("x", of_x), ("grad", of_grad)):
                wide = given[name].astype("f8")
                wide[own] *= 10.0**power
                given[name] = wide.astype(kind)
            check(OP, axes=axes, layouts=FLAT, backend=CPU, out=False, **given, **how)
            check_alone(given, {"axes": axes, **how})
            same = bits(gradient(**given, axes=axes, **how)[0]) == bits(before)
            same[own] = True
            assert same.all()
        for size in (1e-38, 1e30):
            scale = (usual["scale"].astype("f8") * size).astype(kind)
            more = {**usual, "scale": scale}
            check(OP, axes=axes, activation=activation, layouts=FLAT, backend=CPU, **more)
            check_alone(more, {"axes": axes, "activation": activation})


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-TEN-9")
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("activation", [None, "relu", "swish"])
def test_the_same_among_others_and_by_more_threads(activation: Any, dtype: str) -> None:
    given = arrays_of_gradient((37, 24, 49), (1, 24, 1), dtype)
    before = cudml.get_num_threads()
    for axes in ((0, 2), (1, 2)):
        seen = set()
        try:
            for threads in (1, 2, 5):
                cudml.set_num_threads(threads)
                got = gradient(**given, axes=axes, activation=activation)
                seen.add(tuple(g.tobytes() for g in got))
        finally:
            cudml.set_num_threads(before)
        assert len(seen) == 1
    every = gradient(**given, axes=(1, 2), activation=activation)[0]
    for i in (0, 1, 15, 36):
        some = {name: a[i : i + 2] if len(a) > 1 else a for name, a in given.items()}
        one = gradient(**some, axes=(1, 2), activation=activation)[0]
        assert bits(one).tolist() == bits(every[i : i + 2]).tolist()
    every = gradient(**given, axes=(0, 2), activation=activation)[0]
    for i, k in ((0, 2), (3, 5), (7, 17)):  # one channel alone is a packed row
        some = {name: np.ascontiguousarray(a[:, i : i + k]) for name, a in given.items()}
        one = gradient(**some, axes=(0, 2), activation=activation)[0]
        assert bits(one).tolist() == bits(every[:, i : i + k]).tolist()


PLACED = """
from placed_gradients import say_digests
problems = (((2, 40, 17), (1, 2), (1, 40, 1)), ((70, 2, 49), (0, 2), (1, 2, 1)))
say_digests(("float32", "float16", "bfloat16"), problems, (0, 1, 9, 33))
"""


@pytest.mark.core
@pytest.mark.decision("D-TEN-9")
def test_asking_for_planes_ahead_changes_nothing() -> None:
    """Nor does where dx begins in a line; nothing else is written."""
    never, always = (child_says(PLACED, CUDML_STREAM_BYTES=n) for n in (str(10**15), "0"))
    assert never == always and len(set(never.splitlines())) == 24
