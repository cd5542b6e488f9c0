"""Which CUDA kernel a call gets and why: the order of the lists, and every predicate both ways."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import backends
import cudml
import harness
import kernel_cases
import layouts
import pool_kernel_cases
from kernel_case import environment, needs_of
from kernel_cases import FAMILIES

each_family = pytest.mark.parametrize("family", FAMILIES)
GPU = "sm_90"  # whose usual facts the choices below are for
OLDER = "sm_80"  # without clusters


class Described:
    """An array without memory: all that an explanation needs."""

    def __init__(self, shape: tuple[int, ...], dtype: str, order: str = "C") -> None:
        self.shape, self.dtype, self.itemsize = shape, np.dtype(dtype), np.dtype(dtype).itemsize
        rank = len(shape)
        axes = layouts.channels_last_order(rank) if order == "L" else list(range(rank))
        steps, step = [0] * len(shape), self.itemsize
        for a in reversed(axes):
            steps[a] = step
            step *= 0 if order == "rows repeated" else shape[a] + (order == "apart")
        self.strides = tuple(steps)


def refusal(op: str, call: dict[str, Any], kernel: str, device: str = GPU) -> str:
    """What the kernel needs and does not get, or nothing where it would run."""
    try:
        with environment(CUDML_KERNEL=kernel):
            found = harness.explained(op, call, device=device)
    except ValueError as error:
        begin = f'{op}: CUDML_KERNEL is "{kernel}", which needs that '
        assert str(error).startswith(begin), error
        return str(error).removeprefix(begin)
    assert found.kernel == kernel and "forced by CUDML_KERNEL" in found.reason
    return ""


Calls = list[tuple[str, str, dict[str, Any]]]


@functools.cache
def table(family: str) -> Calls:
    """The calls of the kernels' table: description, operator, arguments."""
    found = []
    for case in kernel_cases.cases(family):
        for dtype in case.dtypes:
            call = case.call(dtype)
            for name in case.layouts[:2]:
                moved = {k: harness.LAYOUTS[name](v) for k, v in harness.arrays_of(call).items()}
                sent = harness.with_arrays(call, moved)
                found.append((f"{case.name}, {name} {dtype}", case.op, sent))
    return found


def pooled(shape: tuple[int, ...], window: Any, strides: Any = 1, **more: Any) -> dict[str, Any]:
    x = Described(shape, more.pop("dtype", "float32"), more.pop("order", "C"))
    return {"x": x, "window_size": window, "strides": strides, **more}


def backward(op: str, shape: tuple[int, ...], window: Any, strides: int, **more: Any) -> Any:
    pads = {"start_padding": more.pop("start_padding", 0)}
    call = pooled(shape, window, strides, **more)
    order = more.get("order", "C")
    numbers = {"window_size": window, "strides": strides, **pads}
    out = pool_kernel_cases.output_shape(shape, numbers)
    grad = Described(out, "float32", order if order == "L" else "C")
    first = {"grad": grad, "input_sizes": shape} if op.startswith("average") else {"grad": grad}
    if op.startswith("lp"):
        first["y"] = grad
    if op.startswith("average"):
        del call["x"]
    return {**{k: v for k, v in call.items() if k == "x"}, **first, **numbers}


def given(shape: tuple[int, ...], group: tuple[int, ...], order: str = "C") -> dict[str, Any]:
    """Arguments of `normalize` with a variance for each group."""
    x = Described(shape, "float16", order)
    return {"x": x, "mean": None, "variance": Described(group, "float64"), "out": x}


HUGE = (2, 1, 40_000, 60_000)  # more than 2^31 elements
HUGE_LANES = (1, 16, 12_000, 12_000)
OVERLAPPING = (1, 16, 1087, 1088)  # with 16 million windows of 64 x 65


