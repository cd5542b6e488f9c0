"""How long a call should take on an H100, by a model of its machine code: never a measurement."""

from __future__ import annotations

import importlib.resources
import json
from dataclasses import dataclass

import cudml

DEVICE = "sm_90"
NAME = "H100"
MULTIPROCESSORS = 132
BYTES_A_SECOND = 3.0e12  # what a long copy reaches
NEEDED = 40 * 1024  # bytes on their way in each multiprocessor that keep the memory busy
INSTRUCTIONS_A_SECOND = 29.6e12  # of single lanes, every slot taken
LAUNCH = 2e-6  # from one launch to the next


def _parts_of(kind: str) -> tuple[str, ...]:
    """Two passes of sums, each joined, totals and dx; the second reads few parts, or all of them
    where there is an activation."""
    join, total = "mvn_grad_cell_join", "mvn_grad_total_join"
    return (f"mvn_grad_{kind}_sums", join, join, total, total, f"mvn_grad_{kind}_apply")


# The kernel functions of what is not called as its only one.
FUNCTIONS = {
    "average_pool_grad_pairs": ("pool_grad_pairs",),
    "average_pool_grad_place": ("average_pool_grad_lanes",),
    "max_pool_grad_pairs": ("pool_grad_pairs",),
    "max_pool_grad_place": ("max_pool_grad_lanes",),
    "merge_generic": ("merge",),
    "mvn_cluster": ("mvn_shared",),
    "mvn_columns": ("mvn_column_moments", "mvn_column_join", "mvn_column_apply"),
    "mvn_grad_columns": _parts_of("column"),
    "mvn_grad_generic": ("mvn_grad_state", "mvn_grad_apply"),
    "mvn_grad_pieces": _parts_of("piece"),
    "mvn_rows": ("mvn_warp",),
    "mvn_split": ("mvn_split_moments", "mvn_join", "mvn_split_apply"),
    "normalize_columns": ("normalize_cell", "mvn_column_apply"),
    "normalize_generic": ("normalize",),
    "normalize_runs": ("normalize_cell", "normalize_runs"),
    "normalize_split": ("normalize_cell", "mvn_split_apply"),
    "pad_wide": ("pad_strided",),
    "statistics_columns": ("mvn_column_moments", "mvn_column_join", "statistics_store"),
    "statistics_generic": ("mvn_generic", "statistics_store"),
    "statistics_rows": ("mvn_warp", "statistics_store"),
    "statistics_split": ("mvn_split_moments", "mvn_join", "statistics_store"),
    "unpool_generic": ("unpool_clear", "unpool_claim", "unpool_fetch"),
    "unpool_near": ("unpool_near",),
}


@dataclass(frozen=True)
class Prediction:
    """Seconds; the whole is that of the launches and the longest of the other three."""

    seconds: float
    bound: str
    memory: float
    issue: float
    latency: float
    launch: float

    def __str__(self) -> str:
        names = ("memory", "issue", "latency", "launch")
        parts = ", ".join(f"{name} {getattr(self, name) * 1e6:.3g}" for name in names)
        time = f"{self.seconds * 1e6:.3g} us on an {NAME}, bound by {self.bound} ({parts})"
        return (
            f"  predicted  {time}\n{' ' * 13}by a model of the machine code: nothing was measured"
        )


def functions_of(kernel: str) -> tuple[str, ...]:
    """The kernel functions that a choice launches."""
    named = "pool_tile" if kernel.startswith("pool_tile") else kernel
    return tuple(f"{name}_kernel" for name in FUNCTIONS.get(named, (named,)))


def codes() -> dict[str, dict[str, list[float]]]:
    """By kernel function and bytes of an element: bytes on their way in a multiprocessor, and
    instructions for an element; medians of all instantiations. tools/kernel_report.py writes it."""
    text = importlib.resources.files("cudml._cli").joinpath("machine_code.json").read_text()
    found: dict[str, dict[str, list[float]]] = json.loads(text)
    return found


def predicted(said: cudml.Explanation, item: int, written: int) -> Prediction | None:
    """`item` and `written` are bytes, of an element and of the outputs. None where there is no
    model, or nothing to do."""
    if said.device != DEVICE or said.grid is None or written <= 0:
        return None
    code = codes()
    on_their_way, instructions = float("inf"), 0.0
    names = functions_of(said.kernel)
    for name in names:
        sizes = code[name]
        size = min(sizes, key=lambda s: abs(int(s) - item))
        in_flight, each = sizes[size]
        # What these read is a few numbers for each group, which lie in the L2.
        if not name.endswith(("cell_kernel", "join_kernel", "store_kernel")):
            on_their_way = min(on_their_way, max(in_flight, 32.0))
            # Counted for the few numbers that they store, or for an output on a path of which it
            # takes a small part.
            if not name.endswith(("moments_kernel", "separable_kernel")):
                instructions += each * written / int(size)
    busy = min(1.0, said.grid[0] / MULTIPROCESSORS)  # multiprocessors that have a block
    memory = said.bytes / BYTES_A_SECOND
    bounds = {
        "memory": memory,
        "issue": instructions / INSTRUCTIONS_A_SECOND / busy,
        "latency": memory * NEEDED / on_their_way / busy,
        "launch": LAUNCH * len(names),
    }
    longest = max(bounds["memory"], bounds["issue"], bounds["latency"])
    bound = max(bounds, key=bounds.__getitem__)
    return Prediction(longest + bounds["launch"], bound, **bounds)
