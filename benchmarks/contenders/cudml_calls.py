"""The library's own calls: its public functions, with out= and without."""

from __future__ import annotations

from typing import Any

from arrays import Arrays
from cases import FROM_GRADIENT, MVN, MVN_GRAD, NORMALIZE, PAD, PAD_GRAD, UNPOOL

import cudml

from . import Call, Ways

_INPUTS = ("x", "norms", "grad", "positions")  # in the order in which operators take them


def arguments(arrays: Arrays) -> tuple[list[Any], dict[str, Any]]:
    """What the operator of one call is called with, `out` apart; the reference takes the same."""
    problem = arrays.problem
    op, args = problem.case.op, problem.case.args
    inputs = [arrays.logical(name) for name in _INPUTS if name in arrays]
    if op in (*FROM_GRADIENT, UNPOOL):
        inputs.append(problem.shape)
    if op in (PAD, PAD_GRAD):
        pads = {"start_padding": problem.start, "end_padding": problem.end, "mode": args["mode"]}
        return inputs, pads
    if op in (MVN, MVN_GRAD):
        return _normalization(arrays, inputs)
    if op == NORMALIZE:
        given = [arrays.logical(name) for name in ("mean", "variance", "scale", "bias")]
        return [*inputs, *given], {"activation": args.get("activation")}
    if op == UNPOOL:
        return inputs, {}
    geometry = (problem.window, problem.strides, problem.pad, problem.pad, problem.dilations)
    names = ("window_size", "strides", "start_padding", "end_padding", "dilations")
    more: dict[str, Any] = {
        name: args[name] for name in ("axes", "p", "include_padding") if name in args
    }
    if problem.ceil:
        more["output_sizes"] = "ceil"
    if problem.index:
        more |= {"return_indices": True, "index_dtype": problem.index}
    return inputs, {**dict(zip(names, geometry, strict=True)), **more}


def _normalization(arrays: Arrays, inputs: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """A gradient takes the statistics that its forward call has saved."""
    problem = arrays.problem
    inputs += [arrays.logical(name) if name in arrays else None for name in ("scale", "bias")]
    more: dict[str, Any] = {}
    if problem.case.op == MVN_GRAD:
        more = {name: arrays.logical(name) for name in problem.moments}
    elif "return_statistics" in problem.case.args:
        more = {"return_statistics": True}
    use_mean, activation = problem.case.norm != "rms", problem.case.args.get("activation")
    return inputs, {"axes": problem.axes, "use_mean": use_mean, "activation": activation, **more}


def outputs(arrays: Arrays) -> Any:
    """What the operator of one call takes as `out`: an array, or as many as it returns."""
    op = arrays.problem.case.op
    names: tuple[str, ...] = ("y",)
    if arrays.problem.index:
        names = ("y", "indices")
    elif op == MVN_GRAD:
        names = ("y", "dscale", "dbias")
    elif "return_statistics" in arrays.problem.case.args:
        names = ("y", "mean", "variance")
    found = tuple(arrays.logical(name) if name in arrays else None for name in names)
    return found if len(found) > 1 else found[0]


def _call(arrays: Arrays, **out: Any) -> Call:
    function = getattr(cudml, arrays.problem.case.op)
    inputs, kwargs = arguments(arrays)
    return lambda: function(*inputs, **kwargs, **out)


def ways(arrays: Arrays) -> Ways:
    """One way: every output is given, and in a step the forward call comes first."""
    calls = [_call(one, out=outputs(one)) for one in arrays.of_each_call()]
    if len(calls) == 1:
        return {"out=": calls[0]}
    forward, gradient = calls
    return {"out=": lambda: (forward(), gradient())}


def returning(arrays: Arrays) -> Ways:
    """One way more for single calls: results are new arrays, as most of the peers' are, whose
    memory may be in the caches where that of `out` is not."""
    return {"returned": _call(arrays)} if len(arrays.of_each_call()) == 1 else {}


def returned(arrays: Arrays, result: Any) -> list[Any]:
    """The outputs that are compared with those of peers, of such a call's result."""
    results = result if isinstance(result, tuple) else (result,)
    return list(results[: len(arrays.problem.compared)])
