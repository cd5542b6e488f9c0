"""The functions on tensors: the bits of `cudml`'s own calls, for values and for gradients."""

from __future__ import annotations

import doctest
import inspect
import sys

import numpy as np
import pytest

from array_support import child_says
from harness import data, refused

torch = pytest.importorskip("torch", reason="torch is not installed")

import cudml  # noqa: E402
import cudml.torch  # noqa: E402
import torch_support as ts  # noqa: E402

FLOATS = ("float32", "float16", "bfloat16", "float64")
CANONICAL = [name for name in cudml.torch.__all__ if hasattr(cudml, name)]
FORWARD, BACKWARD = tuple(ts.forward()), tuple(ts.backward())
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


@pytest.mark.decision("D-GRAD-33")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FORWARD)
def test_values_and_gradients_have_the_bits_of_cudml(name: str, dtype: str) -> None:
    case = ts.forward(dtype)[name]
    want = ts.listed(case.on_arrays())
    plain = ts.listed(case.on(*case.tensors().values()))
    tensors = case.tensors(requires_grad=True)
    recorded = ts.listed(case.on(*tensors.values()))
    for results in (plain, recorded):
        assert len(results) == len(want)
        assert all(ts.equal(*pair) for pair in zip(results, want, strict=True))
    g = data(want[0].shape, dtype, 11)
    recorded[0].backward(ts.tensor(g))
    gradients = case.grads(want[0], g)
    for key, gradient in zip(case.differentiable, gradients, strict=True):
        assert ts.equal(tensors[key].grad, gradient), key
        assert tensors[key].grad.dtype == tensors[key].dtype


@pytest.mark.parametrize("name", BACKWARD)
def test_the_gradients_themselves_are_functions(name: str) -> None:
    case = ts.backward()[name]
    want = ts.listed(case.on_arrays())
    got = ts.listed(case.on(*case.tensors().values()))
    assert len(got) == len(want) and all(ts.equal(*pair) for pair in zip(got, want, strict=True))
    asking = [t.requires_grad_() for t in case.tensors().values()]
    through = ts.listed(case.on(*asking))
    assert all(ts.equal(*pair) for pair in zip(through, want, strict=True))


@pytest.mark.parametrize("axes", [(0, 1), (1, 3), (0, 2, 3), (1,), (-1,)])
def test_pooled_axes(axes: tuple[int, ...]) -> None:
    """Whatever dimensions are pooled: values, indices, gradients, fake shapes."""
    x = data((4, 5, 6, 3), "float32", 3)
    window = (2, 3, 2)[: len(axes)]
    want, positions = cudml.max_pooling(
        x, window, axes=axes, start_padding=1, return_indices=True, index_dtype="int64"
    )
    g = data(want.shape, "float32", 4)
    gradient = cudml.max_pooling_grad(x, g, window, 1, 1, axes=axes)
    t = ts.tensor(x).requires_grad_()
    y, indices = cudml.torch.max_pooling(t, window, start_padding=1, axes=axes, return_indices=True)
    y.backward(ts.tensor(g))
    assert ts.equal(y, want) and ts.equal(indices, positions) and ts.equal(t.grad, gradient)
    flat = ts.tensor(g).requires_grad_()
    again = cudml.torch.max_pooling_grad(t.detach(), flat, window, 1, 1, axes=axes)
    mean = cudml.torch.average_pooling_grad(flat, x.shape, window, 1, 1, axes=axes)
    assert ts.equal(again, gradient)
    assert ts.equal(mean, cudml.average_pooling_grad(g, x.shape, window, 1, 1, axes=axes))
    norm = cudml.torch.lp_pooling(t, window, axes=axes, output_sizes="ceil", strides=2)
    assert ts.equal(norm, cudml.lp_pooling(x, window, axes=axes, output_sizes="ceil", strides=2))


def test_windows_without_elements_over_any_axes() -> None:
    x = data((4, 3, 5), "float32", 3)
    options = {"start_padding": (2, 0), "axes": (0, 2), "return_indices": True}
    want = cudml.max_pooling(x, (2, 3), index_dtype="int64", **options)
    got = cudml.torch.max_pooling(ts.tensor(x).requires_grad_(), (2, 3), **options)
    assert all(ts.equal(*pair) for pair in zip(got, want, strict=True))
    assert (want[1][0] == -1).all() and (want[1][1:] >= 0).all()


