"""The cost of one call on tiny arrays: cudml beside numpy.add and PyTorch's own operators.

Run it on a quiet machine:

    python benchmarks/call_overhead.py [--backend cuda] [--rounds 41] [--calls 2000] [--json FILE]

Every contender works on a few elements, so that what is timed is the way in and out. Contenders
take turns in every round, in one process; a turn is many calls in a loop whose own cost, that of an
empty statement, is measured in the same round and taken off. Shown are nanoseconds per call: the
median of the rounds and the middle four fifths. PyTorch is left out where it is not installed.
With --backend cuda its tensors are on the GPU, and a turn is what the GPU's queue takes at once:
what is timed is the host's part, launches included.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from timeit import Timer
from typing import Any

import numpy as np

import cudml
from cudml import directml

SIZES, POOLED, PADDED = (1, 1, 4, 4), (1, 1, 3, 3), (1, 1, 6, 6)
CALLS = {"cpu": 2000, "cuda": 200}  # a GPU's queue holds some thousand launches
NUMPY, TORCH = "numpy.add(a, b, out)", "F.max_pool2d(t, 2, 1)"


@dataclass(frozen=True)
class Row:
    """Nanoseconds per call of one contender, and its ratios to the calls of other libraries."""

    arrays: str
    call: str
    median: float
    p10: float
    p90: float
    to_numpy_add: float
    to_torch_pooling: float | None

    def line(self) -> str:
        torch = "" if self.to_torch_pooling is None else f"{self.to_torch_pooling:8.2f}"
        spread = f"{self.p10:7.0f} - {self.p90:<7.0f}"
        return (
            f"{self.arrays:<9}{self.call:<48}{self.median:7.0f}  {spread}"
            f"{self.to_numpy_add:8.2f}  {torch}"
        )


HEADER = f"{'arrays':<9}{'call':<48}{'ns':>7}  {'p10':>7} - {'p90':<7}{'/ add':>8}  {'/ pool2d':>8}"


def descriptors() -> dict[str, Any]:
    """Max pooling, padding and normalization of one tiny tensor, as DirectML describes them."""
    x, y, wide = (directml.BufferTensorDesc("FLOAT32", s) for s in (SIZES, POOLED, PADDED))
    return {
        "pool": directml.MaxPooling2OperatorDesc(
            InputTensor=x, OutputTensor=y, OutputIndicesTensor=None, Strides=[1, 1],
            WindowSize=[2, 2], StartPadding=[0, 0], EndPadding=[0, 0], Dilations=[1, 1],
        ),
        "pad": directml.PaddingOperatorDesc(
            InputTensor=x, OutputTensor=wide, PaddingMode="EDGE", PaddingValue=0,
            StartPadding=[0, 0, 1, 1], EndPadding=[0, 0, 1, 1],
        ),
        "norm": directml.MeanVarianceNormalization2OperatorDesc(
            InputTensor=x, OutputTensor=x, Axes=[2, 3], UseMean=True, UseVariance=True,
            Epsilon=1e-5,
        ),
    }  # fmt: skip


OURS = {
    "compiled max pooling, out=": "pool(x, out=y)",
    "compiled max pooling": "pool(x)",
    "compiled padding, out=": "pad(x, out=wide)",
    "compiled normalization, out=": "norm(x, out=z)",
    "cudml.max_pooling(x, 2, out=y)": "cudml.max_pooling(x, 2, out=y)",
    "cudml.max_pooling(x, 2)": "cudml.max_pooling(x, 2)",
    "cudml.average_pooling(x, 2)": "cudml.average_pooling(x, 2)",
    "cudml.padding(x, (0,0,1,1), (0,0,1,1))": "cudml.padding(x, (0,0,1,1), (0,0,1,1))",
    "cudml.mean_variance_normalization(x, axes=3)": "cudml.mean_variance_normalization(x, axes=3)",
}

# The same of PyTorch's tensors, where no gradient is wanted.
THROUGH_TORCH = {
    text.replace("cudml.", "cudml.torch."): text.replace("cudml.", "cudml.torch.")
    for text in OURS
    if text.startswith("cudml.") and "out=" not in text
}

# PyTorch's functions, F, and cudml's of the same signatures, G; a g asks for gradients, as weights
# do, and l has its channels last.
FUNCTIONS = {
    "avg_pool2d(t, 2, 1)": "{}.avg_pool2d(t, 2, 1)",
    "avg_pool2d(l, 2, 1)": "{}.avg_pool2d(l, 2, 1)",
    "group_norm(t, 1, q, p)": "{}.group_norm(t, 1, q, p)",
    "batch_norm(t, p, q, q, p)": "{}.batch_norm(t, p, q, q, p)",
    "avg_pool2d(g, 2, 1)": "{}.avg_pool2d(g, 2, 1)",
    "group_norm(g, 1, w, w)": "{}.group_norm(g, 1, w, w)",
    "avg_pool2d's backward": "pooled_{}.backward(of_pooled, retain_graph=True)",
    "group_norm's backward": "grouped_{}.backward(g, retain_graph=True)",
}


def in_torch(space: dict[str, Any]) -> dict[str, str]:
    """Calls of both, whose tensors become part of the space."""
    t = space["t"]
    space |= {"p": t.new_zeros(1), "q": t.new_ones(1), "w": t.new_ones(1).requires_grad_()}
    space |= {"g": t.clone().requires_grad_(), "l": t.new_ones(1, 4, 4, 2).permute(0, 3, 1, 2)}
    for library in "FG":
        functions = space[library]
        space[f"pooled_{library}"] = functions.avg_pool2d(space["g"], 2, 1)
        space[f"grouped_{library}"] = functions.group_norm(space["g"], 1, space["w"], space["w"])
    space["of_pooled"] = space["pooled_F"].detach()
    return {
        f"{library}.{name}": text.format(library)
        for name, text in FUNCTIONS.items()
        for library in "FG"
    }


def check(space: dict[str, Any]) -> None:
    """What is timed is done: the compiled operators' outputs are those of the functions."""
    x = np.arange(16, dtype=np.float32).reshape(SIZES)
    space["x"][...] = space["as_array"](x)
    wanted = {
        "y": cudml.max_pooling(x, 2),
        "wide": cudml.padding(x, (0, 0, 1, 1), (0, 0, 1, 1), mode="edge"),
        "z": cudml.mean_variance_normalization(x, axes=(2, 3), epsilon=float(np.float32(1e-5))),
    }
    for call, out in (("pool", "y"), ("pad", "wide"), ("norm", "z")):
        assert space[call](space["x"], out=space[out]) is space[out]
        assert space["is_same"](space["as_numpy"](space[out]), wanted[out]), call