def extremes(family: str) -> Calls:
    """Calls that are too large to run: what only they lack."""
    max_pool, mvn = "max_pooling", "mean_variance_normalization"
    statistics = "normalization_statistics"
    gradient = family.replace("pool", "pooling")
    calls = {
        "pool": [
            *((max_pool, pooled(HUGE, w, s)) for w, s in (
                (2, 2), (3, 2), (3, 1), ((1, 2), (1, 2)), ((1, 3), (1, 2)), ((1, 3), 1), (8, 8)
            )),
            (max_pool, pooled(HUGE_LANES, 2, order="L")),
            (max_pool, pooled(HUGE, HUGE[2:])),
            (max_pool, pooled(OVERLAPPING, (64, 65), order="L")),
            (max_pool, pooled((1, 1, 1025, 6, 6), (1025, 2, 2), 2)),
            (max_pool, pooled((1, 1, 456, 6, 6), (456, 3, 3), 2)),
            (max_pool, pooled((1, 1, 456, 6, 6), (456, 3, 3))),
            (max_pool, pooled((1, 1, 2049, 6, 6), (2049, 1, 2), (1, 1, 2))),
            (max_pool, pooled((1, 1, 2049, 6, 6), (2049, 1, 3), (1, 1, 2))),
            (max_pool, pooled((1, 1, 2049, 6, 6), (2049, 1, 3))),
            (max_pool, pooled((1, 1, 300, 300), (120, 90))),
        ],
        "unpool": [],
        "pad": [
            ("padding", {"x": Described((2**31,), "uint8"), "start_padding": 16,
                         "end_padding": 16}),
            ("padding", {"x": Described((2**31 + 1,), "uint8"), "start_padding": 1,
                         "end_padding": 1}),
            ("padding", {"x": Described((2**31, 3), "uint8"), "start_padding": (0, 1),
                         "end_padding": 0}),
            ("padding", {"x": Described((5, 4, 9), "uint8"), "start_padding": 1, "end_padding": 0,
                         "out": Described((6, 5, 10), "uint8", "apart")}),
        ],
        "pad_grad": [
            ("padding_grad", {"grad": Described((2**31 + 1, 4), "float16"), "mode": "edge",
                              "input_sizes": (2**31, 3), "start_padding": (1, 0),
                              "end_padding": (0, 1)}),
            ("padding_grad", {"grad": Described((3, 5), "float32"), "mode": "wrap",
                              "input_sizes": (2, 3), "start_padding": (1, 0),
                              "end_padding": (0, 2), "out": np.zeros((3, 2), np.float32).T}),
        ],
        "mvn": [
            (mvn, {"x": Described((2**31, 8), "float16"), "axes": 1}),
            (mvn, {"x": Described((4, 2**31), "float16"), "axes": 0}),
            (mvn, {"x": Described((2**14, 2**27), "float16"), "axes": 0}),
            (mvn, {"x": Described((2**26, 4096), "float16"), "axes": 1}),
            (mvn, {"x": Described((200, 70_000), "float32"), "axes": 1}),
            (mvn, {"x": Described((4, 600_000), "float32"), "axes": 1}),
        ],
        "mvn_grad": [
            ("mean_variance_normalization_grad", {
                "x": Described((5, 40), "float32"), "grad": Described((5, 40), "float32"),
                "scale": np.ones((1, 80), "f4")[:, ::2], "axes": 1,
            }),
            ("mean_variance_normalization_grad", {
                "x": Described((5, 40), "float32"), "grad": Described((5, 40), "float32"),
                "bias": np.ones((1, 40), "f4"), "axes": 1, "outputs": ("bias",),
            }),
        ],
        "statistics": [
            (statistics, {"x": Described((3, 0), "float16"), "axes": 1}),
            (statistics, {"x": Described((2**26, 8), "float64"), "axes": 1}),
        ],
        "normalize": [
            ("normalize", given((5, 40), (1, 1), order="apart")),
            ("normalize", given((2**31,), (1,))),
            ("normalize", given((2**26, 1024), (2**26, 1))),
        ],
    }  # fmt: skip
    if "pool_grad" in family:
        calls[family] = [
            (gradient, backward(gradient, HUGE, 2, 2)),
            (gradient, backward(gradient, HUGE, 2, 2, order="rows repeated")),
            (gradient, backward(gradient, HUGE, 3, 2)),
            (gradient, backward(gradient, HUGE, 3, 2, order="rows repeated")),
            *(
                (gradient, backward(gradient, HUGE, 3, 2, order=order, start_padding=(1, 1)))
                for order in ("C", "rows repeated")
            ),
            (gradient, backward(gradient, HUGE_LANES, 3, 2, order="L")),
            (gradient, backward(gradient, (1, 4, 70, 70), 33, 1)),
            (gradient, backward(gradient, (1, 4, 70, 70), 33, 1, order="L")),
        ]
    return [(f"extreme {i}", op, call) for i, (op, call) in enumerate(calls[family])]