def test_indices_of_32_bits_count_to_their_largest_number() -> None:
    """The greatest index is one less than the number of elements; the sentinel is its own."""
    x = torch.zeros(1, 1, 1, requires_grad=True).expand(1, 3, (2**32 - 1) // 3)
    _, indices = cudml.torch.max_pooling(
        x, 1, x.shape[2], return_indices=True, index_dtype="uint32"
    )
    assert indices.tolist() == [[[0], [x.shape[2]], [2 * x.shape[2]]]]


def test_numbers_without_dimensions_are_numbers() -> None:
    """Arrays and tensors of one number, which have a length by name alone."""
    x = torch.arange(24.0).reshape(2, 3, 4)
    for t in (x, x.clone().requires_grad_()):
        for two in (np.array(2), torch.tensor(2)):
            assert torch.equal(cudml.torch.max_pooling(t, two), cudml.torch.max_pooling(x, 2))
            y = cudml.torch.mean_variance_normalization(t, axes=two)
            assert torch.equal(y, cudml.torch.mean_variance_normalization(x, axes=2))


def test_flags_of_numpy_are_flags() -> None:
    x, no = torch.arange(4.0).reshape(1, 1, 4), np.False_
    for t in (x, x.clone().requires_grad_()):
        y = cudml.torch.average_pooling(t, 2, 2, 1, 1, include_padding=np.True_)
        assert y.tolist() == [[[0, 1.5, 1.5]]]
        z = cudml.torch.mean_variance_normalization(t, axes=2, use_mean=no, use_variance=no)
        assert torch.equal(z, x)


def test_windows_without_elements_and_types_of_indices() -> None:
    x = torch.rand(2, 3, 4)
    for t in (x, x.clone().requires_grad_()):
        for dtype in ("int64", torch.int64, "uint32", torch.uint32, np.uint64, torch.uint64):
            y, indices = cudml.torch.max_pooling(
                t, 2, 3, 2, 0, return_indices=True, index_dtype=dtype
            )
            name = str(indices.dtype).removeprefix("torch.")
            _, want = cudml.max_pooling(
                x.numpy(), 2, 3, 2, 0, return_indices=True, index_dtype=name
            )
            assert ts.equal(indices, want) and not indices.requires_grad
            assert (y[..., 0] == -torch.inf).all() and name in str(dtype)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8"])
def test_integers_are_pooled_and_padded_without_a_gradient(dtype: str) -> None:
    x = data((2, 3, 5), dtype, 3)
    t = ts.tensor(x)
    assert ts.equal(cudml.torch.max_pooling(t, 2), cudml.max_pooling(x, 2))
    y = cudml.torch.padding(t, 1, 2, value=7)
    assert ts.equal(y, cudml.padding(x, 1, 2, value=7)) and not y.requires_grad
    op = torch.ops.cudml.padding.default
    assert ts.equal(op(t, [1] * 3, [2] * 3, "constant", 7), cudml.padding(x, 1, 2, value=7))


@pytest.mark.parametrize("asks", [False, True])
def test_a_mode_for_each_dimension(asks: bool) -> None:
    """D-PAD-14 out of operators of one mode: the constant wins, the others do not mix."""
    x = data((2, 3, 4, 3), "float64", 5)
    t = ts.tensor(x).requires_grad_(asks)
    modes = ["reflection", "constant", "wrap", "edge"]
    pads = ((1, 2, 5, 1), (2, 1, 3, 0))
    want = cudml.padding(x, *pads, mode=modes, value=3)
    y = cudml.torch.padding(t, *pads, mode=modes, value=3)
    assert ts.equal(y, want)
    if asks:
        g = data(want.shape, "float64", 6)
        y.backward(ts.tensor(g))
        bumped = [cudml.padding(np.eye(x.size)[i].reshape(x.shape), *pads, mode=modes)
                  for i in range(x.size)]  # fmt: skip
        want_grad = np.array([(b * g).sum() for b in bumped]).reshape(x.shape)
        assert np.allclose(t.grad.numpy(), want_grad, rtol=1e-14, atol=1e-14)


def test_exact_pad_values() -> None:
    x = torch.zeros(1, dtype=torch.int64)
    for t in (x, torch.zeros(2, dtype=torch.int64)[::2]):
        for value in (2**63 - 1, -(2**63), 2**53 + 1):
            assert cudml.torch.padding(t, 1, 0, value=value)[0].item() == value
    op = torch.ops.cudml.padding.default
    assert op(x, [1], [0], "constant", 2**53 + 1)[0].item() == 2**53 + 1


def test_merged_statistics() -> None:
    """ST5 and the partition of a whole (18.3); differentiable where a part is empty."""
    triple = lambda *values: [torch.tensor([float(v)], dtype=torch.float64) for v in values]  # noqa: E731
    merge = cudml.torch.merge_statistics
    examples = {
        ((2, 1.5, 0.5), (2, 3.5, 0.5)): (4, 2.5, 5),
        ((3, 2, 2), (1, 10, 0)): (4, 4, 50),
        ((0, 0, 0), (3, 7, 2)): (3, 7, 2),
        ((3, 7, 2), (0, 0, 0)): (3, 7, 2),
        ((0, 0, 0), (0, 0, 0)): (0, 0, 0),
        ((0, 5, 6), (0, 7, 8)): (0, 5, 6),
    }
    for (a, b), want in examples.items():
        assert [t.item() for t in merge(triple(*a), triple(*b))] == list(want)
    count, mean, m2 = merge(triple(2, 1, 1), triple(2, np.inf, np.nan))
    assert (count.item(), mean.item()) == (4, np.inf) and m2.isnan().all()
    parts = [[t.requires_grad_() for t in triple(0, 0, 0)] for _ in range(2)]
    sum(t.sum() for t in merge(*parts)).backward()
    assert all(t.grad.isfinite().all() for part in parts for t in part)
    whole = torch.arange(12.0).reshape(2, 6)
    stats = [cudml.torch.normalization_statistics(p, axes=1) for p in whole.split([4, 2], 1)]
    together = cudml.torch.normalization_statistics(whole, axes=1)
    for got, want in zip(merge(*stats), together, strict=True):
        assert torch.allclose(got, want, rtol=1e-15)


def test_merged_statistics_have_the_bits_of_cudml() -> None:
    for dtype in ("float32", "float64"):
        a, b = ([abs(data((3, 5), dtype, s)) for s in seeds] for seeds in ((1, 2, 3), (4, 5, 6)))
        a[0][0], b[0][1] = 0, 0
        want = cudml.merge_statistics(a, b)
        got = cudml.torch.merge_statistics([ts.tensor(t) for t in a], [ts.tensor(t) for t in b])
        assert all(ts.equal(*pair) for pair in zip(got, want, strict=True))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("flags", [(True, True), (False, True), (True, False)])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "transposed"])
