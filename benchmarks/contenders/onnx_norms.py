"""ONNX models of the normalizations, of the operators that ONNX Runtime has on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from arrays import Arrays, numpy_dtype
from cases import NORMALIZE

from .onnx_parts import Part, Parts

EPSILON = 1e-5
_SILU = Part("QuickGelu", ["affine"], ["y"], {"alpha": 1.0}, "com.microsoft")


def norm_ways(arrays: Arrays) -> dict[str, Parts]:
    if arrays.problem.case.op == NORMALIZE:
        return _stored(arrays)
    made: dict[str, Callable[[Arrays], dict[str, Parts]]] = {
        "layer": _layer,
        "group": _group,
        "instance": _instance,
        "batch": _batch,
        "rms": _rms_channels if arrays.problem.axes == (1,) else _rms,
        "axes": _any_axes,
    }
    return made[arrays.problem.case.norm](arrays)


def _flat(arrays: Arrays, *names: str) -> tuple[list[Part], dict[str, np.ndarray]]:
    """Nodes that make vectors of scale and bias: name_1d."""
    nodes = [Part("Reshape", [name, "one"], [f"{name}_1d"]) for name in names]
    return nodes, {"one": np.array([-1], np.int64)}


def _layer(arrays: Arrays) -> dict[str, Parts]:
    nodes, constants = _flat(arrays, "scale", "bias")
    norm = Part("LayerNormalization", ["x", "scale_1d", "bias_1d"], ["y"], {"epsilon": EPSILON})
    return {"LayerNormalization": Parts([*nodes, norm], constants)}


def _rms(arrays: Arrays) -> dict[str, Parts]:
    nodes, constants = _flat(arrays, "scale")
    attributes = {"epsilon": EPSILON, "axis": -1}
    simple = Part("SimplifiedLayerNormalization", ["x", "scale_1d"], ["y"], attributes)
    plain = Part("RMSNormalization", ["x", "scale_1d"], ["y"], attributes)
    return {
        "SimplifiedLayerNormalization": Parts([*nodes, simple], constants),
        "RMSNormalization": Parts([*nodes, plain], constants, 23),
    }


def _rms_channels(arrays: Arrays) -> dict[str, Parts]:
    rank = len(arrays.problem.shape)
    nodes, constants = _flat(arrays, "scale")
    name, attributes = "SimplifiedLayerNormalization", {"epsilon": EPSILON, "axis": -1}
    if arrays.problem.layout == "L":
        norm = Part(name, ["x", "scale_1d"], ["affine"], attributes)
        return {name: Parts([*nodes, norm, _SILU], constants)}
    last, first = [0, *range(2, rank), 1], [0, rank - 1, *range(1, rank - 1)]
    nodes += [
        Part("Transpose", ["x"], ["rows"], {"perm": last}),
        Part(name, ["rows", "scale_1d"], ["normal"], attributes),
        Part("Transpose", ["normal"], ["affine"], {"perm": first}),
        _SILU,
    ]
    return {f"{name}, transposed": Parts(nodes, constants)}


def _ones(arrays: Arrays, count: int) -> dict[str, np.ndarray]:
    dtype = numpy_dtype(arrays.problem.dtype)
    return {"ones": np.ones(count, dtype), "zeros": np.zeros(count, dtype)}


def _with_transpositions(arrays: Arrays, nodes: list[Part]) -> list[Part]:
    """Nodes from image to image, between transpositions where the channels are last in memory."""
    rank = len(arrays.problem.image)
    if arrays.problem.layout != "L":
        renamed = {"image": "x", "result": "y"}
    else:
        renamed = {}
        to, back = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
        before = Part("Transpose", ["x"], ["image"], {"perm": to})
        after = Part("Transpose", ["result"], ["y"], {"perm": back})
        nodes = [before, *nodes, after]

    def named(names: list[str]) -> list[str]:
        return [renamed.get(name, name) for name in names]

    return [Part(n.op, named(n.inputs), named(n.outputs), n.attributes, n.domain) for n in nodes]


def _group(arrays: Arrays) -> dict[str, Parts]:
    image, groups = arrays.problem.image, arrays.problem.shape[1]
    per_channel = [1, image[1], *(1 for _ in image[2:])]
    constants: dict[str, np.ndarray] = {
        "grouped": np.array([image[0], groups, -1], np.int64),
        "whole": np.array(image, np.int64),
        "channels": np.array(per_channel, np.int64),
        **_ones(arrays, groups),
    }
    nodes = [
        Part("Reshape", ["image", "grouped"], ["rows"]),
        Part("InstanceNormalization", ["rows", "ones", "zeros"], ["normed"], {"epsilon": EPSILON}),
        Part("Reshape", ["normed", "whole"], ["normal"]),
        *_affine(),
        Part("QuickGelu", ["affine"], ["result"], {"alpha": 1.0}, "com.microsoft"),
    ]
    one_by_one = Parts(_with_transpositions(arrays, nodes), constants)
    vectors, more = _flat(arrays, "scale", "bias")
    attributes: dict[str, Any] = {"num_groups": groups, "epsilon": EPSILON}
    inputs = ["image", "scale_1d", "bias_1d"]
    nodes = [
        *vectors,
        Part("GroupNormalization", inputs, ["affine"], attributes),
        Part("QuickGelu", ["affine"], ["result"], {"alpha": 1.0}, "com.microsoft"),
    ]
    standard = Parts(_with_transpositions(arrays, nodes), more, 21)
    return {"InstanceNormalization, QuickGelu": one_by_one, "GroupNormalization": standard}


def _affine() -> list[Part]:
    """normal becomes affine; `channels` is the shape of scale and bias."""
    return [
        Part("Reshape", ["scale", "channels"], ["scale_nd"]),
        Part("Reshape", ["bias", "channels"], ["bias_nd"]),
        Part("Mul", ["normal", "scale_nd"], ["scaled"]),
        Part("Add", ["scaled", "bias_nd"], ["affine"]),
    ]


def _instance(arrays: Arrays) -> dict[str, Parts]:
    vectors, constants = _flat(arrays, "scale", "bias")
    inputs = ["image", "scale_1d", "bias_1d"]
    nodes = [
        *vectors,
        Part("InstanceNormalization", inputs, ["affine"], {"epsilon": EPSILON}),
        Part("Relu", ["affine"], ["result"]),
    ]
    return {"InstanceNormalization, Relu": Parts(_with_transpositions(arrays, nodes), constants)}


def _batch(arrays: Arrays) -> dict[str, Parts]:
    """BatchNormalization in training mode is not in the CPU's kernels; its parts are."""
    rank = len(arrays.problem.shape)
    memory = (0, *range(1, rank - 1)) if arrays.problem.layout == "L" else (0, *range(2, rank))
    sizes = [1] * rank
    sizes[-1 if arrays.problem.layout == "L" else 1] = -1
    nodes = [*_normal(), *_affine()[:3], Part("Add", ["scaled", "bias_nd"], ["y"])]
    constants = {
        "axes": np.array(memory, np.int64),
        "channels": np.array(sizes, np.int64),
        "epsilon": np.array(EPSILON, numpy_dtype(arrays.problem.dtype)),
    }
    return {"ReduceMean, Sub, Div": Parts(nodes, constants)}


