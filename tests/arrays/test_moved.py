"""Arrays whose memory Python code moves or frees while a call reads its arguments.

Nothing stale may be followed: such a call is refused and writes nothing. While other threads run,
memory stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudml
from array_support import child_says
from cudml import _operators, directml
from directml_support import desc_of
from harness import data, refused

SHAPE = (2, 3, 40, 50)
X = data(SHAPE, "float32")
pytestmark = pytest.mark.filterwarnings("ignore")  # of ways that NumPy advises against
CHANGED = "has been changed by Python code"


class Number:
    """An integer that does something when it is asked."""

    def __init__(self, act: Callable[[], Any], value: int = 2) -> None:
        self.act, self.value = act, value

    def __index__(self) -> int:
        self.act()
        return self.value


def shrink(a: np.ndarray) -> None:
    a.resize((1,), refcheck=False)


def grow(a: np.ndarray) -> None:
    a.resize((a.size * 64,), refcheck=False)


def replace(a: np.ndarray) -> None:
    a.__setstate__((1, (1,), a.dtype, False, bytes(a.itemsize)))


WAYS = {f.__name__: f for f in (shrink, grow, replace)}
every_way = pytest.mark.parametrize("way", WAYS)


@every_way
@pytest.mark.parametrize("what", ["x", "base of x", "reversed x", "out", "base of out"])
def test_arrays_of_numpy_that_integers_move(what: str, way: str) -> None:
    base = np.zeros(X.size, "float32")
    x, out = X.copy(), np.full((2, 3, 39, 49), -1, "float32")
    target = out if what == "out" else x
    if what in ("base of x", "reversed x"):
        target, x = base, base.reshape(SHAPE)
    if what == "reversed x":
        x = x[..., ::-1]
    if what == "base of out":
        target, out = base, base[: out.size].reshape(out.shape)
    call = lambda: cudml.max_pooling(x, (Number(lambda: WAYS[way](target)), 2), out=out)  # noqa: E731
    with refused(ValueError, "max_pooling: ", CHANGED):
        call()
    assert "out" in what or (out == -1).all()


@every_way
@pytest.mark.parametrize("label", ["grad", "scale", "bias", "indices"])
def test_every_argument_is_looked_at_last(label: str, way: str) -> None:
    x, a = X.copy(), np.ones(SHAPE, "float32")
    move = Number(lambda: WAYS[way](a))
    with refused(ValueError, CHANGED):
        if label == "grad":
            cudml.max_pooling_grad(x, a, (Number(lambda: WAYS[way](a), 1), 1))
        elif label == "indices":
            a = np.zeros((2, 3, 39, 49), "uint32")
            y = np.zeros(a.shape, "float32")
            cudml.max_pooling(x, (move, 2), return_indices=True, out=(y, a))
        else:
            cudml.mean_variance_normalization(x, **{label: a}, axes=(move, 3))


@every_way
def test_arrays_beside_many_numbers(way: str) -> None:
    base, x = np.zeros(512, "float32"), np.ones((1, 1, 8, 8, 8), "float32")
    each = lambda n: (np.array(n),) * 3  # noqa: E731
    with refused(ValueError, "max_pooling: OutputTensor", CHANGED):
        cudml.max_pooling(
            x,
            (Number(lambda: WAYS[way](base), 1), *each(1)[1:]),
            each(1),
            each(0),
            each(0),
            each(1),
            output_sizes=each(8),
            axes=tuple(np.array(n) for n in (2, 3, 4)),
            out=base.reshape(x.shape),
        )


class Moving:
    """An array of no known library that does something when it is asked."""

    def __init__(self, a: np.ndarray, act: Callable[[], Any]) -> None:
        self.a, self.act = a, act

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **keywords: Any) -> Any:
        self.act()
        return self.a.__dlpack__(**keywords)


@every_way
def test_arrays_beside_one_of_the_same_argument(way: str) -> None:
    base, n = np.ones(8), np.ones(4)
    a = (Moving(n, lambda: WAYS[way](base)), base[:4], base[4:])
    out = tuple(np.full(4, -1.0) for _ in range(3))
    with refused(ValueError, "merge_statistics: a.Mean (a[1])", CHANGED):
        cudml.merge_statistics(a, (n, n, n), out=out)
    assert all((o == -1).all() for o in out)


def torch_ways() -> dict[str, Callable[[Any], Any]]:
    return {
        "set_": lambda t: t.set_(),
        "freed": lambda t: t.untyped_storage().resize_(0),
        "resize_": lambda t: t.resize_(1),
        "transposed": lambda t: t.transpose_(2, 3),
        "data": lambda t: setattr(t, "data", t.new_zeros(1)),
    }


@pytest.mark.parametrize("way", ["set_", "freed", "resize_", "transposed", "data"])
@pytest.mark.parametrize("kind", ["Tensor", "Parameter"])
def test_tensors_that_integers_move(kind: str, way: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for what in ("x", "out"):
        x, out = torch.from_numpy(X.copy()).clone(), torch.full((2, 3, 39, 49), -1.0)
        if kind == "Parameter":
            x, out = (torch.nn.Parameter(t, requires_grad=False) for t in (x, out))
        move = Number(lambda t={"x": x, "out": out}[what]: torch_ways()[way](t))
        text = CHANGED if what == "x" else ""  # the output is read after it was moved
        with refused((BufferError, ValueError), "max_pooling: ", text):
            _operators.max_pooling(x, (move, 2), out=out)
        assert what == "out" or (out == -1).all()


@pytest.mark.parametrize("way", ["set_", "freed", "data"])
def test_tensors_that_move_while_others_are_asked(way: str) -> None:
    """A mode sees the question whether the second tensor is negated."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    desc = desc_of("MaxPoolingGrad")
    run = cudml.Operator(desc).compile("cpu")
    sizes = [tuple(t.Sizes) for t in (desc.InputTensor, desc.InputGradientTensor)]
    x, grad = (torch.rand(s) for s in sizes)
    out = torch.full(sizes[0], -1.0)

    class Moving(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if args and args[0] is grad:
                with torch._C.DisableTorchFunction():
                    torch_ways()[way](x)
            return f(*args, **(kwargs or {}))

    with Moving(), pytest.raises((ValueError, BufferError)):
        run(x, grad, out=out)
    assert (out == -1).all()


def test_a_workspace_that_is_moved() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    desc = desc_of("MaxPoolingGrad")
    sizes = [tuple(t.Sizes) for t in (desc.InputTensor, desc.InputGradientTensor)]
    _, c, h, w = sizes[0]
    wide = [c * h * (w + 1), h * (w + 1), w + 1, 1]  # which takes a call of PyTorch's to allocate
    apart = directml.BufferTensorDesc("FLOAT32", sizes[0], wide)
    run = cudml.Operator(desc_of("MaxPoolingGrad", OutputGradientTensor=apart)).compile("cpu")
    x, grad = (torch.rand(s) for s in sizes)
    workspace = np.zeros(run.workspace_bytes + 64, "uint8")

    class Allocating(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if f is torch.empty_strided:
                workspace.resize((1,), refcheck=False)
            return f(*args, **(kwargs or {}))

    assert torch.equal(run(x, grad, workspace=workspace), run(x, grad))
    with Allocating(), refused(ValueError, "MAX_POOLING_GRAD: workspace", CHANGED):
        run(x, grad, workspace=workspace)
    assert workspace.size == 1


@every_way
@pytest.mark.parametrize("kind", [np.asarray, memoryview, lambda a: memoryview(memoryview(a)[8:])])
def test_a_workspace_that_is_moved_before_it_is_read(kind: Callable[[Any], Any], way: str) -> None:
    desc = desc_of("MaxPoolingGrad")
    run = cudml.Operator(desc).compile("cpu")
    sizes = [tuple(t.Sizes) for t in (desc.InputTensor, desc.InputGradientTensor)]
    x, grad = (np.ones(s, "float32") for s in sizes)
    workspace = np.zeros(run.workspace_bytes + 64, "uint8")
    assert run(x, grad, workspace=kind(workspace)).tobytes() == run(x, grad).tobytes()
    moving, out = Moving(x, lambda: WAYS[way](workspace)), np.full(sizes[0], -1, "float32")
    with refused(ValueError, "MAX_POOLING_GRAD: workspace", CHANGED):
        run(moving, grad, out=out, workspace=kind(workspace))
    assert (out == -1).all()


THREADS = """
import sys, threading, warnings
import numpy as np
import cudml
from directml_support import operator, tensor
warnings.simplefilter('ignore')
sys.setswitchinterval(1000)  # so that the lock is free while a call works, and at no other time

def function(x, out):
    return cudml.average_pooling(x, 3, out=out)

sizes, pooled = [1, 4, 1500, 1500], [1, 4, 1498, 1498]
compiled = operator('AveragePooling', InputTensor=tensor(sizes), OutputTensor=tensor(pooled),
                    WindowSize=[3, 3], Strides=[1, 1], StartPadding=[0, 0], EndPadding=[0, 0],
                    IncludePadding=False).compile('cpu')

def resize(a):
    a.resize((1,), refcheck=False)

def outcome(call, x, out, target, move):
    gate, said, is_over = threading.Event(), [], False
    def other():
        gate.wait()
        if is_over:
            return said.append('late')
        try:
            move(target)
            said.append('moved')
        except ValueError:
            said.append('refused')
    thread = threading.Thread(target=other)
    thread.start()
    gate.set()
    try:
        y = call(x, out=out)
    except ValueError:  # what was moved before the call had read it
        y = None
    is_over = True
    thread.join()
    return ('early' if y is None else said[0]), y

def check(make, target_of, move, wanted, same):
    for call in (function, compiled):
        want, said = call(make(sizes), out=make(pooled)), 'late'
        # The machine may give the other thread no time within the call, or some before it.
        while said in ('early', 'late'):
            x, out = make(sizes), make(pooled)
            said, y = outcome(call, x, out, target_of(x, out), move)
        assert said == wanted, (said, wanted)
        assert same(y, want)

numbers = np.random.default_rng(1).random(sizes, 'float32').ravel()

def array(shape):
    return np.resize(numbers, shape)

def view(shape):
    return array(shape)[:]

check(array, lambda x, out: x, resize, 'refused', np.array_equal)
check(array, lambda x, out: out, resize, 'refused', np.array_equal)
check(view, lambda x, out: x.base, resize, 'refused', np.array_equal)
if len(sys.argv) > 1:
    import torch
    torch.set_num_threads(1)
    tensor_of = lambda shape: torch.from_numpy(array(shape)).clone()
    check(tensor_of, lambda x, out: x, lambda t: t.set_(), 'moved', torch.equal)
print('ok')
"""


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_memory_stays_while_other_threads_run(library: str) -> None:
    if library == "torch":
        pytest.importorskip("torch", reason="torch is not installed")
    arguments = ["torch"] if library == "torch" else []
    assert child_says(THREADS, *arguments, limit=600, CUDML_NUM_THREADS="1") == "ok"