def test_statistics_beside_a_result(dtype: str, flags: tuple[bool, bool], layout: str) -> None:
    """They have cudml's bits, also where autograd records, and are no way back."""
    x = data((2, 3, 5, 7), dtype, 3)
    t = ts.LAYOUTS[layout](ts.tensor(x))
    options = {"axes": 3, "use_mean": flags[0], "use_variance": flags[1]}
    alone = cudml.torch.mean_variance_normalization(t, **options)
    y, *statistics = cudml.torch.mean_variance_normalization(t, **options, return_statistics=True)
    assert ts.equal(y, alone) and y.stride() == alone.stride()
    leaf = t.clone().requires_grad_()
    again, *recorded = cudml.torch.mean_variance_normalization(
        leaf, **options, return_statistics=True
    )
    assert ts.equal(again, alone)
    _, *want = cudml.mean_variance_normalization(x, **options, return_statistics=True)
    for used, own, other, of_numpy in zip(flags, statistics, recorded, want, strict=True):
        assert (own is None) == (other is None) == (not used)
        if used:
            assert own.shape == other.shape == (2, 3, 5, 1) and own.dtype == other.dtype
            assert layout != "contiguous" or ts.equal(own, of_numpy)
            assert ts.equal(own, other)
            assert own.is_contiguous() and other.is_contiguous()
    again.sum().backward(retain_graph=True)
    assert leaf.grad is not None
    with refused(RuntimeError, "normalization_statistics: not differentiable"):
        next(t for t in recorded if t is not None).sum().backward()