def numpy_contenders() -> dict[tuple[str, str], Timer]:
    names = {name: cudml.Operator(d).compile("cpu") for name, d in descriptors().items()}
    shapes = {"x": SIZES, "y": POOLED, "z": SIZES, "wide": PADDED}
    arrays = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    a, b, c = (np.ones(SIZES, np.float32) for _ in range(3))
    space = {**names, **arrays, "cudml": cudml, "numpy": np, "a": a, "b": b, "c": c,
             "as_array": np.asarray, "as_numpy": np.asarray,
             "is_same": np.array_equal}  # fmt: skip
    check(space)
    others = {NUMPY: "numpy.add(a, b, c)", "numpy.add(a, b)": "numpy.add(a, b)"}
    return {
        ("NumPy", call): Timer(text, globals=space) for call, text in {**others, **OURS}.items()
    }


def torch_contenders(device: str = "cpu") -> dict[tuple[str, str], Timer]:
    """Nothing where PyTorch is not there."""
    try:
        import torch

        from cudml.torch.nn import functional
    except ImportError:
        return {}
    torch.set_num_threads(1)
    names = {name: cudml.Operator(d).compile(device) for name, d in descriptors().items()}
    shapes = {"x": SIZES, "y": POOLED, "z": SIZES, "wide": PADDED}
    arrays = {name: torch.ones(shape, device=device) for name, shape in shapes.items()}
    t, u, v = (torch.ones(SIZES, device=device) for _ in range(3))
    space = {**names, **arrays, "cudml": cudml, "torch": torch, "t": t, "u": u, "v": v,
             "F": torch.nn.functional, "G": functional,
             "as_array": lambda a: torch.from_numpy(a).to(device),
             "as_numpy": lambda t: t.cpu().numpy(),
             "is_same": np.array_equal if device == "cpu" else np.allclose}  # fmt: skip
    check(space)
    others = {
        "torch.add(t, u, out=v)": "torch.add(t, u, out=v)",
        "torch.add(t, u)": "torch.add(t, u)",
        TORCH: "F.max_pool2d(t, 2, 1)",
        "F.pad(t, (1, 1, 1, 1), 'replicate')": "F.pad(t, (1, 1, 1, 1), 'replicate')",
    }
    return {
        ("torch", call): Timer(text, globals=space)
        for call, text in {**others, **OURS, **THROUGH_TORCH, **in_torch(space)}.items()
    }