def _stored(arrays: Arrays) -> dict[str, Parts]:
    vectors, constants = _flat(arrays, "scale", "bias", "mean", "variance")
    inputs = ["image", "scale_1d", "bias_1d", "mean_1d", "variance_1d"]
    kind = arrays.problem.case.args.get("activation")
    norm = Part(
        "BatchNormalization", inputs, ["affine" if kind else "result"], {"epsilon": EPSILON}
    )
    nodes = [*vectors, norm]
    if kind == "relu":
        nodes.append(Part("Relu", ["affine"], ["result"]))
    if kind == "swish":
        nodes.append(Part("QuickGelu", ["affine"], ["result"], {"alpha": 1.0}, "com.microsoft"))
    return {"BatchNormalization": Parts(_with_transpositions(arrays, nodes), constants)}


def _normal() -> list[Part]:
    """x becomes normal, over `axes`."""
    return [
        Part("ReduceMean", ["x", "axes"], ["mean"]),
        Part("Sub", ["x", "mean"], ["centered"]),
        Part("Mul", ["centered", "centered"], ["squares"]),
        Part("ReduceMean", ["squares", "axes"], ["variance"]),
        Part("Add", ["variance", "epsilon"], ["safe"]),
        Part("Sqrt", ["safe"], ["deviation"]),
        Part("Div", ["centered", "deviation"], ["normal"]),
    ]


def _any_axes(arrays: Arrays) -> dict[str, Parts]:
    nodes = _normal()
    nodes[-1] = Part("Div", ["centered", "deviation"], ["y"])
    constants: dict[str, np.ndarray] = {
        "axes": np.array(arrays.problem.axes, np.int64),
        "epsilon": np.array(EPSILON, np.float32),
    }
    standard = Part("MeanVarianceNormalization", ["x"], ["y"], {"axes": list(arrays.problem.axes)})
    return {
        "ReduceMean, Sub, Div": Parts(nodes, constants),
        "MeanVarianceNormalization": Parts([standard]),
    }