@each_family
def test_every_kernel_takes_many_calls_and_every_predicate_fails_somewhere(family: str) -> None:
    takes: dict[str, list[str]] = {name: [] for name in needs_of(family)}
    failed: dict[str, set[str]] = {name: set() for name in takes}
    for description, op, call in [*table(family), *extremes(family)]:
        for name in takes:
            need = refusal(op, call, name)
            takes[name] += [] if need else [description]
            failed[name] |= {need} if need else set()
    for _, op, call in extremes(family):
        for name in takes:
            need = refusal(op, call, name, OLDER)
            failed[name] |= {need} if need else set()
    for name, needs in needs_of(family).items():
        types = {description.rpartition(" ")[2] for description in takes[name]}
        assert len(takes[name]) >= 8 and len(types) >= 3, f"{name} takes only {takes[name]}"
        silent = [need for need in needs if need not in failed[name]]
        assert not silent, f"nothing made {name} say that it needs that {silent}"
        assert failed[name] <= set(needs), failed[name] - set(needs)


@each_family
def test_the_first_kernel_that_can_is_chosen(family: str) -> None:
    """The reason states what holds and, for every earlier kernel, the need that failed."""
    listed = needs_of(family)
    names = list(listed)
    for description, op, call in [*table(family)[::7], *extremes(family)]:
        chosen = harness.explained(op, call, device=GPU)
        for earlier in names[: names.index(chosen.kernel)]:
            need = refusal(op, call, earlier)
            assert need, f"{description}: {earlier} was passed over"
            assert f"not {earlier}, which needs that {need}" in chosen.reason
        assert refusal(op, call, chosen.kernel) == "", description
        assert all(need in chosen.reason for need in listed[chosen.kernel])
        assert chosen.device == GPU and chosen.grid and chosen.block and chosen.bytes > 0


@each_family
def test_the_last_kernel_needs_nothing(family: str) -> None:
    *others, last = needs_of(family).values()
    assert last == () and all(others)
    assert len(needs_of(family)) == len(cudml.kernels(family))


@pytest.mark.parametrize("family", [f for f in FAMILIES if f != "pool"])
def test_another_familys_kernel_forces_nothing(family: str) -> None:
    x = harness.data((2, 3, 8, 8), "float32")
    chosen = cudml.explain("max_pooling", x, 2, device=GPU).kernel
    for kernel in needs_of(family):
        with environment(CUDML_KERNEL=kernel):
            assert cudml.explain("max_pooling", x, 2, device=GPU).kernel == chosen
            assert cudml.explain("max_pooling", x, 2).kernel == "pool/strips"


@pytest.mark.parametrize("name", ["fastest", "pool_generic ", "POOL_GENERIC"])
def test_an_unknown_kernel_is_refused_with_the_names(name: str) -> None:
    x = harness.data((2, 3, 8, 8), "float32")
    texts = (f'max_pooling: CUDML_KERNEL is "{name}"', *needs_of("pool"))
    with environment(CUDML_KERNEL=name):
        with harness.refused(ValueError, *texts):
            cudml.explain("max_pooling", x, 2, device=GPU)
        with harness.refused(ValueError, *texts):
            cudml.max_pooling(x, 2)  # which runs on the CPU


def test_a_refused_call_leaves_its_output_alone() -> None:
    """And the next call runs."""
    x = harness.data((1, 3, 5, 7), "float64")
    with backends.using(backends.SIMT) as simulated:
        y = simulated.to(np.full((1, 3, 4, 6), 7.0))
        with (
            environment(CUDML_KERNEL="pool_tile_2x2_s2"),
            harness.refused(ValueError, "CUDML_KERNEL", "windows of 2x2, 2 apart"),
        ):
            cudml.max_pooling(simulated.to(x), 2, out=y)
        assert (simulated.back(y) == 7).all()
        harness.check("max_pooling", x, 2)
