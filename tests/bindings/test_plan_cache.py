"""Plans that are kept: what tells them apart, and that a warm one is checked as a cold one is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import bits, child_says
from exporters import READ_ONLY, Exporter
from harness import data, refused


def test_the_cache_counts() -> None:
    """As functools' caches do: a first call misses, the same one again hits."""
    cudml.clear_cache()
    info = cudml.cache_info()
    assert (info.hits, info.misses, info.currsize) == (0, 0, 0) and info.maxsize > 0
    x = data((2, 3, 5, 7), "float32")
    cudml.max_pooling(x, 2)
    assert (cudml.cache_info().hits, cudml.cache_info().misses) == (0, 1)
    for _ in range(3):
        cudml.max_pooling(x, 2)
        cudml.max_pooling(data((2, 3, 5, 7), "float32", 5), window_size=[2, 2])
    info = cudml.cache_info()
    assert (info.hits, info.misses, info.currsize) == (6, 1, 1)


def test_a_new_process_counts_from_nothing() -> None:
    script = "import cudml; info = cudml.cache_info(); print(info.hits, info.misses, info.currsize)"
    assert child_says(script) == "0 0 0"


DIFFERENT: list[Callable[[np.ndarray], Any]] = [
    lambda x: cudml.max_pooling(x, 2),
    lambda x: cudml.max_pooling(x, 3),
    lambda x: cudml.max_pooling(x, 2, 2),
    lambda x: cudml.max_pooling(x, 2, 1, 1),
    lambda x: cudml.max_pooling(x, 2, 1, 0, 1),
    lambda x: cudml.max_pooling(x, 2, 1, 0, 0, 2),
    lambda x: cudml.max_pooling(x, 2, return_indices=True)[0],
    lambda x: cudml.max_pooling(x, 2, return_indices=True, index_dtype="int64")[1],
    lambda x: cudml.max_pooling(x, 2, return_indices=True, index_dtype="uint64")[1],
    lambda x: cudml.max_pooling(x, 2, axes=(0, 3)),
    lambda x: cudml.max_pooling(x, 2, 2, output_sizes="ceil"),
    lambda x: cudml.max_pooling(x, 2, out=np.empty((2, 3, 4, 6), "f4", order="F")),
    lambda x: cudml.max_pooling(np.asfortranarray(x), 2),
    lambda x: cudml.max_pooling(x.astype("f8"), 2),
    lambda x: cudml.average_pooling(x, 2),
    lambda x: cudml.average_pooling(x, 2, 1, 1),
    lambda x: cudml.average_pooling(x, 2, 1, 1, include_padding=True),
    lambda x: cudml.lp_pooling(x, 2),
    lambda x: cudml.lp_pooling(x, 2, p=3),
    lambda x: cudml.padding(x, 1, 1),
    lambda x: cudml.padding(x, 1, 1, value=3),
    lambda x: cudml.padding(x, 1, 1, mode="edge"),
    lambda x: cudml.padding(x, 1, 1, mode=["edge", "wrap", "edge", "edge"]),
    lambda x: cudml.mean_variance_normalization(x, axes=3),
    lambda x: cudml.mean_variance_normalization(x, axes=(2, 3)),
    lambda x: cudml.mean_variance_normalization(x, axes=3, use_mean=False),
    lambda x: cudml.mean_variance_normalization(x, axes=3, use_variance=False),
    lambda x: cudml.mean_variance_normalization(x, axes=3, epsilon=1e-3),
    lambda x: cudml.mean_variance_normalization(x, axes=3, activation="relu"),
    lambda x: cudml.mean_variance_normalization(x, axes=3, activation=("elu", {"alpha": 2})),
    lambda x: cudml.mean_variance_normalization(x, axes=3, activation=("elu", {"alpha": 3})),
    lambda x: cudml.mean_variance_normalization(x, x[:1, :, :1, :1], axes=3),
    lambda x: cudml.mean_variance_normalization(x, None, x[:1, :, :1, :1], axes=3),
]


def test_every_argument_tells_plans_apart() -> None:
    """Calls that differ in one argument, in turn with warm plans, give what cold ones give."""
    x = data((2, 3, 5, 7), "float32")
    cold = []
    for call in DIFFERENT:
        cudml.clear_cache()
        cold.append(call(x))
    cudml.clear_cache()
    for _ in range(3):
        for call, want in zip(DIFFERENT, cold, strict=True):
            got = call(x)
            assert got.dtype == want.dtype and got.strides == want.strides
            assert bits(got) == bits(want)
    info = cudml.cache_info()
    assert (info.misses, info.hits) == (len(DIFFERENT), 2 * len(DIFFERENT))


