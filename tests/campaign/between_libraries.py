"""What calls take between those of other libraries, whose threads go on spinning for a while.

`python tests/campaign/between_libraries.py` on an idle machine: medians in ms, and their ratios to
the time alone. Every way takes its turn in each round, so that all of them meet the same machine.
`--after onnx sleep` leaves PyTorch out, and its OpenMP runtime with it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import cudml

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import machine

Call = Callable[[], Any]
SETTLING = 30  # calls until a processor that has slept is as fast as ever
SMALL = (128, 1024)  # of what runs between: it must not push our arrays out of the caches


def layer_norm(rows: int, columns: int, dtype: str = "float32") -> Call:
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype(dtype)
    scale, bias = np.ones((1, columns), dtype), np.zeros((1, columns), dtype)
    out = np.empty_like(x)
    return lambda: cudml.mean_variance_normalization(x, scale, bias, axes=1, out=out)


def max_pool(*shape: int) -> Call:
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    out = cudml.max_pooling(x, 3, 2)
    return lambda: cudml.max_pooling(x, 3, 2, out=out)


def average_grad(*shape: int) -> Call:
    grad = np.ones((*shape[:2], shape[2] - 2, shape[3] - 2), "float32")
    out = np.empty(shape, "float32")
    return lambda: cudml.average_pooling_grad(grad, shape, 3, out=out)


def pad(*shape: int) -> Call:
    x = np.ones(shape, "float32")
    out = cudml.padding(x, (0, 0, 1, 1), (0, 0, 1, 1), mode="reflection")
    return lambda: cudml.padding(x, (0, 0, 1, 1), (0, 0, 1, 1), mode="reflection", out=out)


CASES: dict[str, Call] = {
    "LayerNorm 6272x384": layer_norm(6272, 384),
    "LayerNorm 512x768": layer_norm(512, 768),
    "LayerNorm 4096x1024 half": layer_norm(4096, 1024, "float16"),
    "maximum 3x3/2 of 8x64x56x56": max_pool(8, 64, 56, 56),
    "maximum 3x3/2 of 1x16x112x112": max_pool(1, 16, 112, 112),
    "average gradient 3x3 of 4x64x56x56": average_grad(4, 64, 56, 56),
    "reflection of 8x64x56x56": pad(8, 64, 56, 56),
}


def torch_call(threads: int) -> Call:
    import torch

    torch.set_num_threads(threads)
    x, y = torch.ones(SMALL), torch.empty(SMALL)
    return lambda: torch.sqrt(x, out=y)


def onnx_call(threads: int) -> Call:
    import onnxruntime
    from onnx import TensorProto, helper

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, SMALL)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, SMALL)
    graph = helper.make_graph([helper.make_node("Erf", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feed = {"x": np.ones(SMALL, "float32")}
    return lambda: session.run(None, feed)


WAYS: dict[str, Callable[[int], Call]] = {
    "torch": torch_call,
    "onnx": onnx_call,
    "sleep": lambda threads: lambda: time.sleep(5e-3),
}


def timed(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def medians(call: Call, ways: dict[str, Call], rounds: int) -> dict[str, float]:
    """Of the last of many calls, and of one right after each way."""
    times: dict[str, list[float]] = {"alone": [], **{way: [] for way in ways}}
    for _ in range(rounds):
        for _ in range(SETTLING):  # what the way before left spinning falls asleep
            call()
        times["alone"].append(timed(call))
        for way, between in ways.items():
            call()
            between()
            times[way].append(timed(call))
    return {way: statistics.median(t) * 1e3 for way, t in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--after", nargs="+", choices=WAYS, default=list(WAYS))
    args = parser.parse_args()
    cudml.set_num_threads(args.threads)
    ways = {way: WAYS[way](args.threads) for way in args.after}
    print(f"{machine.facts('cpu')['device']}, {args.threads} threads")
    print(f"{'':36}{'alone':>8}" + "".join(f"{way:>8}{'':8}" for way in ways))
    for name, call in CASES.items():
        if args.only not in name:
            continue
        found = medians(call, ways, args.rounds)
        rows = "".join(f"{found[w]:8.3f} ({found[w] / found['alone']:4.2f})" for w in ways)
        print(f"{name:36}{found['alone']:8.3f}{rows}", flush=True)


if __name__ == "__main__":
    main()
