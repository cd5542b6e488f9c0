"""The library's own calls: its public functions, with out=."""

from __future__ import annotations

from typing import Any

from arrays import Arrays
from cases import AVERAGE_GRAD, FROM_GRADIENT, MAX, MAX_GRAD, MVN, PAD, PAD_GRAD

import cudml

from . import Ways


def arguments(arrays: Arrays) -> tuple[list[Any], dict[str, Any]]:
    """What the operator is called with, `out` apart; the reference takes the same."""
    problem = arrays.problem
    op, args = problem.case.op, problem.case.args
    inputs = [arrays.logical(name) for name in ("x", "grad") if name in arrays]
    if op in FROM_GRADIENT:
        inputs.append(problem.shape)
    if op in (PAD, PAD_GRAD):
        pads = {"start_padding": problem.start, "end_padding": problem.end, "mode": args["mode"]}
        return inputs, pads
    if op == MVN:
        inputs += [arrays.logical(name) if name in arrays else None for name in ("scale", "bias")]
        use_mean, activation = problem.case.norm != "rms", args.get("activation")
        return inputs, {"axes": problem.axes, "use_mean": use_mean, "activation": activation}
    geometry = (problem.window, problem.strides, problem.pad, problem.pad, problem.dilations)
    names = ("window_size", "strides", "start_padding", "end_padding", "dilations")
    more: dict[str, Any] = {
        name: args[name] for name in ("axes", "p", "include_padding") if name in args
    }
    if problem.ceil:
        more["output_sizes"] = "ceil"
    if problem.index:
        more |= {"return_indices": True, "index_dtype": problem.index}
    assert op in (MAX, MAX_GRAD, AVERAGE_GRAD) or "pooling" in op
    return inputs, {**dict(zip(names, geometry, strict=True)), **more}


def ways(arrays: Arrays) -> Ways:
    function = getattr(cudml, arrays.problem.case.op)
    inputs, kwargs = arguments(arrays)
    out = arrays.logical("y")
    if arrays.problem.index:
        out = (out, arrays.logical("indices"))
    return {"out=": lambda: function(*inputs, **kwargs, out=out)}