def test_the_cache_is_bounded_and_forgets_the_oldest() -> None:
    cudml.clear_cache()
    size = cudml.cache_info().maxsize
    for n in range(size + 10):
        cudml.max_pooling(np.zeros((1, 1, 2 + n % 50, 2 + n // 50), "f4"), 2)
    info = cudml.cache_info()
    assert info.currsize == size and info.misses == size + 10
    cudml.max_pooling(np.zeros((1, 1, 2, 2), "f4"), 2)  # the first of all
    assert cudml.cache_info().misses == size + 11
    cudml.clear_cache()
    assert cudml.cache_info().currsize == 0


def test_refused_calls_leave_no_plans() -> None:
    cudml.clear_cache()
    x = data((1, 1, 4, 4), "float32")
    want = cudml.max_pooling(x, 2)
    for out in (np.zeros((1, 1, 3, 2), "f4"), np.zeros((1, 1, 3, 3), "f8")):
        with pytest.raises((ValueError, TypeError)):
            cudml.max_pooling(x, 2, out=out)
        with pytest.raises(ValueError):
            cudml.max_pooling(x, 9, out=out)
    assert bits(cudml.max_pooling(x, 2)) == bits(want)


def test_signs_and_payloads_of_numbers_tell_plans_apart() -> None:
    """Keys are bits: zeros of both signs, NaN, integers that no double holds."""
    x, whole = data((2, 3), "float32"), np.zeros((2, 2), "i8")
    for _ in range(2):
        for value in (0.0, -0.0, float("nan"), 1, 1.5, np.float32(2.5)):
            edge = cudml.padding(x, 1, 1, value=value)[0, 0]
            assert bits(edge) == bits(np.float32(value)) or np.isnan(value), value
        for number in (2**53, 2**53 + 1, 2**63 - 1, -(2**63)):
            assert cudml.padding(whole, 1, 1, value=number)[0, 0] == number
        for epsilon in (1e-5, float(np.float32(1e-5)), 0.0, 1e-300):
            z = cudml.mean_variance_normalization(np.array([[0.0, 1e-3]]), axes=1, epsilon=epsilon)
            assert abs(z[0, 1] - 5e-4 / np.sqrt(25e-8 + epsilon)) < 1e-12


def bad_calls(x: np.ndarray, y: np.ndarray) -> list[tuple[Any, str, Callable[[], Any]]]:
    fixed = y.copy()
    fixed.setflags(write=False)
    room = np.zeros(400, "f4")
    shared = room[:210].reshape(x.shape)
    return [
        (ValueError, "read-only", lambda: cudml.max_pooling(x, 2, out=fixed)),
        (ValueError, "read-only", lambda: cudml.max_pooling(x, 2, out=lent(y))),
        (ValueError, "shares memory", lambda: cudml.max_pooling(
            shared, 2, out=room[3 : 3 + y.size].reshape(y.shape))),
        (ValueError, "Sizes", lambda: cudml.max_pooling(x, 2, out=y[:1])),
        (TypeError, "DataType", lambda: cudml.max_pooling(x, 2, out=y.view("i4"))),
        (ValueError, "Strides", lambda: cudml.max_pooling(x, 2, out=y[:, :, ::-1])),
        (ValueError, "Strides", lambda: cudml.max_pooling(
            x, 2, out=np.lib.stride_tricks.as_strided(y, y.shape, (72, 24, 6 * 4, 0)))),
        (ValueError, "stream", lambda: cudml.max_pooling(x, 2, stream=1)),
        (TypeError, "MaskedArray", lambda: cudml.max_pooling(np.ma.masked_array(x), 2)),
        (TypeError, "MaskedArray", lambda: cudml.max_pooling(x, 2, out=np.ma.masked_array(y))),
        (TypeError, "DataType", lambda: cudml.max_pooling(x.astype(">f4"), 2)),
        (TypeError, "DataType", lambda: cudml.max_pooling(x.view("V4"), 2)),
        (TypeError, "out", lambda: cudml.max_pooling(x, 2, out=(y, y))),
        (TypeError, "out", lambda: cudml.max_pooling(x, 2, return_indices=True, out=y)),
        (ValueError, "WindowSize", lambda: cudml.max_pooling(x, [2, 0])),
        (TypeError, "WindowSize", lambda: cudml.max_pooling(x, True)),
        (TypeError, "WindowSize", lambda: cudml.max_pooling(x, 2.0)),
    ]  # fmt: skip


def lent(y: np.ndarray) -> Exporter:
    return Exporter(y, flags=READ_ONLY)


def test_warm_plans_are_checked_like_cold_ones() -> None:
    """The same error, before and after the plan is known; nothing is written."""
    x = data((2, 3, 5, 7), "float32")
    y = np.full((2, 3, 4, 6), -1, "f4")
    for kind, text, call in bad_calls(x, y):
        said = []
        for is_warm in (False, True):
            cudml.clear_cache()
            if is_warm:
                for good in ({}, {"out": np.empty_like(y)}, {"return_indices": True}):
                    cudml.max_pooling(x, 2, **good)
            with refused(kind, "max_pooling: ", text) as caught:
                call()
            said.append(str(caught.value))
        assert said[0] == said[1] and (y == -1).all()


def test_warm_plans_take_any_address() -> None:
    """A plan met at one alignment serves the others."""
    memory = np.zeros(4096, np.uint8)
    x = data((2, 3, 5, 7), "float32")
    want = cudml.max_pooling(x, 2)
    for shift in (0, 4, 8, 16, 20, 32, 64, 1, 2, 3):
        moved = memory[shift : shift + x.nbytes].view(np.uint8)
        view = np.ndarray(x.shape, "f4", moved.data if shift % 4 == 0 else memory.data,
                          0 if shift % 4 == 0 else shift)  # fmt: skip
        view[...] = x
        assert bits(cudml.max_pooling(view, 2)) == bits(want), shift
