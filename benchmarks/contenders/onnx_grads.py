"""ONNX models of gradients, of the kernels that ONNX Runtime's builds for training have on the CPU;
other builds refuse them, and say so. A gradient is given what the forward node saves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from arrays import Arrays, numpy_dtype
from cases import AVERAGE_GRAD, MAX_GRAD, MVN_GRAD

import cudml

from .onnx_parts import Part, Parts

EPSILON = 1e-5
_OWN = "com.microsoft"
_ACTIVATIONS: dict[str, tuple[str, str, dict[str, float]]] = {  # forward node and its gradient
    "gelu": ("Gelu", "GeluGrad", {}),
    "swish": ("QuickGelu", "QuickGeluGrad", {"alpha": 1.0}),
}
_FORWARD = {
    "layer": ("LayerNormalization", ""),
    "rms": ("SimplifiedLayerNormalization", ""),
}


def grad_ways(arrays: Arrays) -> dict[str, Parts]:
    """Of images only with the channels first in memory, as the kernels take them."""
    case = arrays.problem.case
    if arrays.problem.layout == "L" and not case.as_is:
        return {}
    makes: dict[str, Callable[[Arrays], dict[str, Parts]]] = {
        MAX_GRAD: _pooling,
        AVERAGE_GRAD: _pooling,
        MVN_GRAD: _normalization,
    }
    return makes[case.op](arrays) if case.op in makes else {}


def saved(arrays: Arrays, used: set[str]) -> dict[str, np.ndarray]:
    """The tensors that a forward node has saved, of those that a model uses."""
    made: dict[str, Callable[[Arrays], np.ndarray]] = {
        "mean": lambda a: _of_groups(a, a.logical("mean")),
        "factor": lambda a: _of_groups(a, 1 / np.sqrt(a.logical("variance") + np.float32(EPSILON))),
        "before": _before_activation,
        "winners": _winners,
    }
    return {name: make(arrays) for name, make in made.items() if name in used}


def _of_groups(arrays: Arrays, moments: np.ndarray) -> np.ndarray:
    """A vector of channels where a group is one, or with a size of 1 for each normalized axis."""
    return moments.reshape(-1) if arrays.problem.case.norm == "batch" else moments


def _before_activation(arrays: Arrays) -> np.ndarray:
    given = [arrays.logical(name) if name in arrays else None for name in ("x", "scale", "bias")]
    use_mean = arrays.problem.case.norm != "rms"
    return cudml.mean_variance_normalization(*given, axes=arrays.problem.axes, use_mean=use_mean)


def _winners(arrays: Arrays) -> np.ndarray:
    problem = arrays.problem
    geometry = (problem.window, problem.strides, problem.pad, problem.pad, problem.dilations)
    more: dict[str, Any] = {"return_indices": True, "index_dtype": "int64"}
    return cudml.max_pooling(arrays.logical("x"), *geometry, **more)[1]


def _pooling(arrays: Arrays) -> dict[str, Parts]:
    problem = arrays.problem
    attributes: dict[str, Any] = {
        "kernel_shape": list(problem.window),
        "strides": list(problem.strides),
        "pads": [*problem.pad, *problem.pad],
    }
    if problem.case.op == AVERAGE_GRAD:
        attributes["count_include_pad"] = int(problem.case.args.get("include_padding", False))
        forward = Part("AveragePool", ["x"], ["result"], attributes)
        gradient = Part("AveragePoolGrad", ["grad"], ["y"], attributes)
    else:
        forward = Part("MaxPool", ["x"], ["result", "winners"], attributes)
        gradient = Part("MaxPoolGrad", ["grad", "winners"], ["y"], attributes)
    nodes = [forward, gradient] if problem.case.step else [gradient]
    return {gradient.op: Parts(nodes, opset=18)}


def _normalization(arrays: Arrays) -> dict[str, Parts]:
    """Nodes for groups and instances are missing, and one of batches that saves its moments."""
    case = arrays.problem.case
    norm, name = case.norm, case.args.get("activation", "")
    is_channels = norm == "rms" and arrays.problem.axes != (len(arrays.problem.shape) - 1,)
    known = (
        norm in ("layer", "rms", "batch") and not is_channels and (not name or name in _ACTIVATIONS)
    )
    if not known or (case.step and norm not in _FORWARD):
        return {}
    constants: dict[str, np.ndarray] = {"one": np.array([-1], np.int64)}
    vectors = case.scaled.split()
    nodes = [Part("Reshape", [v, "one"], [f"{v}_1d"]) for v in vectors]
    if not vectors:  # the kernels need a scale, and make its gradients
        dtype = numpy_dtype(arrays.problem.dtype)
        constants["scale_1d"] = np.ones(arrays.problem.shape[-1], dtype)
    source = "grad"
    if case.step:
        nodes += _forward_nodes(norm, name, vectors)
    if name:
        _, derivative, attributes = _ACTIVATIONS[name]
        nodes.append(Part(derivative, ["grad", "before"], ["inner"], attributes, _OWN))
        source = "inner"
    gradient = _gradient_node(norm, source)
    return {gradient.op: Parts([*nodes, gradient], constants, 17)}


def _forward_nodes(norm: str, activation: str, vectors: list[str]) -> list[Part]:
    op, domain = _FORWARD[norm]
    moments = ["factor"] if norm == "rms" else ["mean", "factor"]
    attributes = {"epsilon": EPSILON, "axis": -1}
    inputs, first = ["x", *(f"{v}_1d" for v in vectors)], "before" if activation else "result"
    nodes = [Part(op, inputs, [first, *moments], attributes, domain)]
    if activation:
        forward, _, more = _ACTIVATIONS[activation]
        nodes.append(Part(forward, ["before"], ["result"], more, _OWN))
    return nodes


def _gradient_node(norm: str, source: str) -> Part:
    if norm == "rms":
        inputs, op = [source, "x", "scale_1d", "factor"], "SimplifiedLayerNormalizationGrad"
        return Part(op, inputs, ["y", "dscale"], {"axis": -1}, _OWN)
    inputs = [source, "x", "scale_1d", "mean", "factor"]
    if norm == "batch":
        op, attributes = "BatchNormalizationGrad", {"epsilon": EPSILON}
    else:
        op, attributes = "LayerNormalizationGrad", {"axis": -1}
    return Part(op, inputs, ["y", "dscale", "dbias"], attributes, _OWN)
