"""PyTorch's gradients: its backward functions called directly, and autograd through the operator.

A gradient alone is given what PyTorch saves of its forward call; in a step both are timed. Results
are those that are compared: the gradients of x, scale and bias, and in a step the forward result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from arrays import Arrays
from cases import AVERAGE_GRAD, LP_GRAD, MAX_GRAD, MVN_GRAD, PAD_GRAD
from problems import Problem

from . import Ways
from .torch_arguments import MODES, geometry, last_first
from .torch_norm_grads import direct_norms, norms

aten = torch.ops.aten
Forward = Callable[..., torch.Tensor]  # of x, and of scale and bias where there are any


def ways(arrays: Arrays) -> Ways:
    case, found = arrays.problem.case, by_autograd(arrays)
    direct: dict[str, Callable[[Arrays], Ways]] = {
        MAX_GRAD: _direct_max,
        AVERAGE_GRAD: _direct_average,
        PAD_GRAD: _direct_padding,
        MVN_GRAD: direct_norms,
    }
    make = None if case.step else direct.get(case.op)
    return {**(make(arrays) if make else {}), **found}


def by_autograd(arrays: Arrays, made: Callable[[Forward], Forward] = lambda f: f) -> Ways:
    """Through the forward functions, or through what is made of them."""
    forwards: dict[str, Callable[[Arrays], dict[str, Forward]]] = {
        MAX_GRAD: _pooling,
        AVERAGE_GRAD: _pooling,
        LP_GRAD: _lp,
        PAD_GRAD: _padding,
        MVN_GRAD: norms,
    }
    case = arrays.problem.case
    take = _step if case.step else _backward
    functions = forwards[case.op](arrays)
    return {f"{name}, autograd": take(arrays, made(f)) for name, f in functions.items()}


def _leaves(arrays: Arrays) -> list[torch.Tensor]:
    """What gradients are taken of; x of the gradients that need no values is made up."""
    x = arrays.image("x") if "x" in arrays else torch.zeros_like(arrays.image("y"))
    vectors = [arrays.flat(name) for name in arrays.problem.case.scaled.split()]
    return [t.detach().requires_grad_() for t in (x, *vectors)]


def _backward(arrays: Arrays, forward: Forward) -> Callable[[], Any]:
    leaves, grad = _leaves(arrays), arrays.image("grad")
    with torch.enable_grad():
        y = forward(*leaves)
    return lambda: torch.autograd.grad(y, leaves, grad, retain_graph=True)


def _step(arrays: Arrays, forward: Forward) -> Callable[[], Any]:
    leaves, grad = _leaves(arrays), arrays.image("grad")

    def both() -> Any:
        with torch.enable_grad():
            y = forward(*leaves)
        return (*torch.autograd.grad(y, leaves, grad), y)

    return both


def _pooling(arrays: Arrays) -> dict[str, Forward]:
    problem = arrays.problem
    nd, (k, s, p, d) = len(problem.axes), geometry(problem)
    kind = "max" if problem.case.op == MAX_GRAD else "avg"
    function = getattr(F, f"{kind}_pool{nd}d")
    if kind == "max":
        return {f"max_pool{nd}d": lambda x: function(x, k, s, p, d, problem.ceil)}
    include = problem.case.args.get("include_padding", False)
    return {f"avg_pool{nd}d": lambda x: function(x, k, s, p, problem.ceil, include)}


def _lp(arrays: Arrays) -> dict[str, Forward]:
    problem = arrays.problem
    nd, power = len(problem.axes), float(problem.case.args["p"])
    k, s, _, _ = geometry(problem)
    function = getattr(F, f"lp_pool{nd}d")
    found: dict[str, Forward] = {f"lp_pool{nd}d": lambda x: function(x, power, k, s)}
    if problem.case.args["window"] is None:
        dims = tuple(range(-nd, 0))
        norm = torch.linalg.vector_norm
        found["vector_norm"] = lambda x: norm(x, power, dims, keepdim=True)
    return found


def _padding(arrays: Arrays) -> dict[str, Forward]:
    mode = MODES[arrays.problem.case.args["mode"]]
    flat = _pads(arrays)
    return {"pad": lambda x: F.pad(x, flat, mode)}


def _pads(arrays: Arrays) -> list[int]:
    problem = arrays.problem
    pairs = list(zip(problem.start, problem.end, strict=True))
    return last_first(pairs[-len(problem.case.args["start"]) :])


def _direct_max(arrays: Arrays) -> Ways:
    """PyTorch is given the indices that the forward call found; cudml finds the winners again."""
    problem = arrays.problem
    x, grad, dx = _planes(arrays, "x", "grad", "y")
    nd, (k, s, p, d) = x.ndim - 2, _windows(problem)
    forward = getattr(F, f"max_pool{nd}d")
    _, indices = forward(x, k, s, p, d, problem.ceil, return_indices=True)
    given = (grad, x, k, s, p, d, problem.ceil, indices)
    backward = getattr(aten, f"max_pool{nd}d_with_indices_backward")
    return _as_rows(problem, _both_ways(backward, given, dx))


def _direct_average(arrays: Arrays) -> Ways:
    problem, (grad, dx) = arrays.problem, _planes(arrays, "grad", "y")
    nd, (k, s, p, _) = dx.ndim - 2, _windows(problem)
    include = problem.case.args.get("include_padding", False)
    given = (grad, torch.zeros_like(dx), k, s, p, problem.ceil, include, None)
    backward = getattr(aten, f"avg_pool{nd}d_backward")
    return _as_rows(problem, _both_ways(backward, given, dx))


def _direct_padding(arrays: Arrays) -> Ways:
    problem, grad, dx = arrays.problem, arrays.image("grad"), arrays.image("y")
    nd = len(problem.case.args["start"])
    kind = "replication" if problem.case.args["mode"] == "edge" else "reflection"
    given = (grad, torch.zeros_like(dx), _pads(arrays))
    return _both_ways(getattr(aten, f"{kind}_pad{nd}d_backward"), given, dx)


def _planes(arrays: Arrays, *names: str) -> list[torch.Tensor]:
    """Of two dimensions at least, as PyTorch's gradients of windows have it: planes of one row."""
    images = [arrays.image(name) for name in names]
    return [t.unsqueeze(-2) for t in images] if len(arrays.problem.axes) == 1 else images


def _windows(problem: Problem) -> tuple[list[int], ...]:
    """The geometry on these planes."""
    if len(problem.axes) > 1:
        return geometry(problem)
    return tuple([one, *given] for one, given in zip((1, 1, 0, 1), geometry(problem), strict=True))


def _both_ways(backward: Any, given: tuple[Any, ...], dx: torch.Tensor) -> Ways:
    return {
        "backward": lambda: backward(*given),
        "grad_input=": lambda: backward.grad_input(*given, grad_input=dx),
    }


def _as_rows(problem: Problem, ways: Ways) -> Ways:
    """What is computed of planes of one row, as the rows."""
    if len(problem.axes) > 1:
        return ways
    return {name: lambda way=way: way().squeeze(-2) for name, way in ways.items()}
