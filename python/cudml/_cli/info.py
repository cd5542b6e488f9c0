"""``python -m cudml info``: what this installation is, on one page or as JSON."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from typing import Any

import cudml
from cudml import _core

# Looked up, not imported, which would take seconds for some.
_LIBRARIES = ("numpy", "ml_dtypes", "matplotlib", "torch", "cupy", "jax", "numba")
_WHEELS = {"cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x")}  # of another name


def run(as_json: bool) -> int:
    facts = collect()
    print(json.dumps(facts, indent=2) if as_json else "\n".join(_page(facts)))
    return 0


def collect() -> dict[str, Any]:
    """Everything that is said, as JSON would hold it."""
    return {
        **_core.build_info(),
        "threads": cudml.get_num_threads(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "libraries": {name: _version(name) for name in _LIBRARIES},
    }


def _version(name: str) -> str | None:
    for distribution in (name, *_WHEELS.get(name, ())):
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _page(facts: dict[str, Any]) -> list[str]:
    found = facts["libraries"]
    missing = [name for name, version in found.items() if version is None]
    rows = [
        ("version", facts["version"]),
        ("compiler", facts["compiler"]),
        ("instruction sets", _sets(facts)),
        ("CPU features", " ".join(facts["cpu_features"]) or "none known"),
        ("threads", str(facts["threads"])),
        ("Python", f"{facts['python']} on {facts['system']}"),
        ("libraries", ", ".join(f"{name} {v}" for name, v in found.items() if v is not None)),
        ("not found", ", ".join(missing) or "nothing"),
        *_cuda(facts["cuda"]),
    ]
    return [f"{label:<18}{text}" for label, text in rows]


def _sets(facts: dict[str, Any]) -> str:
    return f"{', '.join(facts['instruction_sets'])} built; {facts['instruction_set']} in use"


def _cuda(cuda: dict[str, Any]) -> list[tuple[str, str]]:
    why = f": {cuda['why']}" if cuda["why"] else ""
    if not cuda["built"]:
        return [("CUDA", f"not built in{why}"), ("devices", "cpu")]
    places = ", ".join(cuda["architectures"])
    built = f"built in, toolkit {cuda['toolkit']}" + (f", for {places}" if places else "")
    rows = [("CUDA", built), ("devices", "cpu" if cuda["devices"] else f"cpu; no GPU{why}")]
    for number, device in enumerate(cuda["devices"]):
        memory = f"{device['memory_bytes'] / 2**30:.0f} GiB"
        name = f"{device['name']}, compute capability {device['compute_capability']}, {memory}"
        rows.append((f"  cuda:{number}", name))
    return rows
