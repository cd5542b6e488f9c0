"""ONNX Runtime on the CPU: one small model for each way, with inputs and outputs bound."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime as ort
from arrays import Arrays
from cases import AVERAGE, GRADIENTS, LP, MAX, MVN, NORMALIZE, PAD, UNPOOL
from onnx import TensorProto, helper, numpy_helper

from . import AbsentError, Call
from .onnx_grads import grad_ways, saved
from .onnx_norms import norm_ways
from .onnx_parts import Part, Parts

_MODES = {"constant": "constant", "edge": "edge", "reflection": "reflect"}
_UNKNOWN = ("No Op registered", "not a registered function")
_TYPES = {
    "float16": TensorProto.FLOAT16,
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "uint8": TensorProto.UINT8,
    "bfloat16": TensorProto.BFLOAT16,
    "int64": TensorProto.INT64,
}


def models(arrays: Arrays) -> dict[str, Parts]:
    """Parts of the models, by the name of the way."""
    made: dict[str, Callable[[Arrays], dict[str, Parts]]] = {
        MAX: _pooling,
        AVERAGE: _pooling,
        LP: _pooling,
        PAD: _padding,
        UNPOOL: _unpooling,
        MVN: norm_ways,
        NORMALIZE: norm_ways,
        **dict.fromkeys(GRADIENTS, grad_ways),
    }
    make = made.get(arrays.problem.case.op)
    return make(arrays) if make else {}


def bound(parts: Parts, arrays: Arrays, threads: int, spins: bool) -> Call:
    """The call, which writes the arrays' outputs."""
    problem = arrays.problem
    names = ["x", "grad", "scale", "bias"]
    if problem.case.op == NORMALIZE:
        names += ["mean", "variance"]
    inputs = {name: arrays.memory(name) for name in names if name in arrays}
    if "positions" in arrays:
        inputs["positions"] = arrays.memory("positions").astype(np.int64)
    outputs = {
        name: arrays.flat(name) if name in ("dscale", "dbias") else arrays.memory(name)
        for name in problem.compared
    }
    if problem.case.op in GRADIENTS and not problem.case.step:
        inputs |= saved(arrays, parts.used())
    if problem.index:
        outputs["indices"] = np.zeros(outputs["y"].shape, np.int64)
    return _call(parts, inputs, outputs, threads, spins)


def relu(x: np.ndarray, y: np.ndarray, threads: int) -> Call:
    """The shortest operator, whose threads then wait as they do by default."""
    return _call(Parts([Part("Relu", ["x"], ["y"])]), {"x": x}, {"y": y}, threads, True)


def _call(
    parts: Parts,
    inputs: dict[str, np.ndarray],
    outputs: dict[str, np.ndarray],
    threads: int,
    spins: bool,
) -> Call:
    try:
        session = _session(_model(parts, inputs, outputs), threads, spins)
    except Exception as error:
        if any(said in str(error) for said in _UNKNOWN):
            raise AbsentError(f"this build does not have {parts.nodes[-1].op}") from error
        raise
    binding = session.io_binding()
    for name, a in inputs.items():
        if name in parts.used():
            binding.bind_ortvalue_input(name, _value(a))
    for name, a in outputs.items():
        binding.bind_ortvalue_output(name, _value(a))
    options = ort.RunOptions()
    held = (inputs, outputs)  # a binding does not keep what it is given

    def run(_: Any = held) -> None:
        session.run_with_iobinding(binding, options)

    return run


def _value(a: np.ndarray) -> Any:
    """The same memory."""
    if a.dtype.name == "bfloat16":
        stored = a.view(np.uint16)
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(stored, TensorProto.BFLOAT16)
    return ort.OrtValue.ortvalue_from_numpy(a)


