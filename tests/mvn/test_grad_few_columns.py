"""The gradient of normalization of few channels that are stored last: positions side by side, which
are gathered where something else is stored between them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cudml
from backends import CPU
from harness import check, run, signature
from mvn_support import bits
from placed_gradients import arrays_of_gradient, check_alone
from pool_support import FLOATS

OP = "mean_variance_normalization_grad"
PATH = "mvn_grad/columns"
gradient: Any = cudml.mean_variance_normalization_grad
FLAT = ("contiguous",)
INF = float("inf")

# Of {N,H,W,channels}: axes, and the shape of the parameters for a count of channels.
KINDS: dict[str, Any] = {
    "batch": ((0, 1, 2), lambda c: (1, 1, 1, c)),
    "instance": ((1, 2), lambda c: (1, 1, 1, c)),
    "whole": ((1, 2, 3), lambda c: (1, 1, 1, c)),
    "instance, own": ((1, 2), lambda c: (3, 1, 1, c)),
}
CHANNELS = (2, 3, 4, 5, 7, 8, 11, 16, 31)
# Positions of powers of two, of other divisors, of few, and of more than a part has.
PLANES = ((16, 16), (15, 21), (12, 12), (52, 121))
ACTIVATIONS: tuple[Any, ...] = (
    None, "relu", "swish", "gelu", ("linear", {"alpha": -1.5, "beta": 1}),
    ("leaky_relu", {"alpha": -0.5}), ("swish", {"sigmoid_input_scale": 0.5}), "tanh",
)  # fmt: skip


def takes(given: dict[str, Any], **more: Any) -> bool:
    return str(cudml.explain(OP, **given, **more, device="cpu").kernel) == PATH


@pytest.mark.decision("D-GRAD-1", "D-GRAD-2")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_count_of_channels(kind: str, dtype: str) -> None:
    axes, sizes = KINDS[kind]
    rotation = itertools.cycle(ACTIVATIONS)
    for plane, channels in itertools.product(PLANES, CHANNELS):
        given = arrays_of_gradient((3, *plane, channels), sizes(channels), dtype)
        assert takes(given, axes=axes)
        for activation in (None, next(rotation)):
            check(
                OP, axes=axes, activation=activation, layouts=FLAT, backend=CPU, out=False, **given
            )


@pytest.mark.decision("D-GRAD-1")
@pytest.mark.parametrize("dtype", FLOATS)
def test_positions_that_have_no_divisor(dtype: str) -> None:
    """A prime number of positions, and so few that columns would have next to no rows."""
    for plane, channels in itertools.product(((1, 257), (4, 5), (1, 31)), (3, 8)):
        given = arrays_of_gradient((2, *plane, channels), (1, 1, 1, channels), dtype)
        assert takes(given, axes=(1, 2)) == (channels == 8)
        check(OP, axes=(1, 2), layouts=FLAT, backend=CPU, out=False, **given)


@pytest.mark.decision("D-GRAD-1")
@pytest.mark.parametrize("dtype", FLOATS)
def test_rows_that_are_not_packed(dtype: str) -> None:
    """Images cut out of larger ones: positions of a line follow each other, lines do not."""
    rotation = itertools.cycle(ACTIVATIONS)
    for channels, width in itertools.product((3, 6, 12), (24, 35, 29)):
        wide = arrays_of_gradient((2, 20, width + 5, channels), (1, 1, 1, channels), dtype)
        given = {n: a if a.shape[0] == 1 else a[:, 1::2, 2:-3] for n, a in wide.items()}
        for activation in (None, next(rotation)):
            check(OP, axes=(0, 1, 2), activation=activation, layouts=FLAT, backend=CPU, **given)
            how: dict[str, Any] = {"axes": (0, 1, 2), "activation": activation}
            room = np.full(wide["x"].shape, 7, wide["x"].dtype)
            dx = room[:, 1::2, 2:-3]
            got = gradient(**given, **how, out=(dx, None, None))
            want = gradient(**given, **how)
            np.testing.assert_array_equal(bits(got[0]), bits(want[0]))
            dx[...] = 7
            assert (room == 7).all()


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-TEN-9")
@pytest.mark.parametrize("dtype", FLOATS)
def test_channels_of_more(dtype: str) -> None:
    """Channels beside a group count for nothing, nor does where the gradient and dx are stored."""
    rotation = itertools.cycle(ACTIVATIONS)
    for every, first, last, plane in (
        (4, 0, 3, (12, 20)), (4, 3, 4, (15, 21)), (9, 2, 7, (32, 60)), (2, 1, 2, (32, 32)),
        (15, 0, 14, (16, 16)), (13, 5, 6, (16, 20)),
    ):  # fmt: skip
        whole = arrays_of_gradient((2, *plane, every), (1, 1, 1, every), dtype)
        whole["x"][1, 3, 5, first], whole["grad"][0, 2, 1, last - 1] = INF, np.nan
        given = {name: a[..., first:last] for name, a in whole.items()}
        for activation in (None, next(rotation), next(rotation)):
            how = {"axes": (1, 2), "activation": activation}
            assert takes(given, **how) and takes(whole, **how)
            check(OP, layouts=FLAT, backend=CPU, out=False, **given, **how)
            want = gradient(**whole, **how)
            room = np.full(whole["x"].shape, 7, whole["x"].dtype)
            dx = room[..., first:last]
            packed = {**given, "grad": np.ascontiguousarray(given["grad"])}
            for got in (gradient(**given, **how), gradient(**given, **how, out=(dx, None, None)),
                        gradient(**packed, **how)):  # fmt: skip
                for part, full in zip(got, want, strict=True):
                    np.testing.assert_array_equal(bits(part), bits(full[..., first:last]))
            dx[...] = 7
            assert (room == 7).all()
        wanted = check_alone(given, {"axes": (1, 2), "activation": "swish"})
        assert wanted[0].shape == given["x"].shape


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-GRAD-2")
@pytest.mark.parametrize("dtype", FLOATS)
def test_parameters_along_positions(dtype: str) -> None:
    """Elements apart from each other that have scales, biases or their gradients of their own."""
    rotation = itertools.cycle(ACTIVATIONS)
    memory = {"layouts": ("as given",), "backend": CPU, "out": False}
    for gap, n, rows in itertools.product((1, 2, 3, 8, 10, 16), (2, 3, 4, 13, 40), (16, 17, 48)):
        wide = arrays_of_gradient((rows, n, gap), (1, n, gap), dtype)
        given = {name: a[..., :1] for name, a in wide.items()}
        given["grad"] = np.ascontiguousarray(given["grad"])
        for absent in (None, "scale", "bias"):
            some = {name: a for name, a in given.items() if name != absent}
            how: dict[str, Any] = {"axes": (0, 1), "activation": next(rotation)}
            check(OP, **memory, **some, **how)
        alone = {**given, "scale": given["scale"][:, :1]}
        check(OP, **memory, axes=(0, 1), **alone)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-TEN-9")
@pytest.mark.parametrize("dtype", FLOATS)
def test_positions_that_overlap(dtype: str) -> None:
    """Sliding windows: the next position begins inside of one, which is longer than any row."""
    rotation = itertools.cycle(ACTIVATIONS)
    for step, n, rows in itertools.product((2, 3, 8), (4, 40, 150), (48, 288)):
        base = arrays_of_gradient((step * rows + n,), (1,), dtype)["x"]
        size = base.itemsize
        x = np.lib.stride_tricks.as_strided(base, (rows, n), (step * size, size), writeable=False)
        given = {**arrays_of_gradient((rows, n), (1, n), dtype), "x": x}
        for axes, activation in (((0,), None), ((0, 1), next(rotation)), ((0,), next(rotation))):
            how: dict[str, Any] = {"axes": axes, "activation": activation}
            want = check(OP, layouts=FLAT, backend=CPU, out=False, **given, **how)
            call = signature(OP).bind(**given, **how).arguments
            run(CPU, OP, call, given, want, "C")
            if axes == (0, 1):
                continue
            every = gradient(**given, **how)
            for k in (0, n - 1):
                alone = gradient(**{name: a[:, k : k + 1] for name, a in given.items()}, **how)
                for part, full in zip(alone, every, strict=True):
                    np.testing.assert_array_equal(bits(part), bits(full[:, k : k + 1]))


@pytest.mark.decision("D-GRAD-13", "D-GRAD-15", "D-GRAD-16", "D-GRAD-18")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_statistics_and_what_is_special(activation: Any, dtype: str) -> None:
    """Own statistics, given ones, and neither; with infinities and NaN among the numbers."""
    rng = np.random.default_rng(3)
    for channels in (3, 10):
        given = arrays_of_gradient((2, 12, 20, channels), (1, 1, 1, channels), dtype)
        given["x"][0, 1, 5, 1], given["x"][1, 11, 19, 2] = INF, np.nan
        given["grad"][0, 3, 0, 0] = -INF
        mean = rng.standard_normal((2, 1, 1, channels))
        variance = rng.uniform(0.1, 2, (2, 1, 1, channels)).astype("f4")
        for use_mean, use_variance in itertools.product((True, False), repeat=2):
            how = {"use_mean": use_mean, "use_variance": use_variance, "axes": (1, 2)}
            check(OP, activation=activation, layouts=FLAT, backend=CPU, out=False, **given, **how)
            how |= {"mean": mean} if use_mean else {}
            how |= {"variance": variance} if use_variance else {}
            check(OP, activation=activation, layouts=FLAT, backend=CPU, out=False, **given, **how)


@pytest.mark.decision("D-MVN-4")
@pytest.mark.parametrize("dtype", FLOATS)
def test_groups_far_from_where_their_mean_is_guessed(dtype: str) -> None:
    """The first position of each row is like no other; a constant group has no variance."""
    for channels, size in itertools.product((3, 9), (60.0, 3e4)):
        given = arrays_of_gradient((2, 40, 40, channels), (1, 1, 1, channels), dtype)
        x = given["x"].astype("f8") + 10
        x.reshape(2, 1600, channels)[:, ::8] = size
        x[1, ..., 1] = 0.1
        given["x"] = x.astype(given["x"].dtype)
        for activation in (None, "relu"):
            check(OP, axes=(1, 2), activation=activation, layouts=FLAT, backend=CPU, **given)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-16", "D-GRAD-19")
@pytest.mark.parametrize("kind", KINDS)
def test_only_what_is_wanted(kind: str) -> None:
    axes, sizes = KINDS[kind]
    for activation, channels in itertools.product((None, "relu", "swish", "tanh"), (3, 20)):
        given = arrays_of_gradient((3, 24, 10, channels), sizes(channels), "float32")
        check_alone(given, {"axes": axes, "activation": activation})


@pytest.mark.decision("D-GRAD-24")
@pytest.mark.parametrize("dtype", FLOATS)
def test_two_phases(dtype: str) -> None:
    rng = np.random.default_rng(4)
    for channels, activation in itertools.product((3, 21), ACTIVATIONS):
        given = arrays_of_gradient((2, 12, 20, channels), (1, 1, 1, channels), dtype)
        group = (2, 1, 1, channels)
        mean, sums = rng.standard_normal(group), tuple(rng.standard_normal((2, *group)))
        variance = rng.uniform(0.1, 2, group).astype("f4")
        call = (given["x"], given["grad"], mean, variance, given["scale"], given["bias"])
        how = {"activation": activation, "layouts": FLAT, "backend": CPU}
        check("normalize_grad_sums", *call, axes=(1, 2), **how)
        check("normalize_grad", *call, count=np.full((1, 1, 1, 1), 240.0), sums=sums, **how)
        check("normalize_grad", *call, **how)


@pytest.mark.core
@pytest.mark.decision("D-GRAD-1", "D-TEN-9")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", ["instance", "whole", "instance, own"])
def test_a_sample_among_others(kind: str, dtype: str) -> None:
    """The samples around one count for nothing, on any number of threads."""
    axes, sizes = KINDS[kind]
    before = cudml.get_num_threads()
    try:
        for channels, activation in itertools.product((3, 8), (None, "relu", "swish", "gelu")):
            given = arrays_of_gradient((3, 60, 70, channels), sizes(channels), dtype)
            given["x"][0, 7, 3, 1], given["grad"][2, 5, 6, 0] = INF, np.nan
            how = {"axes": axes, "activation": activation, "outputs": ("x",)}
            seen = set()
            for threads in (1, 2, 5):
                cudml.set_num_threads(threads)
                every = gradient(**given, **how)[0]
                seen.add(bits(every).tobytes())
                for i in range(3):
                    one = {n: a[i : i + 1] if len(a) > 1 else a for n, a in given.items()}
                    alone = gradient(**one, **how)[0]
                    np.testing.assert_array_equal(bits(alone), bits(every[i : i + 1]))
            assert len(seen) == 1
    finally:
        cudml.set_num_threads(before)
