"""Finds a CUDA toolkit: a prefix with bin/nvcc and include/cuda_runtime.h."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

PIP_PACKAGES = [
    f"nvidia-{part}==13.0.*"
    for part in ("cuda-nvcc", "nvvm", "cuda-cccl", "cuda-runtime", "cuda-crt")
]
ALL_ARCHITECTURES = ["75", "80", "86", "89", "90", "100", "120"]


class Toolkit(NamedTuple):
    nvcc: Path
    include: Path
    cudart: Path
    version: str


def _prefixes() -> list[Path]:
    named = [os.environ.get(name) for name in ("CUDML_CUDA_HOME", "CUDA_HOME", "CUDA_PATH")]
    prefixes = [Path(home) for home in named if home]
    on_path = shutil.which("nvcc")
    if on_path:
        prefixes.append(Path(on_path).resolve().parent.parent)
    prefixes.append(Path("/usr/local/cuda"))
    prefixes += sorted(Path("/usr/local").glob("cuda-*"), reverse=True)
    roots = [sysconfig.get_path("purelib"), *sys.path]
    return prefixes + [Path(root) / "nvidia" / "cu13" for root in roots if root]


def find() -> Toolkit | None:
    """The first complete toolkit; the environment's own choice stands before what is installed."""
    for prefix in _prefixes():
        nvcc, include = prefix / "bin" / "nvcc", prefix / "include"
        libraries = (prefix / lib / "libcudart_static.a" for lib in ("lib64", "lib"))
        cudart = next((path for path in libraries if path.exists()), None)
        if nvcc.exists() and (include / "cuda_runtime.h").exists() and cudart:
            text = subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout
            match = re.search(r"release (\d+\.\d+)", text)
            return Toolkit(nvcc, include, cudart, match.group(1) if match else "unknown")
    return None


def architectures() -> list[str]:
    """CUDML_CUDA_ARCHS ("all" or a list such as "80,90"), else this machine's GPUs, else 90."""
    asked = os.environ.get("CUDML_CUDA_ARCHS", "")
    if asked == "all":
        return ALL_ARCHITECTURES
    if asked:
        return [arch for arch in re.split(r"[,; ]+", asked) if arch]
    try:
        query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
        text = subprocess.run(query, capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        text = ""
    return sorted({line.replace(".", "") for line in re.findall(r"^\d+\.\d+$", text, re.M)}) or [
        "90"
    ]


def code_flags(archs: list[str]) -> list[str]:
    """One cubin for each architecture, and PTX of the lowest for GPUs yet to come."""
    numeric = min((int(re.sub(r"\D", "", arch)) for arch in archs), default=75)
    flags = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in archs]
    return [*flags, f"-gencode=arch=compute_{min(numeric, 75)},code=compute_{min(numeric, 75)}"]