@functools.lru_cache(maxsize=16)  # one for the same model on other buffers
def _session(model: bytes, threads: int, spins: bool) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    # A pool that spins after its call takes the core that the next contender needs.
    for pool in ("intra", "inter"):
        options.add_session_config_entry(f"session.{pool}_op.allow_spinning", str(int(spins)))
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _model(parts: Parts, inputs: dict[str, Any], outputs: dict[str, Any]) -> bytes:
    def info(name: str, a: np.ndarray) -> Any:
        return helper.make_tensor_value_info(name, _TYPES[a.dtype.name], a.shape)

    used = parts.used()
    nodes = [
        helper.make_node(p.op, p.inputs, p.outputs, domain=p.domain, **p.attributes)
        for p in parts.nodes
    ]
    graph = helper.make_graph(
        nodes,
        "problem",
        [info(name, a) for name, a in inputs.items() if name in used],
        [info(name, a) for name, a in outputs.items()],
        [numpy_helper.from_array(a, name) for name, a in parts.constants.items()],
    )
    imports = [helper.make_opsetid("", parts.opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return bytes(model.SerializeToString())


def _pooling(arrays: Arrays) -> dict[str, Parts]:
    problem = arrays.problem
    op = {MAX: "MaxPool", AVERAGE: "AveragePool", LP: "LpPool"}[problem.case.op]
    attributes: dict[str, Any] = {
        "kernel_shape": list(problem.window),
        "strides": list(problem.strides),
        "pads": [*problem.pad, *problem.pad],
    }
    if set(problem.dilations) != {1}:
        attributes["dilations"] = list(problem.dilations)
    if problem.ceil:
        attributes["ceil_mode"] = 1
    if op == "LpPool":
        attributes["p"] = problem.case.args["p"]
    if op == "AveragePool":
        attributes["count_include_pad"] = int(problem.case.args.get("include_padding", False))
    more = ["indices"] if problem.index else []
    found = {op: _channels_first(arrays, Part(op, ["x"], ["y", *more], attributes))}
    if problem.case.args["window"] is None:
        power = {"p": problem.case.args["p"]} if op == "LpPool" else {}
        found[f"Global{op}"] = _channels_first(arrays, Part(f"Global{op}", ["x"], ["y"], power))
    return found


def _channels_first(arrays: Arrays, part: Part) -> Parts:
    """With transpositions around it where the channels are last in memory."""
    problem, rank = arrays.problem, len(arrays.problem.shape)
    is_last = problem.layout == "L" or problem.case.as_is
    if not is_last:
        return Parts([part])
    to, back = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
    return Parts(
        [
            Part("Transpose", ["x"], ["x_first"], {"perm": to}),
            Part(part.op, ["x_first"], ["y_first"], part.attributes, part.domain),
            Part("Transpose", ["y_first"], ["y"], {"perm": back}),
        ]
    )


def _unpooling(arrays: Arrays) -> dict[str, Parts]:
    """Positions are int64, and count over the whole result, as here: of channels first."""
    if arrays.problem.layout == "L":
        return {}
    window = {"kernel_shape": list(arrays.problem.window), "strides": list(arrays.problem.strides)}
    return {"MaxUnpool": Parts([Part("MaxUnpool", ["x", "positions"], ["y"], window)])}


def _padding(arrays: Arrays) -> dict[str, Parts]:
    problem = arrays.problem
    modes = problem.case.args["mode"]
    each = [modes] * len(problem.shape) if isinstance(modes, str) else list(modes)
    nodes, constants, source = [], {}, "x"
    used = [m for m in dict.fromkeys(each) if any(_pads(arrays, each, m))]
    if any(mode not in _MODES for mode in used):
        return {}
    for mode in used:
        target = "y" if mode == used[-1] else f"y_{mode}"
        constants[f"pads_{mode}"] = np.array(_pads(arrays, each, mode), np.int64)
        part = Part("Pad", [source, f"pads_{mode}"], [target], {"mode": _MODES[mode]})
        nodes.append(part)
        source = target
    return {"Pad" if len(nodes) == 1 else "Pad twice": Parts(nodes, constants)}


def _pads(arrays: Arrays, modes: list[str], mode: str) -> list[int]:
    problem = arrays.problem
    order = problem.memory_axes
    starts = [problem.start[a] if modes[a] == mode else 0 for a in order]
    return starts + [problem.end[a] if modes[a] == mode else 0 for a in order]