@pytest.mark.parametrize("dtype", FLOATS)
def test_given_statistics_where_autograd_records(dtype: str) -> None:
    """The bits of cudml's call, though no registered operator takes statistics."""
    x, grad = data((3, 4, 50), dtype, 5), data((3, 4, 50), dtype, 6)
    scale = data((1, 4, 1), dtype, 7)
    _, mean, variance = cudml.mean_variance_normalization(x, axes=2, return_statistics=True)
    options = {"axes": 2, "activation": "gelu"}
    want = cudml.mean_variance_normalization_grad(
        x, grad, scale, mean=mean, variance=variance, **options
    )
    leaf, *rest = (ts.tensor(a) for a in (x, grad, scale, mean, variance))
    grad, scale, mean, variance = rest
    got = cudml.torch.mean_variance_normalization_grad(
        leaf.requires_grad_(), grad, scale, mean=mean, variance=variance, **options
    )
    assert got[2] is None and all(ts.equal(a, b) for a, b in zip(got[:2], want[:2], strict=True))
    with refused(RuntimeError, "cudml::mean_variance_normalization_grad: differentiable once only"):
        got[0].sum().backward()


@pytest.mark.decision("D-GRAD-40")
def test_importing_cudml_leaves_torch_alone() -> None:
    assert child_says("import sys, cudml; print('torch' in sys.modules)") == "False"
    says = (
        "import sys, types\n"
        "sys.modules['torch'] = types.ModuleType('torch')\n"
        "sys.modules['torch'].__version__ = '2.3.1'\n"
        "try: import cudml.torch\n"
        "except ImportError as error: print(error)\n"
    )
    assert child_says(says) == "cudml.torch needs PyTorch 2.4 or later; this one is 2.3.1"
    assert "cudml.torch" in sys.modules


@pytest.mark.decision("D-GRAD-37")
def test_autocast_leaves_types_as_they_are() -> None:
    x = torch.rand(2, 4, 6).half()
    scale = torch.rand(1, 1, 6)
    want = cudml.torch.mean_variance_normalization(x, scale, axes=2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for asks in (False, True):
            for t in (x, x.float()):
                y = cudml.torch.mean_variance_normalization(
                    t.clone().requires_grad_(asks), scale, axes=2
                )
                assert y.dtype == t.dtype
    assert want.dtype == torch.float16


@pytest.mark.decision("D-GRAD-39")
@pytest.mark.parametrize("name", FORWARD)
def test_deterministic_algorithms_are_all_there_are(name: str) -> None:
    case = ts.forward()[name]
    torch.use_deterministic_algorithms(True)
    try:
        runs = []
        for _ in range(3):
            tensors = case.tensors(requires_grad=True)
            y = ts.listed(case.on(*tensors.values()))[0]
            y.sum().backward()
            runs.append([y, *(tensors[key].grad for key in case.differentiable)])
    finally:
        torch.use_deterministic_algorithms(False)
    for other in runs[1:]:
        assert all(ts.equal(*pair) for pair in zip(runs[0], other, strict=True))


def test_traced_programs_hold_an_operator_or_are_refused() -> None:
    """Never are results of one call taken for those of every call."""
    x, other = torch.rand(1, 2, 4, 4), torch.rand(1, 2, 4, 4)
    normalized = lambda t: cudml.torch.mean_variance_normalization(t, axes=3)  # noqa: E731
    program = torch.jit.trace(normalized, x)
    assert "cudml::mean_variance_normalization" in str(program.graph)
    assert torch.equal(program(other), normalized(other))
    with refused(RuntimeError, "cudml::average_pooling: torch.jit.trace cannot hold it"):
        torch.jit.trace(lambda t: cudml.torch.average_pooling(t, 2), x)


@pytest.mark.parametrize("name", CANONICAL)
def test_every_function_has_an_example_that_runs(name: str) -> None:
    function = getattr(cudml.torch, name)
    found = doctest.DocTestFinder(recurse=False).find(function, name, module=cudml.torch)
    (example,) = [test for test in found if test.examples]
    outcome = doctest.DocTestRunner().run(example)
    assert outcome.attempted >= 2 and not outcome.failed


@pytest.mark.parametrize("name", CANONICAL)
def test_arguments_are_those_of_cudml(name: str) -> None:
    """But for `out` and `stream`, and the type of indices."""
    own, like = (inspect.signature(getattr(m, name)).parameters for m in (cudml.torch, cudml))
    assert list(own) == [p for p in like if p not in ("out", "stream")]
    for parameter, mine in own.items():
        assert mine.kind == like[parameter].kind
        want = "int64" if parameter == "index_dtype" else like[parameter].default
        assert mine.default == want