def nanoseconds(
    contenders: dict[tuple[str, str], Timer],
    rounds: int,
    calls: int,
    settle: Callable[[], Any] = lambda: None,
) -> dict[tuple[str, str], list[float]]:
    """Per call and round; the order alternates, the empty loop of the round is taken off. `settle`
    comes before each turn."""
    times: dict[tuple[str, str], list[float]] = {name: [] for name in contenders}
    empty = Timer("pass")
    for timer in contenders.values():
        timer.timeit(calls)  # fills caches and the branch predictor
    for k in range(rounds):
        loop = empty.timeit(calls)
        names = list(contenders)
        for name in names if k % 2 == 0 else reversed(names):
            settle()
            times[name].append((contenders[name].timeit(calls) - loop) / calls * 1e9)
    return times


def rows_of(times: dict[tuple[str, str], list[float]]) -> list[Row]:
    def median(name: tuple[str, str]) -> float | None:
        return float(np.median(times[name])) if name in times else None

    add, pooling = median(("NumPy", NUMPY)), median(("torch", TORCH))
    assert add
    found = []
    for (arrays, call), spent in times.items():
        low, middle, high = (float(v) for v in np.percentile(spent, [10, 50, 90]))
        ratio = middle / pooling if pooling else None
        found.append(Row(arrays, call, middle, low, high, middle / add, ratio))
    return found


def machine() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    model = names[0] if names else platform.machine()
    return f"{model}, {len(os.sched_getaffinity(0))} CPUs"


def versions() -> str:
    torch = sys.modules.get("torch")
    return (
        f"cudml {cudml.__version__}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"PyTorch {torch.__version__ if torch else 'not there'}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--calls", type=int, help=f"per contender and round ({CALLS})")
    parser.add_argument("--json", metavar="FILE", help="write the rows to FILE as well")
    options = parser.parse_args()
    options.calls = options.calls or CALLS[options.backend]
    contenders = {**numpy_contenders(), **torch_contenders(options.backend)}
    gc.collect()
    gc.freeze()
    rounds, calls = max(options.rounds, 1), max(options.calls, 1)
    more = {"settle": sys.modules["torch"].cuda.synchronize} if options.backend == "cuda" else {}
    rows = rows_of(nanoseconds(contenders, rounds, calls, **more))
    load = os.getloadavg()[0]
    print(f"{machine()}; load {load:.2f}; {versions()}")
    print(f"nanoseconds per call; median of {options.rounds} interleaved rounds of "
          f"{options.calls} calls; ratios to {NUMPY} and {TORCH}\n")  # fmt: skip
    print(HEADER)
    for row in rows:
        print(row.line())
    if options.json:
        facts = {"machine": machine(), "versions": versions(), "rounds": options.rounds,
                 "calls": options.calls, "load": load}  # fmt: skip
        content = {**facts, "rows": [asdict(row) for row in rows]}
        Path(options.json).write_text(json.dumps(content, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
